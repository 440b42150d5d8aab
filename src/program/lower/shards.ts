import { internalError } from '../../base/index.ts'
import type { ResolvedZero } from '../../plan/index.ts'
import { packStage } from '../packNames.ts'
import type { CollectiveOperation, Group, Region } from '../types.ts'
import type { Dag, DagOperand, DagPart, DagValue } from './dag.ts'
import { replicaGroup } from './groups.ts'
import { names } from './names.ts'
import type { PackSegment, StageInfo } from './stages.ts'

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
  const [inner, outer] = stages[0]!.axes.map(({ name }) => name).reverse()
  const shardGroup = replicaGroup(stages[0]!, [inner!])!
  const copyGroup = replicaGroup(stages[0]!, outer === undefined ? [] : [outer])
  const windows = windowsOf(dag)
  const { shards, copies, shardsCopies } = zero
  const held = shards * (shardsCopies ? copies : 1)
  for (let actor = 0; actor < dag.actors; actor++) {
    const mine = stages.filter((info) => info.actor === actor)
    const state = (home: number): DagValue => ({ buffer: names.parameters(home), step: 0 })
    if (shardsCopies) {
      // Over the copies first: each rank gets what it alone of its copy holds.
      const parts = mine.flatMap((info) =>
        partsOf(
          info,
          info.pack.segments,
          { value: state(info.stage), split: held },
          { value: { buffer: names.copyShard(info.stage) }, split: shards },
        ),
      )
      collective(dag, 'allGather', copyGroup!, actor, parts)
    }
    const gathers = windows.gathers[actor]!
    gathers.forEach(({ window, reads }, index) => {
      const parts = [...reads].flatMap(([home, regions]) =>
        partsOf(
          stages[home]!,
          segmentsIn(stages[home]!, regions),
          { value: shardsCopies ? { buffer: names.copyShard(home) } : state(home), split: shards },
          { value: { buffer: names.gathered(home), window }, split: 1 },
        ),
      )
      const before = gathers[index - (zero.prefetch ? 2 : 1)]
      const after = zero.gather === 'step' || before === undefined ? undefined : [before.last]
      collective(dag, 'allGather', shardGroup, actor, parts, after)
    })
    if (!options.gradients) continue
    const started = new Set<string>()
    for (const { window, reads } of windows.gradients[actor]!) {
      const parts = [...reads].flatMap(([home, regions]) =>
        segmentsIn(stages[home]!, regions).flatMap((segment) => {
          const key = `${home} ${segment.start}`
          const mode = started.has(key) ? 'add' : 'set'
          started.add(key)
          return partsOf(
            stages[home]!,
            [segment],
            { value: { buffer: names.windowGradients(home), window }, split: 1 },
            {
              value: { buffer: shardsCopies ? names.copyGradients(home) : names.gradients(home) },
              split: shards,
            },
          ).map(({ source, result }): DagPart => ({ source, result: { ...result!, mode } }))
        }),
      )
      collective(dag, 'reduceScatter', shardGroup, actor, parts)
    }
    if (shardsCopies) {
      const parts = mine.flatMap((info) =>
        partsOf(
          info,
          info.pack.segments,
          { value: { buffer: names.copyGradients(info.stage) }, split: shards },
          { value: { buffer: names.gradients(info.stage) }, split: held },
        ),
      )
      collective(dag, 'reduceScatter', copyGroup!, actor, parts)
    }
  }
  return shardsCopies ? [shardGroup, copyGroup!] : [shardGroup]
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
  { pack }: StageInfo,
  segments: readonly PackSegment[],
  source: { readonly value: DagValue; readonly split: number },
  result: { readonly value: DagValue; readonly split: number },
): DagPart[] {
  const operand = ({ value, split }: typeof source, { start, end }: Region): DagOperand =>
    pack.segments.length === 1 ? value : { ...value, region: { start: start / split, end: end / split } }
  return segments.map((segment) => ({
    source: operand(source, segment),
    result: { ...operand(result, segment), mode: 'set' },
  }))
}

/** Segments of a stage's pack that overlap one of the regions; all of them for an undefined region. */
function segmentsIn({ pack }: StageInfo, regions: ReadonlySet<Region | undefined>): PackSegment[] {
  return pack.segments.filter(({ start, end }) =>
    [...regions].some((region) => region === undefined || (region.start < end && start < region.end)),
  )
}

interface UsedWindow {
  readonly window: number
  /** By the stage that keeps them. */
  readonly reads: Map<number, Set<Region | undefined>>
  /** The node that uses it last, in the order of insertion. */
  last: number
}

/** By actor, in order: what runs read of gathered parameters, and what they write of a window's gradients. */
function windowsOf(dag: Dag): { readonly gathers: UsedWindow[][]; readonly gradients: UsedWindow[][] } {
  const gathers = Array.from({ length: dag.actors }, () => new Map<number, UsedWindow>())
  const gradients = Array.from({ length: dag.actors }, () => new Map<number, UsedWindow>())
  for (const node of dag.nodes) {
    if (node.kind !== 'run') continue
    const note = (of: Map<number, UsedWindow>[], { buffer, window, region }: DagOperand): void => {
      if (window === undefined) return
      const home = packStage(buffer)
      if (home === undefined) throw internalError(`${buffer} has windows`)
      const known = of[node.actor]!.get(window) ?? { window, reads: new Map(), last: node.id }
      of[node.actor]!.set(window, known)
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
