import { latenciesOf } from '../costs.ts'
import type { ScheduleGenerator, ScheduleParameters, ScheduleShape, StageCosts } from '../generator.ts'
import { actorCount } from '../stage-graph.ts'
import { timeSchedule } from '../timing.ts'
import type { Action, StageGraph } from '../types.ts'
import { breadthFirst, breadthFirstSlots } from './breadth-first.ts'
import { chunksParameter, loopedPlacement, refuseUnlessLooped } from './looped-placement.ts'

/**
 * Units of micro-batches, one after the other, each breadth first through all chunks and back. A chunk's parameters are
 * gathered once for each unit and way, its gradients reduced once for each unit, and the activations of a unit are gone
 * before the next begins. Nothing shortens the wait between the two ways of a unit, for want of anything else to do;
 * with the backward in halves the way back is of `I` alone, and `W` is done while others drain.
 */
export const zeropp: ScheduleGenerator = {
  name: 'zeropp',
  summary:
    'units of micro-batches breadth first through several chunks: made for parameters that are gathered',
  source: 'ZeroPP, Tang et al. 2024; order inside a unit as worked out from its outline',
  parameters: {
    chunks: chunksParameter,
    unit: {
      kind: 'integer',
      summary:
        'micro-batches of a unit; not set: as many as there are actors, or as `memory` allows. The last may be smaller',
      minimum: 1,
      maximum: 65_536,
      default: null,
    },
    backward: {
      kind: 'choice',
      summary: 'whether backwards are whole',
      choices: {
        whole: 'one action, `B`',
        split: '`I` on the way back, `W` where an actor would be idle: less idle time, more actions',
      },
      default: 'whole',
    },
    memory: {
      kind: 'integer',
      summary: 'most activations that an actor may hold, each of one micro-batch and chunk: caps the unit',
      minimum: 1,
      maximum: 4_000_000,
      default: null,
    },
  },
  place: loopedPlacement,
  refuse(graph, parameters) {
    const { chunks, unit, memory } = parameters
    if (memory !== null && Number(memory) < Number(chunks))
      return `memory for ${memory} activations is less than a unit of one micro-batch takes, which is ${chunks}, one for each chunk`
    if (unit !== null && memory !== null && Number(unit) * Number(chunks) > Number(memory))
      return `a unit of ${unit} micro-batches takes ${Number(unit) * Number(chunks)} activations, and there is memory for ${memory}: units of ${Math.floor(Number(memory) / Number(chunks))} fit`
    if (unit !== null && Number(unit) > graph.microbatches)
      return `a unit of ${unit} micro-batches is larger than the batch, which has ${graph.microbatches}`
    return refuseUnlessLooped(graph, parameters)
  },
  generate(graph, parameters, costs) {
    const { stages, microbatches, placement } = graph
    const actors = actorCount(graph)
    const size = unitSize({ actors, microbatches, chunks: stages / actors }, parameters)
    const split = parameters['backward'] === 'split'
    const full = unitActions({ ...graph, microbatches: size }, split, costs)
    const last = unitActions({ ...graph, microbatches: microbatches % size || size }, split, costs)
    const units = Math.ceil(microbatches / size)
    return {
      stages,
      microbatches,
      placement,
      actors: Array.from({ length: actors }, (_, actor) =>
        Array.from({ length: units }, (_, unit) =>
          (unit === units - 1 ? last : full)[actor]!.map(({ phase, stage, microbatch }) => ({
            phase,
            stage,
            microbatch: unit * size + microbatch,
            unit,
          })),
        ).flat(),
      ),
    }
  },
  closedForms: {
    peakActivations: (_actor, shape, parameters) => shape.chunks * unitSize(shape, parameters),
    /** Actor 0 begins and ends every unit, so units add up. */
    makespan(shape, parameters, times) {
      const size = unitSize(shape, parameters)
      const full = unitTime({ ...shape, microbatches: size }, parameters, times)
      const last = unitTime({ ...shape, microbatches: shape.microbatches % size || size }, parameters, times)
      if (full === undefined || last === undefined) return undefined
      return (Math.ceil(shape.microbatches / size) - 1) * full + last
    },
  },
}

function unitSize({ actors, chunks, microbatches }: ScheduleShape, parameters: ScheduleParameters): number {
  const { unit, memory } = parameters
  const wanted = unit ?? (memory === null ? actors : Math.floor(Number(memory) / chunks))
  return Math.min(Number(wanted), microbatches)
}

/**
 * One unit, its micro-batches from 0. With halves, `I`s stay together chunk by chunk; a `W` goes, oldest first, where
 * under the given costs it delays no `I`: at the end, or where an actor waits (a unit smaller than the number of actors
 * waits between two chunks, for its first micro-batch to come round).
 */
function unitActions(graph: StageGraph, split: boolean, costs: StageCosts): Action[][] {
  const forwards = breadthFirst(graph, 'F', 'forward')
  const backwards = breadthFirst(graph, split ? 'I' : 'B', 'backward')
  const actors = forwards.map((list, actor) => [...list, ...backwards[actor]!])
  if (!split) return actors
  const { stages, microbatches, placement, edges } = graph
  const unit = { stages, microbatches, placement, actors }
  const timing = timeSchedule(unit, latenciesOf(costs), { edges })
  const filled = actors.map(() => ({ actions: [] as Action[], free: 0, due: 0, done: 0 }))
  // An actor's entries come in the order of its list.
  for (const { actor, index, start, end } of timing.entries) {
    const list = filled[actor]!
    const inputs = backwards[actor]!
    let room = start - list.free + 1e-9 * timing.makespan
    for (; list.done < list.due && costs.W[inputs[list.done]!.stage]! <= room; list.done++) {
      list.actions.push(weightsOf(inputs[list.done]!))
      room -= costs.W[inputs[list.done]!.stage]!
    }
    list.actions.push(actors[actor]![index]!)
    if (actors[actor]![index]!.phase === 'I') list.due++
    list.free = end
  }
  return filled.map(({ actions, done }, actor) => [
    ...actions,
    ...backwards[actor]!.slice(done).map(weightsOf),
  ])
}

function weightsOf(action: Action): Action {
  const { stage, microbatch } = action
  return { phase: 'W', stage, microbatch }
}

/**
 * Whole backwards: as GPipe. Halves: there and back with F and I, then on actor 0 those W that no gap had room for. How
 * many have room is known where W and I take the same.
 */
function unitTime(
  shape: ScheduleShape,
  parameters: ScheduleParameters,
  { F, I, W }: { readonly F: number; readonly I: number; readonly W: number },
): number | undefined {
  const slots = breadthFirstSlots(shape)
  if (parameters['backward'] === 'whole') return slots * (F + I + W)
  const { actors, chunks, microbatches } = shape
  const inGaps = (chunks - 1) * Math.max(0, Math.min(microbatches, actors - microbatches))
  return inGaps > 0 && I !== W ? undefined : slots * (F + I) + (chunks * microbatches - inGaps) * W
}
