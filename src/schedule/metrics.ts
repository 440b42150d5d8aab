import { latenciesOf } from './costs.ts'
import { stageFlow } from './dependences.ts'
import type { StageCosts } from './generator.ts'
import { peakHeld } from './held.ts'
import { forwardOrder } from './stage-graph.ts'
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
  /** By actor: most activations that wait for their whole backward. */
  readonly peakActivations: readonly number[]
  /** By actor: the same where the first half of a backward lets go of half of one (see `peakHeld`). */
  readonly peakHeld: readonly number[]
  /** Activations and cotangents that go from one actor to another. */
  readonly hops: number
  /**
   * No schedule of these stages on these actors takes less: the longest of each actor's way in and its work, and of one
   * micro-batch's way through all stages and back.
   */
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
    peakHeld: peakHeld(schedule),
    hops: passes * crossing * microbatches,
    lowerBound: lowerBound(schedule, costs, edges, timing.busy),
  }
}

function lowerBound(
  { stages, microbatches, placement }: Schedule,
  { F, I, W, hop }: StageCosts,
  edges: StageGraph['edges'],
  busy: readonly number[],
): number {
  const { upstream } = stageFlow(stages, edges)
  const apart = (a: number, b: number): number => (placement[a] === placement[b] ? 0 : hop)
  const reached = Array<number>(stages).fill(0)
  /** From a stage's forward to the end of its backward for inputs, over the longest way to the loss and back. */
  let longest = 0
  const returned = Array<number>(stages).fill(0)
  for (const stage of forwardOrder({ stages, microbatches, placement, edges })) {
    for (const from of upstream[stage]!) {
      reached[stage] = Math.max(reached[stage]!, reached[from]! + F[from]! + apart(from, stage))
      returned[stage] = Math.max(returned[stage]!, returned[from]! + I[from]! + apart(from, stage))
    }
    longest = Math.max(longest, reached[stage]! + F[stage]! + I[stage]! + returned[stage]!)
  }
  const wayIn = busy.map((_, actor) =>
    Math.min(...placement.flatMap((own, stage) => (own === actor ? [reached[stage]!] : []))),
  )
  const first = Math.min(...upstream.flatMap((from, stage) => (from.length === 0 ? [W[stage]!] : [])))
  return Math.max(longest + first, ...busy.map((work, actor) => (work > 0 ? wayIn[actor]! + work : 0)))
}
