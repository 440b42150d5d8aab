import { internalError } from '../../base/index.ts'
import type { Group } from '../types.ts'
import type { StageInfo } from './stages.ts'

/** The replicas of a stage; undefined where there is one. */
export function replicaGroup({ replicas }: StageInfo): Group | undefined {
  return replicas === 1 ? undefined : { name: 'data', axes: ['data'] }
}

/** All ranks of all stages that hold a tied parameter. */
export function tiedGroup(stages: readonly StageInfo[], parameter: string): Group {
  const actors = stages.filter(({ pack }) => pack.tied.has(parameter)).map(({ actor }) => actor)
  if (new Set(actors).size < actors.length) throw internalError(`two stages of one actor hold ${parameter}`)
  return { name: `tied(${actors.join(',')})`, axes: ['pipeline', 'data'], pipelines: actors }
}

/** Ranks whose gradients of the parameter are terms of one sum; undefined where there is one rank. */
export function sumGroup(
  stages: readonly StageInfo[],
  info: StageInfo,
  parameter: string,
): Group | undefined {
  return info.pack.tied.has(parameter) ? tiedGroup(stages, parameter) : replicaGroup(info)
}
