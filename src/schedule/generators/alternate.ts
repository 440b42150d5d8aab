import { actorCount, distanceToEnd, sharedActor } from '../stage-graph.ts'
import type { Action, Schedule, StageGraph } from '../types.ts'

/**
 * An actor's list: `warmup` forwards, then `group` backwards and `group` forwards in turn, then the backwards that are
 * left. A warm-up longer than there are forwards does them all.
 */
export function alternate(
  forwards: readonly Action[],
  backwards: readonly Action[],
  warmup: number,
  group = 1,
): Action[] {
  const actions = forwards.slice(0, warmup)
  for (let done = 0; done < backwards.length; done += group) {
    for (const action of backwards.slice(done, done + group)) actions.push(action)
    for (const action of forwards.slice(warmup + done, warmup + done + group)) actions.push(action)
  }
  return actions
}

/** Every stage alternates on an actor of its own; `warmup` goes by the longest way from the stage to the end. */
export function alternatingSchedule(
  graph: StageGraph,
  warmup: (distance: number) => number,
  group?: number,
): Schedule {
  const { stages, microbatches, placement } = graph
  const actors: Action[][] = Array.from({ length: actorCount(graph) }, () => [])
  for (const [stage, distance] of distanceToEnd(graph).entries())
    actors[placement[stage]!] = alternate(
      inOrder('F', stage, microbatches),
      inOrder('B', stage, microbatches),
      warmup(distance),
      group,
    )
  return { stages, microbatches, placement, actors }
}

/** `count` actions of one phase of one stage, micro-batch after micro-batch. */
export function inOrder(phase: string, stage: number, count: number): Action[] {
  return Array.from({ length: count }, (_, microbatch) => ({ phase, stage, microbatch }))
}

/** Why a graph has no schedule that alternates on one stage of each actor. */
export function refuseSharedActor(graph: StageGraph): string | undefined {
  const actor = sharedActor(graph)
  return actor === undefined
    ? undefined
    : `it needs each stage on an actor of its own, and actor ${actor} has several`
}
