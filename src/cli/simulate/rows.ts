import { internalError } from '../../base/index.ts'
import type { RankResult, SimulatedRank, SimulationResult } from '../../simulate/index.ts'
import type { Trace } from '../../trace/index.ts'

/** Ranks that do the same at the same times: a line of every table and drawing. */
export interface Row {
  readonly result: RankResult
  readonly role: string
  /** Copies of all of them. */
  readonly ranks: number
  readonly simulated: SimulatedRank
}

/** By their first rank. */
export function groupRanks(result: SimulationResult): Row[] {
  const { program, ranks, times } = result
  const rows: { -readonly [K in keyof Row]: Row[K] }[] = []
  const byRole = new Map<number, typeof rows>()
  ranks.forEach((rank, index) => {
    const simulated = times.network.ranks[index]
    const role = program.roles[rank.role]
    if (simulated?.rank !== rank.rank || role === undefined) throw internalError(`no rank ${rank.rank}`)
    const known = byRole.get(rank.role) ?? []
    byRole.set(rank.role, known)
    const same = known.find((row) => runAlike(result, row.simulated, simulated))
    if (same !== undefined) {
      same.ranks += rank.copies
      return
    }
    const row = { result: rank, role: role.name, ranks: rank.copies, simulated }
    known.push(row)
    rows.push(row)
  })
  return rows
}

function runAlike({ times }: SimulationResult, one: SimulatedRank, other: SimulatedRank): boolean {
  for (let at = 0; at < one.plan.length; at++)
    for (const time of [times.start, times.end])
      if (time[one.base + at] !== time[other.base + at]) return false
  return true
}

/** `rank 3`, and how many others are like it. */
export function rowName({ result, ranks }: Row): string {
  return ranks === 1 ? `rank ${result.rank}` : `rank ${result.rank} (x ${ranks})`
}

/** The trace of the first rank of each row, as ranks numbered like the rows. */
export function traceOfRows(trace: Trace, rows: readonly Row[]): Trace {
  const indices = new Map(rows.map(({ result }, index) => [result.rank, index]))
  const events = trace.events.flatMap((event) => {
    const rank = indices.get(event.rank)
    return rank === undefined ? [] : [{ ...event, rank }]
  })
  return { ...trace, ranks: rows.length, events }
}
