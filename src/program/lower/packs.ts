import { internalError } from '../../base/index.ts'
import { elementCount, type Graph, type StageCrossings, type StageTasks } from '../../graph/index.ts'
import type { Model } from '../../models/index.ts'
import { blockAxes } from '../shards.ts'
import type { Constant, MeshAxis, PackBlock, PackEntry, Region } from '../types.ts'

/** Everything that lowering needs to know about one stage. */
export interface StageInfo {
  readonly stage: number
  readonly actor: number
  readonly replicas: number
  /** Axes over which its samples are split, of its actor's sub-mesh; how ZeRO deals out is said in these. */
  readonly dataAxes: readonly MeshAxis[]
  /** All axes of the sub-mesh, outermost first: data axes, then those over which a replica's work is split. */
  readonly mesh: readonly MeshAxis[]
  readonly piece: StageCrossings
  /** The forward by itself, as a rank does it. */
  readonly forward: Graph
  readonly tasks: StageTasks
  /** Whether forward and backward, as one, would hold in between what is to be computed again. */
  readonly holdsAsOne: boolean
  /** Inputs of kind `scalar` that a rank has by its place. */
  readonly constants: ReadonlyMap<string, Constant>
  /** Axes over which losses are terms of the loss. */
  readonly lossSums: readonly string[]
  /** What is dealt out over all that ZeRO deals out over, first: there always is one. */
  readonly packs: readonly ParameterPack[]
  /** Stage that keeps each parameter that this one uses and another stage of its actor keeps. */
  readonly borrowed: ReadonlyMap<string, number>
}

/**
 * Parameters that a stage keeps, flat: those that decay, then those that do not, at the outer ends the tied ones. What
 * several stages of one actor use is kept by the lowest of them, their home: an actor has one copy. What is cut over data
 * axes, such as experts, is dealt out over others only, in a pack of its own.
 */
export interface ParameterPack {
  /** What its buffers are named by: the stage, and which of its packs where it is not the first. */
  readonly home: string
  readonly entries: readonly PackEntry[]
  /** Padding included. */
  readonly elements: number
  /** Elements before this one take weight decay. */
  readonly decayEnd: number
  /** Data axes over which it is dealt out, that which varies slowest first; none without ZeRO. */
  readonly dealt: readonly string[]
  /** Those over which a copy is gathered: all of `dealt`, but for axes of copies that share it too. */
  readonly gathered: readonly string[]
  /** Shards into which each segment divides: 1 where every replica holds all of it; and shards of a copy. */
  readonly shards: number
  readonly copyShards: number
  readonly segments: readonly PackSegment[]
  /** Names of parameters that stages of other actors keep too. */
  readonly tied: ReadonlySet<string>
  /** Names of parameters of the pack that other stages of the actor use. */
  readonly shared: ReadonlySet<string>
}

/** Gradients that are added up alike. */
export interface SummedTensor {
  /** Axes over which a rank's gradients are terms, those dealt out over among them, in the order of the mesh. */
  readonly sums: readonly string[]
  /** The tied parameter that it is. */
  readonly tied: string | undefined
}

/**
 * A range of a pack that is dealt out as a whole, padding at its end. A tied parameter is one by itself, so that ranks
 * that keep it have equal shards of it.
 */
export interface PackSegment extends Region, SummedTensor {
  /** End of the last entry: what follows is padding. */
  readonly filled: number
  readonly decay: boolean
  /** This stage is the one that counts it. */
  readonly owned: boolean
  /** Other stages of the actor use it. */
  readonly shared: boolean
  /** Axes over which its tensors are cut. */
  readonly cut: readonly string[]
}

/** How ranks have a parameter. */
export interface PlacedParameter {
  /** Left out: the rank has the whole of it. */
  readonly block?: PackBlock
  /** Of what the rank has. */
  readonly elements: number
  /** As in `SummedTensor`. */
  readonly sums: readonly string[]
}

export interface PackOptions {
  readonly stage: number
  readonly parameters: Model['parameters']
  /** Stages that use each parameter, ascending. */
  readonly users: ReadonlyMap<string, readonly number[]>
  readonly actorOf: readonly number[]
  readonly mesh: readonly MeshAxis[]
  /** Data axes over which ZeRO deals out what is the same along them: those of a copy, and those of copies that share. */
  readonly zero: { readonly gathered: readonly string[]; readonly copies: readonly string[] }
  readonly placed: (name: string) => PlacedParameter | undefined
}

export function packParameters(options: PackOptions): Pick<StageInfo, 'packs' | 'borrowed'> {
  const { stage, parameters, users, actorOf, zero } = options
  const borrowed = new Map<string, number>()
  const kept: KeptParameter[] = []
  for (const parameter of parameters) {
    const { name, shape } = parameter
    const stages = users.get(name) ?? []
    if (!stages.includes(stage)) continue
    const mates = stages.filter((other) => actorOf[other] === actorOf[stage])
    if (mates[0] !== stage) {
      borrowed.set(name, mates[0]!)
      continue
    }
    const placed = options.placed(name)
    if (placed === undefined) throw internalError(`stage ${stage} does not place ${name}`)
    const { elements, sums } = placed
    const isWhole = blockAxes(placed).length === 0 && elements === elementCount(shape)
    const block = isWhole ? undefined : placed.block
    kept.push({
      entry: { name, shape, ...(block === undefined ? {} : { block }), owned: stages[0] === stage },
      elements,
      sums,
      decay: parameter.decay,
      isShared: mates.length > 1,
      isTied: mates.length < stages.length,
    })
  }
  const dealtOf = ({ sums }: Pick<KeptParameter, 'sums'>): string =>
    [...zero.gathered, ...zero.copies].filter((axis) => sums.includes(axis)).join(' ')
  const all = [...zero.gathered, ...zero.copies].join(' ')
  const classes = new Set([all, ...kept.map(dealtOf)])
  const packs = [...classes].map((own, index) =>
    packOf(
      index === 0 ? String(stage) : `${stage}.${index}`,
      kept.filter((parameter) => dealtOf(parameter) === own),
      own === '' ? [] : own.split(' '),
      options,
    ),
  )
  return { packs, borrowed }
}

interface KeptParameter {
  readonly entry: Omit<PackEntry, 'offset'>
  readonly elements: number
  readonly sums: readonly string[]
  readonly decay: boolean
  readonly isShared: boolean
  readonly isTied: boolean
}

function packOf(
  home: string,
  kept: readonly KeptParameter[],
  dealt: readonly string[],
  { mesh, zero }: PackOptions,
): ParameterPack {
  const sizeAlong = (axes: readonly string[]): number =>
    mesh.reduce((product, { name, size }) => (axes.includes(name) ? product * size : product), 1)
  const gathered = dealt.filter((axis) => zero.gathered.includes(axis))
  const shards = sizeAlong(dealt)
  // Those shared on the actor outermost, so that the rest is one range.
  const outer = ({ isShared, isTied }: KeptParameter): number => (isShared ? 2 : isTied ? 1 : 0)
  const kindOf = ({ sums, entry }: KeptParameter): string => [sums, blockAxes(entry).sort()].join(' | ')
  const kinds = [...new Set(kept.map(kindOf))]
  const order = (parameter: KeptParameter): number =>
    parameter.decay ? -1 - outer(parameter) : outer(parameter)
  const sorted = kept.toSorted(
    (a, b) => order(a) - order(b) || kinds.indexOf(kindOf(a)) - kinds.indexOf(kindOf(b)),
  )
  const entries: PackEntry[] = []
  const segments: PackSegment[] = []
  let lastKind: string | undefined
  for (const parameter of sorted) {
    const { entry, elements, sums, decay, isShared, isTied } = parameter
    const known = segments.at(-1)
    const kind = kindOf(parameter)
    const isPlain = known?.tied === undefined && known?.shared !== true && outer(parameter) === 0
    const joins = known !== undefined && known.decay === decay && isPlain && kind === lastKind
    lastKind = kind
    const start = joins ? known.start : (known?.end ?? 0)
    const offset = joins ? known.filled : start
    const filled = offset + elements
    const segment: PackSegment = {
      start,
      filled,
      end: start + Math.ceil((filled - start) / shards) * shards,
      decay,
      owned: entry.owned,
      tied: isTied ? entry.name : undefined,
      shared: isShared,
      sums,
      cut: blockAxes(entry),
    }
    if (joins) segments[segments.length - 1] = segment
    else segments.push(segment)
    const { name, shape, block, owned } = entry
    entries.push({ name, shape, offset, ...(block === undefined ? {} : { block }), owned })
  }
  return {
    home,
    entries,
    elements: segments.at(-1)?.end ?? 0,
    decayEnd: segments.findLast(({ decay }) => decay)?.end ?? 0,
    dealt,
    gathered,
    shards,
    copyShards: sizeAlong(gathered),
    segments,
    tied: new Set(kept.filter(({ isTied }) => isTied).map(({ entry }) => entry.name)),
    shared: new Set(kept.filter(({ isShared }) => isShared).map(({ entry }) => entry.name)),
  }
}

/** The pack of that name, and the stage that keeps it. */
export function findPack(
  stages: readonly StageInfo[],
  home: string,
): { readonly info: StageInfo; readonly pack: ParameterPack } {
  const info = stages[Number(home.split('.')[0])]
  const pack = info?.packs.find((candidate) => candidate.home === home)
  if (info === undefined || pack === undefined) throw internalError(`no pack ${home}`)
  return { info, pack }
}

/** Segment of a pack that an element lies in. */
export function segmentAt({ segments }: ParameterPack, element: number): PackSegment {
  return segments.find(({ start, end }) => start <= element && element < end)!
}

/** Where a segment of the pack lies in the shard that a rank has of it. */
export function shardRegion({ shards }: ParameterPack, { start, end }: Region): Region {
  return { start: start / shards, end: end / shards }
}
