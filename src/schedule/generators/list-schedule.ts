import { internalError } from '../../base/index.ts'
import { stageFlow } from '../dependences.ts'
import type { StageCosts } from '../generator.ts'
import { actorCount } from '../stage-graph.ts'
import type { Action, Schedule, StageGraph } from '../types.ts'

/** What is to be scheduled: a graph of stages, their costs, and how much an actor may hold. */
export interface ListProblem {
  readonly graph: StageGraph
  readonly costs: StageCosts
  /** Most an actor may hold, in hundredths of an activation. */
  readonly limit: number
  /** What is held of an activation from I to W, in hundredths. */
  readonly kept: number
}

/** How an actor chooses what to do next. */
export interface ListPolicy {
  /** By stage: no forward begins while so many micro-batches have their forward and not their I behind them. */
  readonly warmup: readonly number[]
  /**
   * An idle time of at least this many W is filled with one. `balanced`: a shorter one is filled as well where leaving
   * it idle would make this actor the idlest so far.
   */
  readonly patience: number | 'balanced'
  /** Whether I and F strictly take turns after the warm-up, even where another I could begin. */
  readonly alternate: boolean
  /** By stage: so many W are kept for the end, when nothing else is left. */
  readonly reserve: readonly number[]
  /** By actor, what it does in order but for its W (0 + 3 x stage for F, 1 + 3 x stage for I); left out: as above. */
  readonly order?: readonly (readonly number[])[]
}

export interface ListResult {
  /** Longest time from an actor's first to its last action. */
  readonly span: number
  readonly makespan: number
  /** Most activations an actor holds at once, each from F to W. */
  readonly peak: number
  /** For each actor, phase + 3 x stage of what it does in order (phases F, I, W); empty unless asked for. */
  readonly orders: readonly (readonly number[])[]
}

const letters = ['F', 'I', 'W'] as const

/**
 * List scheduling: whenever an actor is free it takes I before F, the deepest stage first among forwards, and W where it
 * would wait or where memory is full. The choice at any time knows the arrivals of what others have begun. A forward
 * leaves room for one activation of each later stage of its actor, so no actor fills up with what it cannot finish.
 * Micro-batches go in order. Undefined when the limit is too small.
 */
export function listSchedule(
  problem: ListProblem,
  policy: ListPolicy,
  record = false,
): ListResult | undefined {
  const { graph, costs, limit, kept } = problem
  const { stages, microbatches, placement } = graph
  const count = actorCount(graph)
  const flow = stageFlow(stages, graph.edges)
  const own = Array.from({ length: count }, (): number[] => [])
  for (let stage = stages - 1; stage >= 0; stage--) own[placement[stage]!]!.push(stage)
  const later = placement.map((actor, stage) => own[actor]!.indexOf(stage) * 100)
  const ends = [0, 1].map(() => new Float64Array(stages * microbatches))
  const done = [0, 1, 2].map(() => new Int32Array(stages))
  const [forwards, inputs, weights] = done as [Int32Array, Int32Array, Int32Array]
  const [forwardEnds, inputEnds] = ends as [Float64Array, Float64Array]
  const times = [costs.F, costs.I, costs.W] as const
  const position = new Int32Array(count)
  const held = new Int32Array(count)
  const stashed = new Int32Array(count)
  const peaks = new Int32Array(count)
  const clock = new Float64Array(count)
  const first = new Float64Array(count).fill(-1)
  const idle = new Float64Array(count)
  let idlest = 0
  const startOf = new Float64Array(count)
  const choice = new Int32Array(count)
  const orders = Array.from({ length: count }, (): number[] => [])

  const arrival = (
    stage: number,
    near: readonly number[],
    counts: Int32Array,
    from: Float64Array,
  ): number => {
    const microbatch = counts[stage]!
    let time = 0
    for (const other of near) {
      if (counts[other]! <= microbatch) return Number.POSITIVE_INFINITY
      const hop = placement[other] === placement[stage] ? 0 : costs.hop
      time = Math.max(time, from[other * microbatches + microbatch]! + hop)
    }
    return time
  }

  const decide = (actor: number): void => {
    const now = clock[actor]!
    const only = policy.order === undefined ? -1 : (policy.order[actor]![position[actor]!] ?? -2)
    let input = Number.POSITIVE_INFINITY
    let inputStage = -1
    let forward = Number.POSITIVE_INFINITY
    let forwardStage = -1
    let blocked = Number.POSITIVE_INFINITY
    let weightStage = -1
    let spare = -1
    for (const stage of own[actor]!) {
      const f = forwards[stage]!
      const i = inputs[stage]!
      if (
        (only === -1 || only === 1 + 3 * stage) &&
        i < f &&
        (!policy.alternate || f === microbatches || f - i >= policy.warmup[stage]!)
      ) {
        const time = arrival(stage, flow.downstream[stage]!, inputs, inputEnds)
        const ready = Math.max(time, forwardEnds[stage * microbatches + i]!)
        if (ready < input) {
          input = ready
          inputStage = stage
        }
      }
      if ((only === -1 || only === 3 * stage) && f < microbatches && f - i < policy.warmup[stage]!) {
        const ready = arrival(stage, flow.upstream[stage]!, forwards, forwardEnds)
        if (held[actor]! + 100 + (only === -1 ? later[stage]! : 0) > limit) blocked = Math.min(blocked, ready)
        else if (ready < forward && forward > now) {
          forward = ready
          forwardStage = stage
        }
      }
      if (weights[stage]! < i) {
        if (weightStage < 0 || i - weights[stage]! > inputs[weightStage]! - weights[weightStage]!)
          weightStage = stage
        if (i === microbatches || microbatches - weights[stage]! > policy.reserve[stage]!) spare = stage
      }
    }
    const next = Math.min(input, forward)
    let start = Math.max(now, next)
    let chosen = input <= Math.max(now, forward) ? 1 + 3 * inputStage : 3 * forwardStage
    if (next > now && weightStage >= 0) {
      const filler = blocked <= now ? weightStage : spare
      const gap = next - now
      if (filler >= 0) {
        const cost = costs.W[filler]!
        const fills =
          policy.patience === 'balanced'
            ? gap >= cost || (first[actor]! >= 0 && idle[actor]! + gap > idlest)
            : gap >= policy.patience * cost
        if (fills) {
          start = now
          chosen = 2 + 3 * filler
        }
      }
      // Memory is full by the time a forward could begin.
      if (blocked > now && blocked < start) {
        start = blocked
        chosen = 2 + 3 * weightStage
      }
    }
    startOf[actor] = start
    choice[actor] = chosen
  }

  for (let actor = 0; actor < count; actor++) decide(actor)
  for (let left = 3 * stages * microbatches; left > 0; left--) {
    let actor = 0
    for (let other = 1; other < count; other++) if (startOf[other]! < startOf[actor]!) actor = other
    if (startOf[actor] === Number.POSITIVE_INFINITY) {
      // Only W that were kept are left to do.
      let stage = -1
      for (let other = 0; other < stages; other++) if (weights[other]! < inputs[other]!) stage = other
      if (stage < 0) return undefined
      actor = placement[stage]!
      startOf[actor] = clock[actor]!
      choice[actor] = 2 + 3 * stage
    }
    const phase = choice[actor]! % 3
    const stage = (choice[actor]! - phase) / 3
    const start = startOf[actor]!
    if (first[actor]! < 0) first[actor] = start
    else if (start > clock[actor]!) {
      idle[actor]! += start - clock[actor]!
      idlest = Math.max(idlest, idle[actor]!)
    }
    const end = start + times[phase]![stage]!
    clock[actor] = end
    const microbatch = done[phase]![stage]!++
    if (phase < 2) {
      ends[phase]![stage * microbatches + microbatch] = end
      position[actor]!++
    }
    held[actor]! += phase === 0 ? 100 : phase === 1 ? kept - 100 : -kept
    if (phase !== 1) {
      stashed[actor]! += 1 - phase
      peaks[actor] = Math.max(peaks[actor]!, stashed[actor]!)
    }
    if (record) orders[actor]!.push(choice[actor]!)
    decide(actor)
    if (phase < 2)
      for (const other of phase === 0 ? flow.downstream[stage]! : flow.upstream[stage]!)
        if (placement[other] !== actor) decide(placement[other]!)
  }
  let span = 0
  for (let actor = 0; actor < count; actor++) span = Math.max(span, clock[actor]! - first[actor]!)
  return { span, makespan: Math.max(...clock), peak: Math.max(...peaks), orders }
}

/** The schedule that does what the lists say, micro-batches of each stage and phase in order. */
export function scheduleFromOrders(graph: StageGraph, orders: ListResult['orders']): Schedule {
  const done = new Int32Array(graph.stages * 3)
  const actors = orders.map((order) =>
    order.map((code): Action => {
      const phase = letters[code % 3]
      if (phase === undefined) throw internalError(`no phase in ${code}`)
      return { phase, stage: Math.floor(code / 3), microbatch: done[code]!++ }
    }),
  )
  const { stages, microbatches, placement } = graph
  return { stages, microbatches, placement, actors }
}
