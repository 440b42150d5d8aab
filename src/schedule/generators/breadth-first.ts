import type { ScheduleShape } from '../generator.ts'
import { actorCount, forwardOrder } from '../stage-graph.ts'
import type { Action, Phase, StageGraph } from '../types.ts'

/**
 * One phase over all stages, for each actor: one stage after the other along the data flow (or against it), all
 * micro-batches through a stage before the next, in their order, so that gradients add up in the order in which a serial
 * loop adds them.
 */
export function breadthFirst(graph: StageGraph, phase: Phase, direction: 'forward' | 'backward'): Action[][] {
  const actors: Action[][] = Array.from({ length: actorCount(graph) }, () => [])
  const order = forwardOrder(graph)
  for (const stage of direction === 'forward' ? order : order.reverse())
    for (let microbatch = 0; microbatch < graph.microbatches; microbatch++)
      actors[graph.placement[stage]!]!.push({ phase, stage, microbatch })
  return actors
}

/**
 * From the start of a breadth-first pass to its end, in passes of one micro-batch through one stage, stages being equal
 * and looped. With fewer micro-batches than actors each chunk waits for the first micro-batch to come round.
 */
export function breadthFirstSlots({ actors, chunks, microbatches }: ScheduleShape): number {
  return (chunks - 1) * Math.max(microbatches, actors) + microbatches + actors - 1
}
