import { readCosts, type StageCosts } from '../../schedule/index.ts'
import { inFile, readCostsJson } from '../costsFile.ts'

/** Costs of the stages that are placed so; what a costs file means depends on the command. */
export type CostsOf = (placement: readonly number[]) => StageCosts

const unit = { F: 1, I: 1, W: 1 }

/** What `--costs` gives: JSON that nobody has looked at. @throws MeshwrightError `SCHEDULE_COSTS` */
export async function readCostsFile(file: string | undefined): Promise<unknown> {
  if (file === undefined) return undefined
  return readCostsJson(file, 'SCHEDULE_COSTS', 'such as {"F": 1, "I": 1, "W": 1, "hop": 0}')
}

/** The costs of a stage (one chunk), one number or a list by stage. */
export function stageCosts(given: unknown, file: string | undefined): CostsOf {
  return (placement) => inFile(file, () => readCosts(given === undefined ? unit : given, placement.length))
}

/**
 * The costs of all chunks of a rank together, one number or a list by rank, so that schedules with different numbers of
 * chunks do the same work: each chunk takes an equal part.
 */
export function shareCosts(given: unknown, file: string | undefined): CostsOf {
  return (placement) => {
    const chunks = chunksByRank(placement)
    const shares = inFile(file, () => readCosts(given === undefined ? unit : given, chunks.length, 'rank'))
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
