import type { ScheduleGenerator, ScheduleParameters } from '../generator.ts'
import { alternatingSchedule, refuseSharedActor } from './alternate.ts'

/**
 * 1F1B with groups of k micro-batches in the place of one: a stage waits less often for a transfer, and holds k times
 * the activations. What a stage holds is k more than what the stages that it feeds hold; the last holds k.
 */
export const kForwardsKBackwards: ScheduleGenerator = {
  name: 'kfkb',
  summary: 'k forwards, k backwards in turn after a warm-up: each transfer has k actions to hide behind',
  source: 'GraphPipe, Jeon et al. 2025 (kFkB, in-flight rule); k = 1 is 1f1b',
  parameters: {
    k: {
      kind: 'integer',
      summary: 'micro-batches that go one way before the stage turns round',
      minimum: 1,
      maximum: 65_536,
      default: 2,
    },
  },
  refuse: refuseSharedActor,
  generate: (graph, parameters) =>
    alternatingSchedule(graph, (distance) => heldMicrobatches(distance, parameters), Number(parameters['k'])),
  closedForms: {
    peakActivations: (actor, { actors, microbatches }, parameters) =>
      Math.min(heldMicrobatches(actors - 1 - actor, parameters), microbatches),
    makespan: ({ actors, microbatches }, _parameters, { F, I, W }) =>
      (microbatches + actors - 1) * (F + I + W),
  },
}

function heldMicrobatches(distance: number, parameters: ScheduleParameters): number {
  return Number(parameters['k']) * (distance + 1)
}
