import { internalError } from '../base/index.ts'
import type { Constant, Group, MeshAxis, Peer, Program, ProgramMesh, Role } from './types.ts'

/** Coordinates of one rank: the pipeline coordinate, and one number for each axis of its sub-mesh. */
export interface Coordinates {
  readonly pipeline: number
  readonly axes: Readonly<Record<string, number>>
}

/** Whether ranks along an axis do the same to samples of their own. Along any other they share the work on one sample. */
export function isReplicaAxis(name: string): boolean {
  return name === 'data' || name.startsWith('data.')
}

/** How many replicas the axes of a sub-mesh make. */
export function replicaCount(axes: readonly MeshAxis[]): number {
  return axes.reduce((count, { name, size }) => (isReplicaAxis(name) ? count * size : count), 1)
}

/** How many ranks lie along an axis: one where the sub-mesh does not have it. */
export function axisSize(submesh: readonly MeshAxis[], axis: string): number {
  return submesh.find(({ name }) => name === axis)?.size ?? 1
}

/** Place among the ranks along `axes`, of which the first varies slowest. */
export function placeAlong(
  axes: readonly string[],
  submesh: readonly MeshAxis[],
  own: Coordinates['axes'],
): number {
  return axes.reduce((place, axis) => place * axisSize(submesh, axis) + (own[axis] ?? 0), 0)
}

/** What a constant is on the rank at `own`. The axis `pipeline` is its pipeline coordinate. */
export function constantValue(
  constant: Constant,
  { submeshes }: ProgramMesh,
  { pipeline, axes }: Coordinates,
): number {
  if ('start' in constant)
    return placeAlong(constant.start.axes, submeshes[pipeline] ?? [], axes) * constant.start.step
  const own: Coordinates['axes'] = { pipeline, ...axes }
  return constant.isZero.every((axis) => (own[axis] ?? 0) === 0) ? 1 : 0
}

/** Ranks of the sub-mesh at `pipeline`: the first, and how many. */
export function submeshRanks(mesh: ProgramMesh, pipeline: number): { first: number; count: number } {
  let first = 0
  for (let index = 0; index < pipeline; index++) first += submeshSize(mesh, index)
  return { first, count: submeshSize(mesh, pipeline) }
}

function submeshSize(mesh: ProgramMesh, pipeline: number): number {
  const axes = mesh.submeshes[pipeline]
  if (axes === undefined) throw internalError(`no pipeline coordinate ${pipeline}`)
  return axes.reduce((product, axis) => product * axis.size, 1)
}

export function rankCount(mesh: ProgramMesh): number {
  return mesh.submeshes.reduce((sum, _, pipeline) => sum + submeshSize(mesh, pipeline), 0)
}

export function coordinatesOf(mesh: ProgramMesh, rank: number): Coordinates {
  let rest = rank
  for (let pipeline = 0; pipeline < mesh.submeshes.length; pipeline++) {
    const size = submeshSize(mesh, pipeline)
    if (rest < size) {
      const axes: Record<string, number> = {}
      for (const axis of [...mesh.submeshes[pipeline]!].reverse()) {
        axes[axis.name] = rest % axis.size
        rest = Math.floor(rest / axis.size)
      }
      return { pipeline, axes }
    }
    rest -= size
  }
  throw internalError(`no rank ${rank}`)
}

/** The rank at these coordinates, or undefined where there is none. */
export function rankAt(mesh: ProgramMesh, coordinates: Coordinates): number | undefined {
  const axes = mesh.submeshes[coordinates.pipeline]
  if (axes === undefined) return undefined
  let offset = 0
  for (const axis of axes) {
    const coordinate = coordinates.axes[axis.name] ?? 0
    if (coordinate < 0 || coordinate >= axis.size) return undefined
    offset = offset * axis.size + coordinate
  }
  return submeshRanks(mesh, coordinates.pipeline).first + offset
}

/**
 * Place of the ranks at these coordinates among the replicas of their stage, which share the samples of every
 * micro-batch: along all axes named `data` or `data.…`, of which the first varies slowest.
 */
export function replicaIndex(
  mesh: ProgramMesh,
  pipeline: number,
  axes: Coordinates['axes'],
): { readonly index: number; readonly count: number } {
  let index = 0
  let count = 1
  for (const { name, size } of mesh.submeshes[pipeline] ?? []) {
    if (!isReplicaAxis(name)) continue
    index = index * size + (axes[name] ?? 0)
    count *= size
  }
  return { index, count }
}

/** Where `peer` is for the rank at `own`; undefined where no rank is there. */
export function peerRank(mesh: ProgramMesh, own: Coordinates, peer: Peer): number | undefined {
  const axes: Record<string, number> = { ...own.axes }
  for (const axis of peer.axes)
    axes[axis.name] = Math.floor(((own.axes[axis.name] ?? 0) * axis.scale + axis.offset) / axis.divisor)
  return rankAt(mesh, { pipeline: own.pipeline + peer.pipeline, axes })
}

/** Members of the group that the rank at `own` belongs to, ascending. */
export function groupRanks(mesh: ProgramMesh, own: Coordinates, group: Group): number[] {
  const pipelines = group.axes.includes('pipeline')
    ? (group.pipelines ?? mesh.submeshes.map((_, pipeline) => pipeline))
    : [own.pipeline]
  return pipelines
    .flatMap((pipeline) => {
      let offsets = [0]
      for (const { name, size } of mesh.submeshes[pipeline] ?? []) {
        const coordinate = own.axes[name]
        const chosen = group.axes.includes(name)
          ? Array.from({ length: size }, (_, index) => index)
          : coordinate === undefined || coordinate >= size
            ? []
            : [coordinate]
        offsets = offsets.flatMap((offset) => chosen.map((index) => offset * size + index))
      }
      const { first } = submeshRanks(mesh, pipeline)
      return offsets.map((offset) => first + offset)
    })
    .sort((a, b) => a - b)
}

/** How many members the group of the rank at `own` has, without listing them. */
export function groupSize({ submeshes }: ProgramMesh, own: Coordinates, group: Group): number {
  const places = group.axes.includes('pipeline')
    ? (group.pipelines ?? submeshes.map((_, pipeline) => pipeline))
    : [own.pipeline]
  return places.reduce((sum, place) => {
    let members = 1
    for (const { name, size } of submeshes[place] ?? []) {
      const coordinate = own.axes[name]
      if (group.axes.includes(name)) members *= size
      else if (coordinate === undefined || coordinate >= size) members = 0
    }
    return sum + members
  }, 0)
}

/** Ranks that follow `role`, ascending. */
export function roleRanks(mesh: ProgramMesh, role: Role): number[] {
  const { first, count } = submeshRanks(mesh, role.pipeline)
  const ranks = Array.from({ length: count }, (_, index) => first + index)
  const where = role.where
  if (where === undefined) return ranks
  return ranks.filter(
    (rank) => (coordinatesOf(mesh, rank).axes[where.axis] ?? 0) % where.modulus === where.remainder,
  )
}

/** Role of every rank. */
export function rolesByRank(program: Program): Role[] {
  const roles: Role[] = []
  for (const role of program.roles) for (const rank of roleRanks(program.mesh, role)) roles[rank] = role
  return roles
}
