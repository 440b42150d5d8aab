import type { Group } from '../types.ts'
import type { StageInfo } from './stages.ts'

/** The replicas of a stage; undefined where there is one. */
export function replicaGroup({ replicas, axes }: StageInfo): Group | undefined {
  return replicas === 1 ? undefined : { name: 'data', axes: axes.map(({ name }) => name) }
}

/** All ranks of all actors that keep a tied parameter. */
export function tiedGroup(stages: readonly StageInfo[], parameter: string): Group {
  const actors = stages
    .filter(({ pack }) => pack.tied.has(parameter))
    .map(({ actor }) => actor)
    .sort((a, b) => a - b)
  const axes = stages.find(({ actor }) => actor === actors[0])!.axes.map(({ name }) => name)
  return { name: `tied(${actors.join(',')})`, axes: ['pipeline', ...axes], pipelines: actors }
}

/** Ranks whose gradients of the parameter are terms of one sum; undefined where there is one rank. */
export function sumGroup(
  stages: readonly StageInfo[],
  info: StageInfo,
  parameter: string,
): Group | undefined {
  return info.pack.tied.has(parameter) ? tiedGroup(stages, parameter) : replicaGroup(info)
}

/**
 * The same once terms have been added over all data axes but `rest`: what shards of equal place hold. Undefined where
 * nothing is left to add.
 */
export function remainingGroup(
  stages: readonly StageInfo[],
  info: StageInfo,
  parameter: string,
  rest: readonly string[],
): Group | undefined {
  if (!info.pack.tied.has(parameter))
    return rest.length === 0 ? undefined : { name: rest.join(' '), axes: [...rest] }
  const { name, pipelines } = tiedGroup(stages, parameter)
  return {
    name: `${name}.${rest.length === 0 ? 'shards' : 'copies'}`,
    axes: ['pipeline', ...rest],
    ...(pipelines === undefined ? {} : { pipelines }),
  }
}
