import { MeshwrightError, type SourcePosition } from '../../base/index.ts'
import { readWholeFile } from '../../data/index.ts'
import { readCosts, type StageCosts } from '../../schedule/index.ts'
import { readStandardInput } from '../standardInput.ts'

/** Costs of the stages that are placed so; what a costs file means depends on the command. */
export type CostsOf = (placement: readonly number[]) => StageCosts

const largestCostsBytes = 2 ** 20
const unit = { F: 1, I: 1, W: 1 }

/** What `--costs` gives, `-` for standard input: JSON that nobody has looked at. @throws MeshwrightError `SCHEDULE_COSTS` */
export async function readCostsFile(file: string | undefined): Promise<unknown> {
  if (file === undefined) return undefined
  const bytes =
    file === '-'
      ? await readStandardInput('costs', largestCostsBytes)
      : readWholeFile(file, 'costs', largestCostsBytes)
  try {
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch (cause) {
    const at = positionOf(file)
    throw new MeshwrightError('SCHEDULE_COSTS', `the costs are not JSON: ${(cause as Error).message}`, {
      at,
      hint: 'such as {"F": 1, "I": 1, "W": 1, "hop": 0}',
      cause,
    })
  }
}

/** The costs of a stage (one chunk), one number or a list by stage. */
export function stageCosts(given: unknown, file: string | undefined): CostsOf {
  return (placement) => inFile(file, () => readCosts(given ?? unit, placement.length))
}

/**
 * The costs of all chunks of a rank together, one number or a list by rank, so that schedules with different numbers of
 * chunks do the same work: each chunk takes an equal part.
 */
export function shareCosts(given: unknown, file: string | undefined): CostsOf {
  return (placement) => {
    const chunks = chunksByRank(placement)
    const shares = inFile(file, () => readCosts(given ?? unit, chunks.length))
    const split = (times: readonly number[]): number[] =>
      placement.map((rank) => times[rank]! / chunks[rank]!)
    return { F: split(shares.F), I: split(shares.I), W: split(shares.W), hop: shares.hop }
  }
}

/** Stages of each rank. */
export function chunksByRank(placement: readonly number[]): number[] {
  const chunks = Array.from({ length: Math.max(...placement) + 1 }, () => 0)
  for (const rank of placement) chunks[rank]!++
  return chunks
}

/** Adds the file to the place of what is wrong. */
function inFile<T>(file: string | undefined, read: () => T): T {
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
