import { internalError } from '../../base/index.ts'
import { unitCosts } from '../costs.ts'
import type { ScheduleGenerator, ScheduleShape, StageCosts } from '../generator.ts'
import type { Schedule, StageGraph } from '../types.ts'
import { type ListProblem, listSchedule, scheduleFromOrders } from './list-schedule.ts'
import { searchListSchedule, shortestSchedule } from './search.ts'
import { placeV, refuseUnlessV } from './v-placement.ts'

/** What an actor does with its first chunk (stage r) and its second (stage 2P - 1 - r), but for W. */
type Step = 'F0' | 'F1' | 'I1' | 'I0'

/** A V schedule: the order of F and I on each actor, and the most activations of a chunk that an actor may hold. */
interface Shape {
  readonly name: string
  readonly summary: string
  readonly source: string
  readonly limit: (actors: number) => number
  readonly order: (actors: number, actor: number, microbatches: number) => readonly Step[]
  readonly peak: (actor: number, shape: ScheduleShape) => number | undefined
  /** Makespan in units of F = I = W of one chunk, over 6 M. */
  readonly excess: (shape: ScheduleShape) => number | undefined
}

const controllable = 'Qi et al. 2024, Pipeline Parallelism with Controllable Memory, section 4'

/** ZB-V: all bubbles gone for equal F, I and W, in the memory of 1F1B: 2P chunks of half a stage. */
export const zeroBubbleV: ScheduleGenerator = shaped({
  name: 'zb-v',
  summary: 'two chunks an actor, down and back up: no bubble for equal F, I and W in the memory of 1f1b',
  source: 'Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 6 (ZB-V)',
  limit: (actors) => 2 * actors,
  order: orderOfZeroBubbleV,
  peak: (_actor, { actors, microbatches }) => 2 * Math.min(actors, microbatches),
  excess: ({ actors, microbatches }) => (microbatches < actors ? undefined : actors - 1),
})

/** V-Half: P + 2 chunks at most, (P + 2) / 2 stages against the P of 1F1B. */
export const vHalf: ScheduleGenerator = shaped({
  name: 'v-half',
  summary: 'two chunks an actor, down and back up: about half the activations of 1f1b and half its bubble',
  source: controllable,
  limit: (actors) => actors + 2,
  order: (actors, actor, microbatches) =>
    repeat(microbatches, {
      F0: 2 * actor,
      F1: 3 * actors - 2 - actor,
      I1: 3 * actors - 1 + 2 * actor + (actors % 2 === 0 ? 3 : 0),
      I0: 6 * actors - 2 - actor + (actors % 2 === 0 ? 3 : 0),
    }),
  peak: (_actor, { actors, microbatches }) =>
    microbatches < actors + 2 ? undefined : actors === 1 ? 3 : actors + 2,
  excess: ({ actors, microbatches }) =>
    microbatches < actors ? undefined : actors === 1 ? 0 : actors % 2 === 0 ? 3 * actors - 3 : 3 * actors - 5,
})

/** V-Min: about 2P / 3 + 2 chunks at most, a third of the activations of 1F1B. */
export const vMin: ScheduleGenerator = shaped({
  name: 'v-min',
  summary:
    'two chunks an actor, down and back up: about a third of the activations of 1f1b, two thirds of its bubble',
  source: controllable,
  limit: (actors) => Math.ceil((2 * actors + 6) / 3),
  order: (actors, actor, microbatches) =>
    repeat(microbatches, {
      F0: actor,
      F1: 2 * actors - 1 - actor,
      I1: 2 * actors + actor + (actors % 3 === 0 ? 2 : 0),
      I0: 4 * actors - 1 - actor + (actors % 3 === 0 ? 2 : 0),
    }),
  peak: (actor, { actors, microbatches }) =>
    microbatches < actors + 2 ? undefined : peakOfVMin(actors, actor),
  // Numbers of actors that three divides start the second half of the V two slots later.
  excess: ({ actors, microbatches }) =>
    actors === 1 ? 0 : 4 * actors - (actors % 3 === 0 && microbatches > 1 ? 3 : 5),
})

/** Most activations of an actor in the steady state: a third of 2P, plus how its slots fall in the period of six. */
function peakOfVMin(actors: number, actor: number): number {
  if (actors % 3 === 0) return (2 * actors) / 3 + 2
  if (actors % 3 === 1) return (2 * actors + (actor === 0 ? 7 : 4)) / 3
  return (2 * actors + (actor === 0 ? 5 : actor % 3 === 0 ? 2 : 8)) / 3
}

/**
 * A building block, repeated every six slots (F, I and W of two chunks). Its slots differ modulo six on every actor,
 * which is why some numbers of actors need the second half of the V to start later.
 */
function repeat(microbatches: number, block: Readonly<Record<Step, number>>): Step[] {
  const slots = (Object.entries(block) as [Step, number][]).flatMap(([step, slot]) =>
    Array.from({ length: microbatches }, (_, microbatch) => ({ step, slot: slot + 6 * microbatch })),
  )
  return slots.sort((a, b) => a.slot - b.slot).map(({ step }) => step)
}

/**
 * Warm-up until the first cotangent comes back, then both chunks in turn, then what is left. Micro-batches are at least
 * 2P - 1 while the order is made; those that are not there are then left out.
 */
function orderOfZeroBubbleV(actors: number, actor: number, microbatches: number): Step[] {
  const all = Math.max(microbatches, 2 * actors - 1)
  const steps: Step[] = []
  const done: Record<Step, number> = { F0: 0, F1: 0, I1: 0, I0: 0 }
  const push = (times: number, ...some: Step[]): void => {
    for (let time = 0; time < times; time++)
      for (const step of some) if (done[step] < all && done[step]++ < microbatches) steps.push(step)
  }
  push(2 * (actors - actor) - 1, 'F0')
  push(actor, 'F1', 'F0')
  push(actors - actor, 'F1', 'I1')
  while (done.F1 < all) push(1, 'F0', 'I0', 'F1', 'I1')
  push(actor, 'I0', 'I1')
  push(actors - actor, 'I0')
  return steps
}

function shaped(shape: Shape): ScheduleGenerator {
  return {
    name: shape.name,
    summary: shape.summary,
    source: shape.source,
    parameters: {
      search: {
        kind: 'boolean',
        summary: 'also look for a shorter schedule under the given costs, in the same memory',
        default: false,
      },
    },
    place: placeV,
    refuse: refuseUnlessV,
    generate: (graph, parameters, costs) =>
      generateShaped(shape, graph, costs, parameters['search'] === true),
    closedForms: {
      peakActivations: (actor, of, { search }) => (search === true ? undefined : shape.peak(actor, of)),
      makespan: (of, { search }, { F, I, W }) => {
        const excess = search === true || F !== I || I !== W ? undefined : shape.excess(of)
        return excess === undefined ? undefined : (6 * of.microbatches + excess) * F
      },
    },
  }
}

/** As the shape has it; with `search` the best of that, of the same with W put where the costs leave time, and of a search. */
function generateShaped(shape: Shape, graph: StageGraph, costs: StageCosts, search: boolean): Schedule {
  const limit = 100 * shape.limit(graph.stages / 2)
  const drawn = withWeights(shape, { graph, costs: unitCosts(graph.stages), limit, kept: 100 })
  if (!search) return drawn
  const problem: ListProblem = { graph, costs, limit, kept: 100 }
  const found = searchListSchedule(problem)
  const schedules = [drawn, withWeights(shape, problem)]
  if (found !== undefined) schedules.push(scheduleFromOrders(graph, found.orders))
  return shortestSchedule(schedules, graph, costs)
}

/** The shape's order of F and I, with W where an actor would wait for at least one W or where memory is full. */
function withWeights(shape: Shape, problem: ListProblem): Schedule {
  const { stages, microbatches } = problem.graph
  const order = Array.from({ length: stages / 2 }, (_, actor) => {
    const second = stages - 1 - actor
    const codes = { F0: 3 * actor, F1: 3 * second, I1: 3 * second + 1, I0: 3 * actor + 1 }
    return shape.order(stages / 2, actor, microbatches).map((step) => codes[step])
  })
  const unbounded = Array<number>(stages).fill(microbatches)
  const reserve = Array<number>(stages).fill(0)
  const policy = { warmup: unbounded, patience: 1, alternate: false, reserve, order }
  const result = listSchedule(problem, policy, true)
  if (result === undefined) throw internalError(`${shape.name} needs more than its limit`)
  return scheduleFromOrders(problem.graph, result.orders)
}
