import { internalError } from '../../base/index.ts'
import { stageFlow } from '../dependences.ts'
import type { StageCosts } from '../generator.ts'
import { scheduleMetrics } from '../metrics.ts'
import { distanceToEnd, forwardOrder } from '../stage-graph.ts'
import type { Schedule, StageGraph } from '../types.ts'
import { type ListPolicy, type ListProblem, type ListResult, listSchedule } from './list-schedule.ts'

/** Actions that one search may schedule in all: what bounds its time, on any machine alike. */
const effort = 3_500_000

/** Changes in a row that make nothing shorter before the search gives up. */
const enough = 300

interface Found {
  readonly policy: ListPolicy
  readonly result: ListResult
}

/**
 * The best list schedule found: first a fixed set of policies, then changes of the best one, a stage at a time, for as
 * long as the effort lasts. Better is a shorter span, then a shorter step, then fewer activations. Deterministic.
 */
export function searchListSchedule(problem: ListProblem): ListResult | undefined {
  const { stages, microbatches } = problem.graph
  let budget = Math.max(60, Math.min(1500, Math.floor(effort / (3 * stages * microbatches))))
  const lowerBound = busiestWork(problem)
  const seen = new Set<string>()
  let best: Found | undefined
  const attempt = (policy: ListPolicy): boolean => {
    const key = [
      ...policy.warmup,
      policy.patience,
      policy.alternate,
      ...policy.reserve.map(Math.floor),
    ].join()
    if (budget <= 0 || seen.has(key)) return false
    seen.add(key)
    budget--
    const result = listSchedule(problem, policy)
    if (result === undefined || (best !== undefined && !better(result, best.result))) return false
    const shorter = best === undefined || result.span < best.result.span - 1e-9 * best.result.span
    best = { policy, result }
    return shorter
  }
  for (const policy of policies(problem)) attempt(policy)
  if (best === undefined) return undefined

  const random = generator()
  const below = (limit: number): number => Math.floor(random() * limit)
  for (let stale = 0; stale < enough && budget > 0 && best.result.span > lowerBound * (1 + 1e-9); stale++) {
    budget--
    const { warmup, reserve, patience, alternate } = best.policy
    const stage = below(stages)
    const step = below(2) === 0 ? 1 : -1
    // All stages from one on, all before it, or one alone.
    const kind = below(3)
    const touched = (at: number): boolean =>
      kind === 0 ? at >= stage : kind === 1 ? at <= stage : at === stage
    const what = below(8)
    const by = 1 + below(3)
    const shorter = attempt({
      warmup: what < 4 ? warmup.map((w, at) => (touched(at) ? Math.max(1, w + step * by) : w)) : warmup,
      reserve:
        what >= 4 && what < 7
          ? reserve.map((r, at) => (touched(at) ? Math.max(0, Math.min(microbatches, r + step * by)) : r))
          : reserve,
      alternate: what === 7 && by === 1 ? !alternate : alternate,
      patience: what === 7 ? ([0, 0.25, 0.5, 0.75, 1, 1.5, 'balanced'] as const)[below(7)]! : patience,
    })
    if (shorter) stale = 0
  }
  return listSchedule(problem, best.policy, true)
}

/** The first of the schedules with the shortest span, then the shortest step. */
export function shortestSchedule(
  schedules: readonly Schedule[],
  graph: StageGraph,
  costs: StageCosts,
): Schedule {
  const rated = schedules.map((schedule) => ({ schedule, ...scheduleMetrics(schedule, costs, graph) }))
  rated.sort((a, b) => a.bubbleFraction - b.bubbleFraction || a.makespan - b.makespan)
  const best = rated[0]
  if (best === undefined) throw internalError('no schedule to choose from')
  return best.schedule
}

/** No span is shorter than the work of the busiest actor. */
function busiestWork({ graph, costs }: ListProblem): number {
  const work = new Map<number, number>()
  for (const [stage, actor] of graph.placement.entries())
    work.set(actor, (work.get(actor) ?? 0) + costs.F[stage]! + costs.I[stage]! + costs.W[stage]!)
  return graph.microbatches * Math.max(...work.values())
}

function better(a: ListResult, b: ListResult): boolean {
  const tolerance = 1e-9 * b.span
  if (Math.abs(a.span - b.span) > tolerance) return a.span < b.span
  if (Math.abs(a.makespan - b.makespan) > tolerance) return a.makespan < b.makespan
  return a.peak < b.peak
}

function* policies(problem: ListProblem): Generator<ListPolicy> {
  const { graph, costs } = problem
  const distance = distanceToEnd(graph)
  const reserve = drainReserve(problem)
  const mean = (times: readonly number[]): number => times.reduce((sum, time) => sum + time, 0) / times.length
  const [F, I, W] = [mean(costs.F), mean(costs.I), mean(costs.W)]
  const trip = F + I + 2 * costs.hop
  const slopes = [
    1,
    2,
    trip / (F + I + W),
    trip / Math.max(F, 1e-12),
    trip / Math.max(F + I, 1e-12),
    1.5,
    1.25,
    0.75,
    3,
  ]
  const warmups = [
    ...[false, true].flatMap((late) => [0, 1].map((more) => fillWarmup(problem, late).map((w) => w + more))),
    ...slopes.flatMap((slope) =>
      [1, 2, 3].map((base) =>
        distance.map((d) => Math.max(1, Math.min(graph.microbatches, Math.ceil(base + slope * d - 1e-9)))),
      ),
    ),
    distance.map(() => graph.microbatches),
  ]
  const fillings = [
    [0.5, 0],
    [0, 0],
    ['balanced', 0],
    [1, 1],
    [0, 1],
    [1, 0],
    ['balanced', 1],
    [0.5, 0.8],
  ] as const
  // The likely ones first, as a large problem leaves time for few: each filling with the first warm-ups, then the rest.
  for (let sum = 0; sum < warmups.length + 4 * fillings.length; sum++)
    for (const [number, [patience, share]] of fillings.entries()) {
      const warmup = warmups[sum - 4 * number]
      if (warmup === undefined) continue
      const policy = {
        warmup,
        patience,
        reserve: reserve.map((w) => Math.min(graph.microbatches, share * w)),
      }
      yield { ...policy, alternate: false }
      yield { ...policy, alternate: true }
    }
}

/** By stage: the W that fill the time from its last I to the end, when the first stage ends without a gap. */
function drainReserve({ graph, costs }: ListProblem): number[] {
  const flow = stageFlow(graph.stages, graph.edges)
  const time = Array.from({ length: graph.stages }, () => 0)
  for (const stage of forwardOrder(graph))
    for (const from of flow.upstream[stage]!)
      time[stage] = Math.max(time[stage]!, time[from]! + costs.F[stage]! + costs.I[from]! + 2 * costs.hop)
  return time.map((one, stage) => 1 + one / Math.max(costs.W[stage]!, 1e-12))
}

/**
 * By stage: forwards that fit until the first cotangent arrives; `late` allows one that ends after it. Fewer for later
 * stages where both would have as many.
 */
function fillWarmup({ graph, costs, limit }: ListProblem, late: boolean): number[] {
  const flow = stageFlow(graph.stages, graph.edges)
  const order = forwardOrder(graph)
  const firstEnd = Array.from({ length: graph.stages }, () => 0)
  const firstInput = firstEnd.slice()
  const most = Math.max(1, Math.min(graph.microbatches, Math.floor(limit / 100)))
  const warmup = firstEnd.map(() => 1)
  for (const stage of order) {
    const from = flow.upstream[stage]!.map((other) => firstEnd[other]! + costs.hop)
    firstEnd[stage] = Math.max(0, ...from) + costs.F[stage]!
  }
  for (const stage of order.toReversed()) {
    const cotangent = Math.max(0, ...flow.downstream[stage]!.map((other) => firstInput[other]! + costs.hop))
    let time = firstEnd[stage]!
    const until = cotangent + (late ? costs.F[stage]! : 0)
    while (warmup[stage]! < most && time + costs.F[stage]! <= until + 1e-12) {
      warmup[stage]!++
      time += costs.F[stage]!
    }
    firstInput[stage] = Math.max(time, cotangent) + costs.I[stage]!
  }
  for (const stage of order)
    for (const other of flow.downstream[stage]!)
      if (warmup[other]! < graph.microbatches)
        warmup[other] = Math.max(1, Math.min(warmup[other]!, warmup[stage]! - 1))
  return warmup
}

/** Numbers in [0, 1), always the same ones. */
function generator(): () => number {
  let state = 0x9e3779b9
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 0x100000000
  }
}
