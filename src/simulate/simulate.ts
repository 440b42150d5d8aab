import { internalError } from '../base/index.ts'
import { columnKinds, type Program } from '../program/index.ts'
import { measureIdle } from './idle.ts'
import { playLocal } from './local.ts'
import { measureMemory } from './memory.ts'
import { buildNetwork } from './network.ts'
import { playStreams } from './streams.ts'
import { measureTraffic } from './traffic.ts'
import type {
  CostModel,
  RankResult,
  SimulateOptions,
  SimulationResult,
  Times,
  TransferSlack,
} from './types.ts'

/**
 * How long one step of a program would take, where the time goes, and what memory holds meanwhile. Deterministic: costs
 * in, times out. The program should be verified; one that is not is refused only where it cannot be played.
 *
 * @throws MeshwrightError `SIMULATE_DEADLOCK` where ranks wait for each other for ever, `SIMULATE_TRANSFER` and
 *   `SIMULATE_COLLECTIVE` where they do not agree on what they do together
 */
export function simulateProgram(
  program: Program,
  costs: CostModel,
  options: SimulateOptions = {},
): SimulationResult {
  const engine = options.engine ?? 'independent'
  const times = playProgram(program, costs, options)
  const { network, stepSeconds } = times
  const ranks = network.ranks.map(
    (rank): RankResult => ({
      rank: rank.rank,
      copies: rank.copies,
      role: rank.plan.index,
      ...measureIdle(times, rank, engine === 'local'),
      ...measureMemory(times, rank),
    }),
  )
  const total = ranks.reduce((sum, { copies }) => sum + copies, 0) * stepSeconds
  const busy = ranks.reduce((sum, { copies, busySeconds }) => sum + copies * busySeconds, 0)
  return {
    program,
    engine,
    costs: costs.name,
    stepSeconds,
    idleFraction: total > 0 ? Math.max(0, 1 - busy / total) : 0,
    ranks,
    criticalPath: times.criticalPath(),
    ...measureTraffic(network),
    instructions: network.nodes,
    times,
  }
}

/** The times alone, which is the fast part. @throws as `simulateProgram` */
export function playProgram(program: Program, costs: CostModel, options: SimulateOptions = {}): Times {
  const { engine = 'independent', ranksInFull } = options
  const network = buildNetwork(program, costs, ranksInFull)
  return engine === 'local' ? playLocal(network) : playStreams(network, engine === 'turns')
}

/** Of every message, in the order of channels. */
export function transferSlack({ times }: SimulationResult): TransferSlack[] {
  const { network, arrival, stepSeconds } = times
  const needed = neededAt(times)
  const total = times.totalSlack()
  return network.channels.flatMap(({ from, to, first, count }) =>
    Array.from({ length: count }, (_, place): TransferSlack => {
      const message = first + place
      const need = needed.get(network.receiver[message]!) ?? stepSeconds
      return {
        from: network.ranks[from]!.rank,
        to: network.ranks[to]!.rank,
        transfer: network.transfer[message]!,
        arrival: arrival[message]!,
        local: Math.max(0, need - (arrival[message]! + network.receive[message]!)),
        // Differences of sums that round.
        total: Math.max(0, total[message]!),
      }
    }),
  )
}

/** When the first instruction began that needed an exchange, by node of the exchange. */
function neededAt({ network, start }: Times): Map<number, number> {
  const needed = new Map<number, number>()
  for (const { plan, base } of network.ranks)
    for (let at = 0; at < plan.length; at++)
      for (let place = plan.depStart[at]!; place < plan.depStart[at + 1]!; place++) {
        const earlier = plan.deps[place]!
        if (plan.kind[earlier] !== columnKinds.exchange) continue
        const time = start[base + at]!
        if (time < 0) throw internalError(`instruction ${at} has no time`)
        needed.set(base + earlier, Math.min(needed.get(base + earlier) ?? time, time))
      }
  return needed
}
