import { localElements } from '../shards.ts'
import type { Group, Region, Work } from '../types.ts'
import type { CollectiveNode, Dag } from './dag.ts'
import { lossGroup, sumGroup } from './groups.ts'
import { names } from './names.ts'
import { type ParameterPack, type StageInfo, segmentAt, shardRegion } from './packs.ts'

/**
 * Pass 3: after the last micro-batch, gradients are added over the replicas of their stage, and along other axes where ranks
 * hold terms of them, in buckets; a parameter that several stages hold is added once over all ranks of those stages
 * (JaxPP's loop commuting: one accumulator per use). Losses likewise. Returns the groups that came into use.
 */
export function lowerReductions(
  dag: Dag,
  stages: readonly StageInfo[],
  options: {
    readonly method: Work['method']
    readonly bucketBytes: number
    readonly elementBytes: number
  },
): Group[] {
  const groups = new Map<string, Group>()
  if (options.method === 'gradient') {
    const elements = Math.max(1, Math.floor(options.bucketBytes / options.elementBytes))
    lowerSums(dag, stages, elements, groups)
    lowerTied(dag, stages, groups)
  }
  lowerLoss(dag, stages, groups)
  return [...groups.values()]
}

function lowerSums(
  dag: Dag,
  stages: readonly StageInfo[],
  bucketElements: number,
  groups: Map<string, Group>,
): void {
  for (const info of stages)
    for (const pack of info.packs) {
      const parts: SummedRegion[] = summedRegions(info, pack).flatMap(({ region, element }) => {
        const segment = segmentAt(pack, element)
        // Shards have been added over the axes that share them out.
        const group = sumGroup(stages, info, segment, pack.dealt)
        return group === undefined || segment.tied !== undefined ? [] : [{ ...region, group }]
      })
      const buffer = names.gradients(pack.home)
      for (const { group, ...region } of buckets(parts, bucketElements)) {
        groups.set(group.name, group)
        addAllReduce(dag, group.name, [{ actor: info.actor, parts: [{ source: { buffer, region } }] }])
      }
    }
}

/** What a rank adds up in one piece at least: tensors, or shards of segments. */
function summedRegions(
  { mesh }: StageInfo,
  pack: ParameterPack,
): { readonly region: Region; readonly element: number }[] {
  return pack.dealt.length === 0
    ? pack.entries.map((entry) => ({
        region: { start: entry.offset, end: entry.offset + localElements(entry, mesh) },
        element: entry.offset,
      }))
    : pack.segments.map((segment) => ({ region: shardRegion(pack, segment), element: segment.start }))
}

interface SummedRegion extends Region {
  readonly group: Group
}

function lowerTied(dag: Dag, stages: readonly StageInfo[], groups: Map<string, Group>): void {
  const holders = new Map<string, { readonly info: StageInfo; readonly pack: ParameterPack }[]>()
  for (const info of stages)
    for (const pack of info.packs)
      for (const name of pack.tied) holders.set(name, [...(holders.get(name) ?? []), { info, pack }])
  for (const [name, own] of holders) {
    const segmentOf = (pack: ParameterPack) => pack.segments.find(({ tied }) => tied === name)!
    const [{ info: first, pack: firstPack }] = own as [(typeof own)[number]]
    const group = sumGroup(stages, first, segmentOf(firstPack), firstPack.dealt)!
    groups.set(group.name, group)
    const members = own.map(({ info, pack }) => {
      const region = shardRegion(pack, segmentOf(pack))
      return { actor: info.actor, parts: [{ source: { buffer: names.gradients(pack.home), region } }] }
    })
    addAllReduce(dag, group.name, members)
  }
}

function lowerLoss(dag: Dag, stages: readonly StageInfo[], groups: Map<string, Group>): void {
  for (const info of stages) {
    const { actor, forward } = info
    const group = lossGroup(info)
    if (!forward.outputs.some((output) => output.name === 'loss')) continue
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

/** Neighbouring parts that are added over one group together, up to `limit` elements where more than one. */
function buckets(parts: readonly SummedRegion[], limit: number): SummedRegion[] {
  const regions: { start: number; end: number; readonly group: Group }[] = []
  for (const { start, end, group } of parts) {
    const last = regions.at(-1)
    const joins = last !== undefined && last.end === start && end - last.start <= limit
    if (joins && last.group.name === group.name) last.end = end
    else regions.push({ start, end, group })
  }
  return regions
}
