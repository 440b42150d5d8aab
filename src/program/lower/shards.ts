import { internalError } from '../../base/index.ts'
import type { ResolvedZero } from '../../plan/index.ts'
import { packHome } from '../packNames.ts'
import type { CollectiveOperation, Group, Region } from '../types.ts'
import { type Dag, type DagOperand, type DagPart, type DagValue, participants } from './dag.ts'
import { groupAlong } from './groups.ts'
import { names } from './names.ts'
import { findPack, type PackSegment, type ParameterPack, type StageInfo } from './packs.ts'

/**
 * Pass 2 of ZeRO: an all-gather for each window of actions that reads parameters, of all that they read; and at the end
 * of each window of gradients a reduce-scatter into the shards. The gather of a window begins when the window before the
 * last is over, or with no prefetch when the last is: that is how many gathered stages a rank holds at once.
 * Returns the groups that came into use.
 */
export function lowerShards(
  dag: Dag,
  stages: readonly StageInfo[],
  zero: ResolvedZero,
  options: { readonly gradients: boolean },
): Group[] {
  const windows = windowsOf(dag)
  const groups: Group[] = []
  /** One collective for all packs that are dealt out over the same axes. */
  const add = (
    operation: CollectiveOperation,
    actor: number,
    parts: readonly GroupedPart[],
    after?: readonly number[],
  ): void => {
    const byGroup = new Map<string, { readonly group: Group; readonly parts: DagPart[] }>()
    for (const { group, part } of parts) {
      const known = byGroup.get(group.name)
      if (known === undefined) byGroup.set(group.name, { group, parts: [part] })
      else known.parts.push(part)
    }
    for (const { group, parts: own } of byGroup.values()) {
      groups.push(group)
      collective(dag, operation, group, actor, own, after)
    }
  }
  const state = ({ home }: ParameterPack): DagValue => ({ buffer: names.parameters(home), step: 0 })
  const sharesCopies = ({ gathered, dealt }: ParameterPack): boolean => gathered.length < dealt.length
  for (let actor = 0; actor < dag.actors; actor++) {
    const mine = stages.filter((info) => info.actor === actor)
    const ofCopies = mine.flatMap((info) => info.packs.filter(sharesCopies).map((pack) => ({ info, pack })))
    const overCopies = ({ gathered, dealt }: ParameterPack): string[] =>
      dealt.filter((axis) => !gathered.includes(axis))
    // Over the copies first: each rank gets what it alone of its copy holds.
    add(
      'allGather',
      actor,
      ofCopies.flatMap(({ info, pack }) =>
        partsOf(
          groupAlong(info, overCopies(pack)),
          pack,
          pack.segments,
          { value: state(pack), split: pack.shards },
          { value: { buffer: names.copyShard(pack.home) }, split: pack.copyShards },
        ),
      ),
    )
    const gathers = windows.gathers[actor]!
    gathers.forEach(({ window, reads }, index) => {
      const parts = [...reads].flatMap(([home, regions]) => {
        const { info, pack } = findPack(stages, home)
        const source = sharesCopies(pack) ? { buffer: names.copyShard(home) } : state(pack)
        return partsOf(
          groupAlong(info, pack.gathered),
          pack,
          segmentsIn(pack, regions),
          { value: source, split: pack.copyShards },
          { value: { buffer: names.gathered(home), window }, split: 1 },
        )
      })
      const before = gathers[index - (zero.prefetch ? 2 : 1)]
      const after = zero.gather === 'step' || before === undefined ? undefined : [before.last]
      add('allGather', actor, parts, after)
    })
    if (!options.gradients) continue
    const started = new Set<string>()
    for (const { window, reads } of windows.gradients[actor]!) {
      const parts = [...reads].flatMap(([home, regions]) => {
        const { info, pack } = findPack(stages, home)
        return segmentsIn(pack, regions).flatMap((segment) => {
          const key = `${home} ${segment.start}`
          const mode = started.has(key) ? 'add' : 'set'
          started.add(key)
          const target = sharesCopies(pack) ? names.copyGradients(home) : names.gradients(home)
          return partsOf(
            groupAlong(info, pack.gathered),
            pack,
            [segment],
            { value: { buffer: names.windowGradients(home), window }, split: 1 },
            { value: { buffer: target }, split: pack.copyShards },
            mode,
          )
        })
      })
      add('reduceScatter', actor, parts)
    }
    add(
      'reduceScatter',
      actor,
      ofCopies.flatMap(({ info, pack }) =>
        partsOf(
          groupAlong(info, overCopies(pack)),
          pack,
          pack.segments,
          { value: { buffer: names.copyGradients(pack.home) }, split: pack.copyShards },
          { value: { buffer: names.gradients(pack.home) }, split: pack.shards },
        ),
      ),
    )
  }
  return groups
}

interface GroupedPart {
  readonly group: Group
  readonly part: DagPart
}

function collective(
  dag: Dag,
  operation: CollectiveOperation,
  group: Group,
  actor: number,
  parts: readonly DagPart[],
  after?: readonly number[],
): void {
  if (parts.length === 0) return
  dag.add({
    kind: 'collective',
    stream: operation === 'allGather' ? 'gather' : 'reduce',
    operation,
    ...(operation === 'allGather' ? {} : { reduce: 'sum' as const }),
    group: group.name,
    members: [{ actor, parts }],
    latency: 0,
    ...(after === undefined ? {} : { after }),
  })
}

/** For each segment, from the `1 / small` of it that `source` holds to the `1 / large` that `result` does. */
function partsOf(
  group: Group | undefined,
  { segments: all }: ParameterPack,
  segments: readonly PackSegment[],
  source: { readonly value: DagValue; readonly split: number },
  result: { readonly value: DagValue; readonly split: number },
  mode: 'set' | 'add' = 'set',
): GroupedPart[] {
  if (group === undefined) throw internalError('a pack that is dealt out to one rank')
  const operand = ({ value, split }: typeof source, { start, end }: Region): DagOperand =>
    all.length === 1 ? value : { ...value, region: { start: start / split, end: end / split } }
  return segments.map((segment) => ({
    group,
    part: { source: operand(source, segment), result: { ...operand(result, segment), mode } },
  }))
}

/** Segments of a pack that overlap one of the regions; all of them for an undefined region. */
function segmentsIn({ segments }: ParameterPack, regions: ReadonlySet<Region | undefined>): PackSegment[] {
  return segments.filter(({ start, end }) =>
    [...regions].some((region) => region === undefined || (region.start < end && start < region.end)),
  )
}

interface UsedWindow {
  readonly window: number
  /** By the pack that has them. */
  readonly reads: Map<string, Set<Region | undefined>>
  /** The node that uses it last, in the order of insertion. */
  last: number
}

/** By actor, in order: what actions read of gathered parameters, and what they write of a window's gradients. */
function windowsOf(dag: Dag): { readonly gathers: UsedWindow[][]; readonly gradients: UsedWindow[][] } {
  const gathers = Array.from({ length: dag.actors }, () => new Map<number, UsedWindow>())
  const gradients = Array.from({ length: dag.actors }, () => new Map<number, UsedWindow>())
  for (const node of dag.nodes) {
    const [actor] = participants(node)
    if ((node.kind !== 'run' && node.kind !== 'collective') || actor === undefined) continue
    const note = (of: Map<number, UsedWindow>[], { buffer, window, region }: DagOperand): void => {
      if (window === undefined) return
      const home = packHome(buffer)
      if (home === undefined) throw internalError(`${buffer} has windows`)
      const known = of[actor]!.get(window) ?? { window, reads: new Map(), last: node.id }
      of[actor]!.set(window, known)
      known.reads.set(home, (known.reads.get(home) ?? new Set()).add(region))
      known.last = node.id
    }
    for (const operand of dag.accesses.of(node.id))
      note(operand.kind === 'read' ? gathers : gradients, operand)
  }
  const inOrder = (of: Map<number, UsedWindow>): UsedWindow[] =>
    [...of.values()].sort((a, b) => a.window - b.window)
  return { gathers: gathers.map(inOrder), gradients: gradients.map(inOrder) }
}
