import { latenciesOf } from './costs.ts'
import type { StageCosts } from './generator.ts'
import { type ScheduleTiming, timeSchedule } from './timing.ts'
import type { Schedule, StageGraph } from './types.ts'

/** What a schedule is worth under given costs, in their unit. */
export interface ScheduleMetrics {
  readonly timing: ScheduleTiming
  readonly makespan: number
  /**
   * 1 - work / span: the work of the busiest actor's chunks, and the longest time from an actor's first to its last
   * action (Qi et al. 2023, tables 4 to 6, where all actors have the same work).
   */
  readonly bubbleFraction: number
  /** By actor. */
  readonly peakActivations: readonly number[]
  /** Activations and cotangents that go from one actor to another. */
  readonly hops: number
  /** No schedule of these stages on these actors takes less: the longest of every actor's way in, work and way out. */
  readonly lowerBound: number
}

export function scheduleMetrics(
  schedule: Schedule,
  costs: StageCosts,
  options: { readonly edges?: StageGraph['edges'] } = {},
): ScheduleMetrics {
  const timing = timeSchedule(schedule, latenciesOf(costs), options)
  const { stages, microbatches, placement } = schedule
  const first = schedule.actors.map(() => Number.POSITIVE_INFINITY)
  const last = schedule.actors.map(() => 0)
  for (const { actor, start, end } of timing.entries) {
    first[actor] = Math.min(first[actor]!, start)
    last[actor] = Math.max(last[actor]!, end)
  }
  const span = Math.max(...last.map((end, actor) => end - first[actor]!))
  const work = Math.max(...timing.busy)
  const edges = options.edges ?? Array.from({ length: stages - 1 }, (_, stage) => [stage, stage + 1] as const)
  const crossing = edges.filter(([from, to]) => placement[from] !== placement[to]).length
  const passes = timing.entries.some(({ actions }) =>
    actions.some(({ phase }) => phase === 'B' || phase === 'I'),
  )
    ? 2
    : 1
  return {
    timing,
    makespan: timing.makespan,
    bubbleFraction: span > 0 ? 1 - work / span : 0,
    peakActivations: timing.peakActivations,
    hops: passes * crossing * microbatches,
    lowerBound: work,
  }
}
