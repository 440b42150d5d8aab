import type { ScheduleGenerator, ScheduleParameters, ScheduleShape } from '../generator.ts'
import { actorCount, forwardOrder } from '../stage-graph.ts'
import type { Action } from '../types.ts'
import { alternate } from './alternate.ts'
import { breadthFirstSlots } from './breadth-first.ts'
import { chunksParameter, loopedPlacement, refuseUnlessLooped } from './looped-placement.ts'

/**
 * 1F1B over several chunks of each actor, in Megatron's numbering. Micro-batches go in rounds: a round passes chunk 0,
 * then chunk 1, …, so that an actor's k-th forward is of chunk (k div round) mod chunks; backwards go the chunks in
 * reverse. With D actors and M micro-batches there are max(1, M div D) rounds, of equal size.
 */
export const interleavedOneForwardOneBackward: ScheduleGenerator = {
  name: 'interleaved-1f1b',
  summary: '1f1b over several chunks of each actor: less idle time, more activations and transfers',
  source:
    'Megatron-LM, Narayanan et al. 2021, section 2.2.2; the extra warm-up is that of KimiK2 in JaxPP, Xhebraj et al. 2025',
  parameters: {
    chunks: chunksParameter,
    extraWarmup: {
      kind: 'boolean',
      summary:
        'one more forward before the first backward, so that a forward and the backward next to it never wait for each other and may overlap',
      default: false,
    },
  },
  place: loopedPlacement,
  refuse(graph, parameters) {
    const actors = actorCount(graph)
    const { microbatches } = graph
    const rounds = roundCount(actors, microbatches)
    if (microbatches % rounds === 0) return refuseUnlessLooped(graph, parameters)
    const legal = [nearestLegal(actors, microbatches, -1), nearestLegal(actors, microbatches, 1)]
    return `${microbatches} micro-batches on ${actors} actors go in ${rounds} rounds, and these must be of equal size: the nearest legal counts are ${legal.join(' and ')}`
  },
  generate(graph, parameters) {
    const { stages, microbatches, placement } = graph
    const actors = actorCount(graph)
    const order = forwardOrder(graph)
    const shape = { actors, chunks: stages / actors, microbatches }
    return {
      stages,
      microbatches,
      placement,
      actors: Array.from({ length: actors }, (_, actor) => {
        const chunks = order.filter((stage) => placement[stage] === actor)
        return alternate(
          inRounds('F', chunks, shape),
          inRounds('B', chunks.toReversed(), shape),
          forwardsBeforeBackward(actor, shape, parameters),
        )
      }),
    }
  },
  closedForms: {
    peakActivations: forwardsBeforeBackward,
    /** As breadth first, and as 1F1B with the way through the actors a chunk long. */
    makespan: (shape, _parameters, { F, I, W }) => breadthFirstSlots(shape) * (F + I + W),
  },
}

function roundCount(actors: number, microbatches: number): number {
  return Math.max(1, Math.floor(microbatches / actors))
}

function nearestLegal(actors: number, microbatches: number, step: 1 | -1): number {
  let count = microbatches
  while (count % roundCount(actors, count) !== 0) count += step
  return count
}

/** All actions of a phase on an actor with these chunks: round by round, each through all chunks. */
function inRounds(
  phase: string,
  chunks: readonly number[],
  { actors, microbatches }: ScheduleShape,
): Action[] {
  const round = microbatches / roundCount(actors, microbatches)
  const actions: Action[] = []
  for (let first = 0; first < microbatches; first += round)
    for (const stage of chunks)
      for (let microbatch = first; microbatch < first + round; microbatch++)
        actions.push({ phase, stage, microbatch })
  return actions
}

/**
 * Warm-up of actor r of D with V chunks and rounds of R, (V - 1) R + 2 (D - 1 - r), and the forward of the first pair of
 * a forward and a backward; at most all forwards.
 */
function forwardsBeforeBackward(
  actor: number,
  { actors, chunks, microbatches }: ScheduleShape,
  parameters: ScheduleParameters,
): number {
  const round = microbatches / roundCount(actors, microbatches)
  const warmup =
    (chunks - 1) * round + 2 * (actors - 1 - actor) + (parameters['extraWarmup'] === true ? 1 : 0)
  return Math.min(warmup + 1, chunks * microbatches)
}
