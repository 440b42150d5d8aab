import type { ResolvedZero } from '../../plan/index.ts'
import type { Group, MeshAxis } from '../types.ts'
import type { StageInfo } from './stages.ts'

/** Data axes over which ZeRO deals out the state of a stage, the one that varies slowest first. */
export function dealtAxes(axes: readonly MeshAxis[], zero: ResolvedZero | null): string[] {
  if (zero === null) return []
  const [outer, inner] = axes.map(({ name }) => name)
  if (inner === undefined) return [outer!]
  return zero.shardsCopies ? [inner, outer!] : [inner]
}

/** The others: gradients that an update reads are terms over them until they are added. */
export function undealtAxes(axes: readonly MeshAxis[], zero: ResolvedZero | null): string[] {
  const dealt = dealtAxes(axes, zero)
  return axes.map(({ name }) => name).filter((name) => !dealt.includes(name))
}

/** Replicas of a stage along `over`, some of its data axes or all; undefined where there is one. */
export function replicaGroup({ replicas, axes }: StageInfo, over?: readonly string[]): Group | undefined {
  if (over === undefined || over.length === axes.length)
    return replicas === 1 ? undefined : { name: 'data', axes: axes.map(({ name }) => name) }
  return over.length === 0 ? undefined : { name: over.join(' '), axes: [...over] }
}

/** Ranks of all actors that keep a tied parameter, along `over`: all of them, or those with equal shards. */
export function tiedGroup(stages: readonly StageInfo[], parameter: string, over?: readonly string[]): Group {
  const actors = stages
    .filter(({ pack }) => pack.tied.has(parameter))
    .map(({ actor }) => actor)
    .sort((a, b) => a - b)
  const { axes } = stages.find(({ actor }) => actor === actors[0])!
  const name = `tied(${actors.join(',')})`
  if (over === undefined || over.length === axes.length)
    return { name, axes: ['pipeline', ...axes.map((axis) => axis.name)], pipelines: actors }
  const kind = over.length === 0 ? 'shards' : 'copies'
  return { name: `${name}.${kind}`, axes: ['pipeline', ...over], pipelines: actors }
}

/**
 * Ranks whose gradients of the parameter are terms of one sum, once they have been added over all data axes but `over`;
 * undefined where there is one rank.
 */
export function sumGroup(
  stages: readonly StageInfo[],
  info: StageInfo,
  parameter: string,
  over?: readonly string[],
): Group | undefined {
  return info.pack.tied.has(parameter) ? tiedGroup(stages, parameter, over) : replicaGroup(info, over)
}
