import { leastCommonMultiple, MeshwrightError } from '../base/index.ts'
import type { FactoredAxes, LayoutSettings } from '../layout/index.ts'
import {
  factorRanks,
  type HeadCut,
  type HeadParts,
  headParts,
  modelRanks,
  tensorAxes,
  tensorSize,
} from './factorRanks.ts'
import { writeTensor } from './layoutChecks.ts'
import type { ModelShape } from './modelShape.ts'
import { shrinkReplicas } from './shrink.ts'
import type { PlanMesh, PlanTensor } from './types.ts'

/** Axes of a plan's mesh beyond `pipeline`, as they are to be made small. */
export interface MeshToShrink {
  readonly mesh: PlanMesh
  /** Of each actor. */
  readonly replicas: readonly number[]
  readonly neighbours: readonly (readonly [number, number])[]
  readonly shape: ModelShape
  /** Null: every replica is one rank. */
  readonly settings: LayoutSettings | null
  /** ZeRO has several copies of several shards. */
  readonly isHybrid: boolean
}

export interface ShrunkMesh {
  readonly mesh: PlanMesh
  readonly replicas: readonly number[]
  readonly heads: ShrunkHeads
  /** What does not show on it, one sentence each. */
  readonly hides: readonly string[]
}

/** Heads of a small model, and how the axes of its mesh cut them. */
interface ShrunkHeads {
  readonly heads: number
  readonly kvHeads: number
  readonly tensor: HeadParts
  readonly context: HeadParts
}

/** Most ranks of experts that are tried: two for each axis that they may be cut over. */
const expertSizes = [1, 2, 3, 4, 6, 8, 12, 16]

/**
 * The mesh with the fewest ranks that does the same, of at most `limit` where every actor can have one. In this order are kept: what
 * has several ranks (replicas the last); the split of axes by heads and experts and both levels of ZeRO; rings of three,
 * in which the two directions differ; the pattern of replicas.
 */
export function shrinkMesh(before: MeshToShrink, limit: number): ShrunkMesh {
  const { mesh, replicas } = before
  const most = Math.max(limit, replicas.length)
  const classOf = (small: PlanMesh, counts: readonly number[]): SplitClass | undefined =>
    splitClass(small, counts, headCutOf(before, shrinkHeads(before, small)))
  const own = splitClass(mesh, replicas, headCutOf(before, ownHeads(before)))!
  let best:
    | { readonly mesh: PlanMesh; readonly replicas: readonly number[]; readonly score: number[] }
    | undefined
  const fitting = new Map<number, readonly number[][]>()
  for (const small of smallMeshes(before)) {
    const room = Math.floor(most / modelRanks(small))
    if (room < replicas.length) continue
    if (!fitting.has(room)) fitting.set(room, smallReplicas(before, room))
    for (const [order, counts] of fitting.get(room)!.entries()) {
      const split = classOf(small, counts)
      if (split === undefined) continue
      // Both levels of ZeRO and a cut of experts do not go together on the replicas.
      if (before.isHybrid && counts.every((count) => count === 4) && split.cutsData) continue
      const drops = (now: number, then: number): number => Number(now === 1 && then > 1)
      const lost =
        drops(tensorSize(small.tensor), tensorSize(mesh.tensor)) +
        drops(small.context, mesh.context) +
        drops(small.expert, mesh.expert) +
        drops(small.expertTensor, mesh.expertTensor)
      const lostReplicas = Number(counts.every((count) => count === 1) && replicas.some((count) => count > 1))
      const score = [
        lost + lostReplicas,
        lost,
        Number(split.heads !== own.heads) +
          Number(split.axes !== own.axes) +
          Number(before.isHybrid && counts[0] !== 4),
        Number(isRing(before) && small.context < 3),
        order,
        counts.reduce((sum, count) => sum + count, 0) * modelRanks(small),
      ]
      if (best === undefined || isBefore(score, best.score)) best = { mesh: small, replicas: counts, score }
    }
  }
  const made = best!
  const data = made.replicas.every((count) => count === made.replicas[0]) ? made.replicas[0]! : made.replicas
  const heads = shrinkHeads(before, made.mesh)
  const after = classOf(made.mesh, made.replicas)!
  return {
    mesh: { ...made.mesh, data },
    replicas: made.replicas,
    heads,
    hides: hidden(before, made.mesh, own, after),
  }
}

function isBefore(score: readonly number[], other: readonly number[]): boolean {
  const place = score.findIndex((value, index) => value !== other[index])
  return place >= 0 && score[place]! < other[place]!
}

function isRing({ mesh, settings }: MeshToShrink): boolean {
  return settings?.context === 'ring' && mesh.context >= 3 && settings.rules.length === 0
}

function smallMeshes(before: MeshToShrink): PlanMesh[] {
  const { mesh } = before
  const upTo = (size: number, sizes: readonly number[]): number[] => sizes.filter((count) => count <= size)
  return smallTensors(mesh.tensor).flatMap((tensor) =>
    upTo(mesh.context, isRing(before) ? [1, 2, 3] : [1, 2, 4]).flatMap((context) =>
      upTo(mesh.expert, expertSizes).flatMap((expert) =>
        upTo(mesh.expertTensor, [1, 2, 4]).map((expertTensor) => ({
          ...mesh,
          tensor,
          context,
          expert,
          expertTensor,
        })),
      ),
    ),
  )
}

function smallTensors(tensor: PlanTensor): PlanTensor[] {
  if (typeof tensor === 'number') return [1, 2, 4, 8].filter((size) => size <= tensor)
  const edges = [1, 2].filter((edge) => edge <= Object.values(tensorAxes(tensor))[0]!)
  return edges.map((edge) => ('row' in tensor ? { row: edge, column: edge } : { x: edge, y: edge, z: edge }))
}

/** The best first. */
function smallReplicas({ replicas, neighbours, isHybrid, mesh }: MeshToShrink, room: number): number[][] {
  const fewest = shrinkReplicas(replicas, room, neighbours)
  const fits = (counts: readonly number[]): boolean => counts.reduce((sum, count) => sum + count, 0) <= room
  const several = [2, 4].map((factor) => fewest.map((count) => factor * count))
  const equal = [2, 4, 8].map((count) => replicas.map(() => count))
  const hasExperts = mesh.expert * mesh.expertTensor > 1
  const isEqual = replicas.every((count) => count === replicas[0])
  return [
    ...(isHybrid ? [replicas.map(() => 4)] : []),
    ...(hasExperts && isEqual ? equal : []),
    fewest,
    ...(hasExperts ? several : []),
    replicas.map(() => 1),
  ].filter((counts) => fits(counts) && counts.every((count, actor) => count <= replicas[actor]!))
}

/** What a mesh is cut into: axes of heads, and axes of the ranks of every actor. */
interface SplitClass {
  readonly heads: string
  readonly axes: string
  /** Experts are cut over replicas. */
  readonly cutsData: boolean
}

function splitClass(mesh: PlanMesh, replicas: readonly number[], heads: HeadCut): SplitClass | undefined {
  const experts = mesh.expert * mesh.expertTensor
  const own = modelRanks(mesh)
  if (replicas.some((count) => (count * own) % experts !== 0)) return undefined
  const splits = ({ kv, group }: HeadParts): string => `${kv > 1}${group > 1}`
  const factored = new Map<number, FactoredAxes>()
  try {
    for (const count of new Set(replicas)) factored.set(count, factorRanks(mesh, count, heads))
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    return undefined
  }
  const axes = ({ mesh: { axes: inside }, replicas: outside }: FactoredAxes): string =>
    [...outside, { name: '|' }, ...inside].map(({ name }) => name).join(' ')
  return {
    heads: [heads.tensor, ...(heads.context === undefined ? [] : [heads.context])].map(splits).join(' '),
    cutsData: [...factored.values()].some(({ mesh: { axes: inside }, parts }) =>
      inside.some(({ name }) => parts['data']!.includes(name)),
    ),
    axes: experts === 1 ? '' : replicas.map((count) => axes(factored.get(count)!)).join('; '),
  }
}

function headCutOf({ settings }: MeshToShrink, { tensor, context }: ShrunkHeads): HeadCut {
  return settings?.context === 'ulysses' ? { tensor, context } : { tensor }
}

function ownHeads({ mesh, shape, settings }: MeshToShrink): ShrunkHeads {
  const edge = Object.values(tensorAxes(mesh.tensor))[0]!
  const tensor = headParts(shape.kvHeads, edge)
  const ranks = settings?.context === 'ulysses' ? mesh.context : 1
  return { ...shape, tensor, context: headParts(shape.kvHeads / tensor.kv, ranks) }
}

/**
 * The fewest heads with the same pattern: one of queries, and of keys and values, on a rank or several; one of queries for each of keys and
 * values or several; axes split by them as they were, if they have ranks enough.
 */
function shrinkHeads(before: MeshToShrink, small: PlanMesh): ShrunkHeads {
  const own = ownHeads(before)
  const edge = Object.values(tensorAxes(small.tensor))[0]!
  const tensor = shrinkParts(own.tensor, edge)
  const context = shrinkParts(own.context, before.settings?.context === 'ulysses' ? small.context : 1)
  const ranks = (parts: Pick<ShrunkHeads, 'tensor' | 'context'>): number =>
    parts.tensor.kv * parts.tensor.group * parts.context.kv * parts.context.group
  const several = (count: number): number => (count > 1 ? 2 : 1)
  const kvHeads = tensor.kv * context.kv * several(own.kvHeads / (own.tensor.kv * own.context.kv))
  if (own.heads === own.kvHeads) return { heads: kvHeads, kvHeads, tensor, context }
  let heads = leastCommonMultiple(kvHeads, ranks({ tensor, context }))
  if (heads === kvHeads) heads *= 2
  if (own.heads > ranks(own) && heads === ranks({ tensor, context })) heads *= 2
  return { heads, kvHeads, tensor, context }
}

function shrinkParts({ kv, group }: HeadParts, ranks: number): HeadParts {
  if (kv === 1) return { kv: 1, group: ranks }
  if (group === 1) return { kv: ranks, group: 1 }
  return ranks >= 4 ? { kv: ranks / 2, group: 2 } : { kv: 1, group: ranks }
}

function hidden({ mesh }: MeshToShrink, small: PlanMesh, own: SplitClass, after: SplitClass): string[] {
  const axes = ['tensor', 'context', 'expert', 'expertTensor'] as const
  const ranks = ({ tensor, ...others }: PlanMesh, axis: (typeof axes)[number]): number =>
    axis === 'tensor' ? tensorSize(tensor) : others[axis]
  const changed = axes.filter((axis) => ranks(small, axis) !== ranks(mesh, axis))
  const list = (names: readonly (typeof axes)[number][]): string =>
    names.map((name) => `${name} ${writeTensor(mesh[name])} became ${writeTensor(small[name])}`).join(', ')
  const fewer = changed.filter((axis) => ranks(small, axis) > 1)
  const gone = changed.filter((axis) => ranks(small, axis) === 1)
  const sentences: string[] = []
  if (fewer.length > 0)
    sentences.push(`Of the mesh, ${list(fewer)}: a mistake that needs more ranks of an axis does not show.`)
  if (gone.length > 0)
    sentences.push(
      `Of the mesh, ${list(gone)}, for more do not fit the ranks: what ranks along it exchange is not exercised.`,
    )
  if (gone.length === 0 && own.heads !== after.heads)
    sentences.push('How ranks share key-value heads is not as in the plan.')
  if (gone.length === 0 && own.axes !== after.axes)
    sentences.push('Experts are cut over other axes of the mesh than in the plan.')
  return sentences
}
