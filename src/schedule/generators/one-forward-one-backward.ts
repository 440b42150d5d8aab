import type { ScheduleGenerator, ScheduleParameters } from '../generator.ts'
import { alternatingSchedule, refuseSharedActor } from './alternate.ts'

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
  refuse: refuseSharedActor,
  generate: (graph, parameters) =>
    alternatingSchedule(graph, (distance) => warmupForwards(distance, parameters)),
  closedForms: {
    peakActivations: (actor, { actors, microbatches }, parameters) =>
      Math.min(warmupForwards(actors - 1 - actor, parameters), microbatches),
    /**
     * As GPipe while the cap does not bind. Where policy A may hold only D < S micro-batches, the first S - D + 1 stages
     * all warm up with D and strict alternation makes them take turns: each micro-batch past D costs S - D + 1 slots.
     * Policy B under a cap has no such form: there it matters how F and B compare.
     */
    makespan: ({ actors: stages, microbatches }, parameters, { F, I, W }) => {
      const cap = capOf(parameters)
      if (Math.min(warmupForwards(stages - 1, { ...parameters, maxInFlight: null }), microbatches) <= cap)
        return (microbatches + stages - 1) * (F + I + W)
      if (parameters['warmup'] === 'b') return undefined
      return (cap + stages - 1 + (microbatches - cap) * (stages - cap + 1)) * (F + I + W)
    },
  },
}

/** Policy B under a name of its own. */
export const eagerOneForwardOneBackward: ScheduleGenerator = {
  name: 'eager-1f1b',
  summary: '1f1b with about twice the warm-up: hides the time of transfers, for twice the activations',
  source: 'DAPPLE, Fan et al. 2021, section 3 (policy B); Eager1F1B of JaxPP, Xhebraj et al. 2025',
  parameters: { maxInFlight: oneForwardOneBackward.parameters['maxInFlight']! },
  refuse: refuseSharedActor,
  generate: (graph, parameters, costs) => oneForwardOneBackward.generate(graph, policyB(parameters), costs),
  closedForms: {
    peakActivations: (actor, shape, parameters) =>
      oneForwardOneBackward.closedForms.peakActivations(actor, shape, policyB(parameters)),
    makespan: (shape, parameters, times) =>
      oneForwardOneBackward.closedForms.makespan(shape, policyB(parameters), times),
  },
}

function policyB(parameters: ScheduleParameters): ScheduleParameters {
  return { ...parameters, warmup: 'b' }
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
