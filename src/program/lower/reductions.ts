import { elementCount } from '../../graph/index.ts'
import type { ResolvedZero } from '../../plan/index.ts'
import type { Group, Region, Work } from '../types.ts'
import type { CollectiveNode, Dag } from './dag.ts'
import { replicaGroup, tiedGroup, undealtAxes } from './groups.ts'
import { names } from './names.ts'
import { type StageInfo, shardRegion } from './stages.ts'

/**
 * Pass 3: after the last micro-batch, gradients are added over the replicas of their stage, in buckets; a parameter
 * that several stages hold is added once over all ranks of those stages (JaxPP's loop commuting: one accumulator per
 * use). Losses likewise. Returns the groups that came into use.
 */
export function lowerReductions(
  dag: Dag,
  stages: readonly StageInfo[],
  options: {
    readonly method: Work['method']
    readonly bucketBytes: number
    readonly elementBytes: number
    readonly zero: ResolvedZero | null
  },
): Group[] {
  const groups = new Map<string, Group>()
  if (options.method === 'gradient') {
    const elements = Math.max(1, Math.floor(options.bucketBytes / options.elementBytes))
    lowerReplicas(dag, stages, elements, options.zero, groups)
    lowerTied(dag, stages, options.zero, groups)
  }
  lowerLoss(dag, stages, groups)
  return [...groups.values()]
}

function lowerReplicas(
  dag: Dag,
  stages: readonly StageInfo[],
  bucketElements: number,
  zero: ResolvedZero | null,
  groups: Map<string, Group>,
): void {
  for (const info of stages) {
    const { stage, actor, pack, axes } = info
    // Shards have been added over the axes that share them out.
    const group = replicaGroup(info, undealtAxes(axes, zero))
    if (group === undefined) continue
    const buffer = names.gradients(stage)
    const parts =
      zero === null
        ? pack.entries
            .filter((entry) => !pack.tied.has(entry.name))
            .map(({ offset, shape }) => ({ start: offset, end: offset + elementCount(shape) }))
        : pack.segments.filter(({ tied }) => tied === undefined).map((segment) => shardRegion(pack, segment))
    for (const region of buckets(parts, bucketElements)) {
      groups.set(group.name, group)
      addAllReduce(dag, group.name, [{ actor, parts: [{ source: { buffer, region } }] }])
    }
  }
}

function lowerTied(
  dag: Dag,
  stages: readonly StageInfo[],
  zero: ResolvedZero | null,
  groups: Map<string, Group>,
): void {
  for (const name of new Set(stages.flatMap(({ pack }) => [...pack.tied]))) {
    const holders = stages.filter(({ pack }) => pack.tied.has(name))
    const group = tiedGroup(stages, name, undealtAxes(holders[0]!.axes, zero))
    groups.set(group.name, group)
    const members = holders.map(({ stage, actor, pack }) => {
      const region = shardRegion(pack, pack.segments.find(({ tied }) => tied === name)!)
      return { actor, parts: [{ source: { buffer: names.gradients(stage), region } }] }
    })
    addAllReduce(dag, group.name, members)
  }
}

function lowerLoss(dag: Dag, stages: readonly StageInfo[], groups: Map<string, Group>): void {
  for (const info of stages) {
    const { actor, piece } = info
    const group = replicaGroup(info)
    if (!piece.graph.outputs.some((output) => output.name === 'loss')) continue
    const value = { buffer: 'loss' }
    if (group !== undefined) {
      groups.set(group.name, group)
      addAllReduce(dag, group.name, [{ actor, parts: [{ source: value }] }])
    }
    dag.add({ kind: 'move', actor, stream: 'store', direction: 'out', port: 'loss', value, latency: 0 })
  }
}

/** Adds what the members hold, in place, once for each group of ranks. */
export function addAllReduce(dag: Dag, group: string, members: CollectiveNode['members']): void {
  dag.add({
    kind: 'collective',
    stream: 'reduce',
    operation: 'allReduce',
    reduce: 'sum',
    group,
    members,
    latency: 0,
  })
}

/** Neighbouring parts together, up to `limit` elements where more than one. */
function buckets(parts: readonly Region[], limit: number): Region[] {
  const regions: { start: number; end: number }[] = []
  for (const { start, end } of parts) {
    const last = regions.at(-1)
    if (last !== undefined && last.end === start && end - last.start <= limit) last.end = end
    else regions.push({ start, end })
  }
  return regions
}
