import { elementCount } from '../../graph/index.ts'
import type { Group, PackEntry, Region, Work } from '../types.ts'
import { names } from './compute.ts'
import type { CollectiveNode, Dag } from './dag.ts'
import { replicaGroup, tiedGroup } from './groups.ts'
import type { StageInfo } from './stages.ts'

/**
 * Pass 3: after the last micro-batch, gradients are added over the replicas of their stage, in buckets; a parameter
 * that several stages hold is added once over all ranks of those stages (JaxPP's loop commuting: one accumulator per
 * use). Losses likewise. Returns the groups that came into use.
 */
export function lowerReductions(
  dag: Dag,
  stages: readonly StageInfo[],
  options: { readonly method: Work['method']; readonly bucketBytes: number; readonly elementBytes: number },
): Group[] {
  const groups = new Map<string, Group>()
  if (options.method === 'gradient') {
    const elements = Math.max(1, Math.floor(options.bucketBytes / options.elementBytes))
    lowerReplicas(dag, stages, elements, groups)
    lowerTied(dag, stages, groups)
  }
  lowerLoss(dag, stages, groups)
  return [...groups.values()]
}

function lowerReplicas(
  dag: Dag,
  stages: readonly StageInfo[],
  bucketElements: number,
  groups: Map<string, Group>,
): void {
  for (const info of stages) {
    const { stage, actor, pack } = info
    const group = replicaGroup(info)
    if (group === undefined) continue
    const buffer = names.gradients(stage)
    const untied = pack.entries.filter((entry) => !pack.tied.has(entry.name))
    for (const region of buckets(untied, bucketElements)) {
      groups.set(group.name, group)
      addAllReduce(dag, group.name, [{ actor, operand: { buffer, region } }])
    }
  }
}

function lowerTied(dag: Dag, stages: readonly StageInfo[], groups: Map<string, Group>): void {
  for (const name of new Set(stages.flatMap(({ pack }) => [...pack.tied]))) {
    const holders = stages.filter(({ pack }) => pack.tied.has(name))
    const group = tiedGroup(stages, name)
    groups.set(group.name, group)
    const members = holders.map(({ stage, actor, pack }) => {
      const entry = pack.entries.find((candidate) => candidate.name === name)!
      const region = { start: entry.offset, end: entry.offset + elementCount(entry.shape) }
      return { actor, operand: { buffer: names.gradients(stage), region } }
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
      addAllReduce(dag, group.name, [{ actor, operand: value }])
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

/** Neighbouring entries together, up to `limit` elements where more than one. */
function buckets(entries: readonly PackEntry[], limit: number): Region[] {
  const regions: { start: number; end: number }[] = []
  for (const entry of entries) {
    const end = entry.offset + elementCount(entry.shape)
    const last = regions.at(-1)
    if (last !== undefined && last.end === entry.offset && end - last.start <= limit) last.end = end
    else regions.push({ start: entry.offset, end })
  }
  return regions
}
