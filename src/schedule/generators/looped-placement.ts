import type { ParameterRule, ScheduleParameters } from '../generator.ts'
import { actorCount, forwardOrder } from '../stage-graph.ts'
import type { StageGraph } from '../types.ts'

/** Chunks of a looped placement: stage = chunk x actors + actor, so that the data flow passes all actors in turn. */
export const chunksParameter: ParameterRule = {
  kind: 'integer',
  summary: 'stages of each actor; actor r of D has stages r, D + r, 2D + r, …',
  minimum: 1,
  maximum: 64,
  default: 2,
}

export function loopedPlacement(actors: number, { chunks }: ScheduleParameters): number[] {
  return Array.from({ length: actors * Number(chunks) }, (_, stage) => stage % actors)
}

/** Why a graph's placement is not that of `loopedPlacement`, along the data flow. */
export function refuseUnlessLooped(graph: StageGraph, { chunks }: ScheduleParameters): string | undefined {
  const actors = actorCount(graph)
  const stages = actors * Number(chunks)
  if (graph.stages !== stages)
    return `${chunks} chunks on each of ${actors} actors are ${stages} stages, and there are ${graph.stages}`
  for (const [place, stage] of forwardOrder(graph).entries())
    if (graph.placement[stage] !== place % actors)
      return `stages go round the actors in turn, which puts stage ${stage} on actor ${place % actors}, and it is on actor ${graph.placement[stage]}`
  return undefined
}
