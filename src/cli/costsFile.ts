import { MeshwrightError, type SourcePosition } from '../base/index.ts'
import { readWholeFile } from '../data/index.ts'
import { readStandardInput } from './standardInput.ts'

const largestCostsBytes = 2 ** 24

/**
 * A file of costs, `-` for standard input: JSON that nobody has looked at.
 *
 * @throws MeshwrightError `code` where it is no JSON, and what reading a file throws
 */
export async function readCostsJson(file: string, code: string, hint: string): Promise<unknown> {
  const bytes =
    file === '-'
      ? await readStandardInput('costs', largestCostsBytes)
      : readWholeFile(file, 'costs', largestCostsBytes)
  try {
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch (cause) {
    const message = `the costs are not JSON: ${(cause as Error).message}`
    throw new MeshwrightError(code, message, { at: positionOf(file), hint, cause })
  }
}

/** Adds the file to the place of what is wrong. */
export function inFile<T>(file: string | undefined, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof MeshwrightError) || file === undefined) throw error
    const { code, message, hint, exitCode, at } = error
    throw new MeshwrightError(code, message, {
      exitCode,
      at: { ...positionOf(file), ...at },
      ...(hint === undefined ? {} : { hint }),
      cause: error,
    })
  }
}

function positionOf(file: string): SourcePosition {
  return { file: file === '-' ? 'standard input' : file }
}
