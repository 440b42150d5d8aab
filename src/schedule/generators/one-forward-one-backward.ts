import type { ScheduleGenerator, ScheduleParameters } from '../generator.ts'
import { actorCount, distanceToEnd, sharedActor } from '../stage-graph.ts'
import type { Action } from '../types.ts'

/**
 * Each stage injects some forwards, then strictly alternates one backward and one forward, then drains. How many it
 * injects is the warm-up rule; on a graph of stages, what counts is the longest way to the end.
 */
export const oneForwardOneBackward: ScheduleGenerator = {
  name: '1f1b',
  summary: 'one forward, one backward in turn after a warm-up: activations bounded by the number of stages',
  source: 'DAPPLE, Fan et al. 2021, section 3 (early backward scheduling, policies A and B)',
  parameters: {
    warmup: {
      kind: 'choice',
      summary: 'forwards that stage i of S does before its first backward',
      choices: { a: 'S - i: least memory', b: '2(S - i) - 1: hides the time of transfers' },
      default: 'a',
    },
    maxInFlight: {
      kind: 'integer',
      summary: 'most micro-batches whose activations fit in memory; caps the warm-up',
      minimum: 1,
      maximum: 65_536,
      default: null,
    },
  },
  refuse(graph) {
    const actor = sharedActor(graph)
    return actor === undefined
      ? undefined
      : `it needs each stage on an actor of its own, and actor ${actor} has several`
  },
  generate(graph, parameters) {
    const actors: Action[][] = Array.from({ length: actorCount(graph) }, () => [])
    for (const [stage, distance] of distanceToEnd(graph).entries()) {
      const warmup = Math.min(warmupForwards(distance, parameters), graph.microbatches)
      const actions = actors[graph.placement[stage]!]!
      for (let forward = 0; forward < warmup; forward++)
        actions.push({ phase: 'F', stage, microbatch: forward })
      for (let backward = 0; backward < graph.microbatches; backward++) {
        actions.push({ phase: 'B', stage, microbatch: backward })
        const forward = warmup + backward
        if (forward < graph.microbatches) actions.push({ phase: 'F', stage, microbatch: forward })
      }
    }
    const { stages, microbatches, placement } = graph
    return { stages, microbatches, placement, actors }
  },
  closedForms: {
    peakInFlight: (stage, { stages, microbatches }, parameters) =>
      Math.min(warmupForwards(stages - 1 - stage, parameters), microbatches),
    /**
     * As GPipe while the cap does not bind. Where policy A may hold only D < S micro-batches, the first S - D + 1 stages
     * all warm up with D and strict alternation makes them take turns: each micro-batch past D costs S - D + 1 slots.
     * Policy B under a cap has no such form: there it matters how F and B compare.
     */
    makespan: ({ stages, microbatches }, parameters, { F, B }) => {
      const cap = capOf(parameters)
      if (Math.min(warmupForwards(stages - 1, { ...parameters, maxInFlight: null }), microbatches) <= cap)
        return (microbatches + stages - 1) * (F + B)
      if (parameters['warmup'] === 'b') return undefined
      return (cap + stages - 1 + (microbatches - cap) * (stages - cap + 1)) * (F + B)
    },
  },
}

/** K of the paper: policy A min(S - i, D), policy B min(2(S - i) - 1, D), with S - i = distance + 1. */
function warmupForwards(distance: number, parameters: ScheduleParameters): number {
  const forwards = parameters['warmup'] === 'b' ? 2 * distance + 1 : distance + 1
  return Math.min(forwards, capOf(parameters))
}

function capOf(parameters: ScheduleParameters): number {
  const cap = parameters['maxInFlight']
  return typeof cap === 'number' ? cap : Number.POSITIVE_INFINITY
}
