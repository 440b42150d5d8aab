import type { Group } from '../types.ts'
import type { ParameterPack, StageInfo, SummedTensor } from './packs.ts'

/** Ranks of an actor along some axes of its mesh; undefined where there is one. */
export function groupAlong(
  { mesh, dataAxes }: Pick<StageInfo, 'mesh' | 'dataAxes'>,
  over: readonly string[],
): Group | undefined {
  const axes = mesh.flatMap(({ name, size }) => (size > 1 && over.includes(name) ? [name] : []))
  if (axes.length === 0) return undefined
  // All replicas, however ZeRO divides them.
  const isAll = axes.length === dataAxes.length && axes.every((axis) => replicaNames.includes(axis))
  return { name: isAll ? 'data' : axes.join(' '), axes }
}

const replicaNames: readonly string[] = ['data', 'data.replica', 'data.shard']

/** Ranks of all actors that keep a tied parameter, along `over`: all that have terms of it, or those with equal shards. */
function tiedGroup(stages: readonly StageInfo[], parameter: string, over: readonly string[]): Group {
  const holders = stages.filter((info) => info.packs.some(({ tied }) => tied.has(parameter)))
  const actors = holders.map(({ actor }) => actor).sort((a, b) => a - b)
  const { dataAxes } = holders.find(({ actor }) => actor === actors[0])!
  const replicas = over.filter((axis) => dataAxes.some(({ name }) => name === axis))
  const others = over.filter((axis) => !replicas.includes(axis))
  const kind = replicas.length === dataAxes.length ? [] : replicas.length === 0 ? ['shards'] : ['copies']
  return {
    name: [`tied(${actors.join(',')})`, ...kind, ...others].join('.'),
    axes: ['pipeline', ...over],
    pipelines: actors,
  }
}

/**
 * Ranks whose gradients of what is summed alike are terms of one sum, once they have been added along `added`; undefined
 * where there is one rank.
 */
export function sumGroup(
  stages: readonly StageInfo[],
  info: StageInfo,
  { sums, tied }: SummedTensor,
  added: readonly string[] = [],
): Group | undefined {
  const over = sums.filter((axis) => !added.includes(axis))
  return tied !== undefined ? tiedGroup(stages, tied, over) : groupAlong(info, over)
}

/** Ranks whose losses are terms of the loss. */
export function lossGroup(info: StageInfo): Group | undefined {
  return groupAlong(info, info.lossSums)
}

/** Axes over which gradients that a rank has the whole of, or its share, are neither cut nor dealt out: ranks along them have the same. */
export function repeatedAxes(
  { mesh }: Pick<StageInfo, 'mesh'>,
  { dealt }: ParameterPack,
  cut: readonly string[],
): string[] {
  return mesh.map(({ name }) => name).filter((name) => !dealt.includes(name) && !cut.includes(name))
}
