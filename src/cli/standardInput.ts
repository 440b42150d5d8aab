import { MeshwrightError } from '../base/index.ts'

let taken = false

/**
 * Standard input to its end, refused as soon as it is too long. It can be had once.
 *
 * @throws MeshwrightError `DATA_TOO_LARGE`, `DATA_STDIN`
 */
export async function readStandardInput(what: string, maximumBytes: number): Promise<Uint8Array> {
  if (taken)
    throw new MeshwrightError('DATA_STDIN', `standard input is asked for twice, the second time as ${what}`, {
      hint: 'give one of them as a file',
    })
  taken = true
  const parts: Buffer[] = []
  let total = 0
  for await (const part of process.stdin as AsyncIterable<Buffer>) {
    total += part.length
    if (total > maximumBytes)
      throw new MeshwrightError(
        'DATA_TOO_LARGE',
        `the ${what} on standard input has more than ${maximumBytes} bytes`,
        { hint: 'give a smaller one' },
      )
    parts.push(part)
  }
  return Buffer.concat(parts)
}
