import { greatestCommonDivisor } from '../../base/index.ts'
import {
  type Coordinates,
  coordinatesOf,
  groupRanks,
  peerRank,
  rankAt,
  rankCount,
  roleRanks,
} from '../mesh.ts'
import type { Group, Peer, Program, ProgramMesh } from '../types.ts'
import type { RoleView } from './finding.ts'

/** One rank, and whom its role's peers and the program's groups are from where it stands. */
export interface RankView {
  readonly rank: number
  readonly view: RoleView
  /** Rank of each of the role's peers; undefined where there is none. */
  readonly peers: readonly (number | undefined)[]
  /** Members of each group of the program that the role uses, as far as they are looked at, ascending. */
  readonly groups: readonly (readonly number[])[]
}

/** Programs of up to this many ranks are looked at rank by rank, so that findings name all ranks concerned. */
const ranksInFull = 64

/**
 * The ranks whose communication is looked at. In a large program most are copies of each other: where shifting an axis
 * maps peers, groups and roles onto themselves, the first of the copies speaks for all (see `dividedMesh`), so that the
 * work does not grow with the number of replicas.
 */
export function rankViews(
  program: Program,
  roles: readonly RoleView[],
  inFull: number = ranksInFull,
): RankView[] {
  const { mesh } = program
  const part = rankCount(mesh) > inFull ? dividedMesh(program) : mesh
  const wholeRank = (rank: number): number =>
    part === mesh ? rank : rankAt(mesh, coordinatesOf(part, rank))!
  const members = memberFinder(part, wholeRank)
  return roles.flatMap((view) => {
    const used = new Set<number>()
    for (const [, { group }] of view.each('collective')) used.add(group)
    return roleRanks(part, view.role).map((rank): RankView => {
      const own = coordinatesOf(part, rank)
      return {
        rank: wholeRank(rank),
        view,
        peers: view.role.peers.map((peer) => peerRank(mesh, own, peer)),
        groups: program.groups.map((group, index) => (used.has(index) ? members(group, own) : [])),
      }
    })
  })
}

/** Members of groups, found once for all ranks of a group. `name` numbers ranks of the mesh otherwise, if given. */
export function memberFinder(
  mesh: ProgramMesh,
  name: (rank: number) => number = (rank) => rank,
): (group: Group, own: Coordinates) => readonly number[] {
  const known = new Map<string, readonly number[]>()
  return (group, own) => {
    const fixed = Object.entries(own.axes).filter(([axis]) => !group.axes.includes(axis))
    const key = `${group.name} ${group.axes.includes('pipeline') ? '' : own.pipeline} ${fixed.join(' ')}`
    const found = known.get(key) ?? groupRanks(mesh, own, group).map(name)
    known.set(key, found)
    return found
  }
}

/**
 * The mesh with every axis divided by as much as keeps the program's communication what it is.
 *
 * Let axis `a` have n(p) coordinates at pipeline coordinate p, g the greatest common divisor of all n(p), and
 * k(p) = n(p) / g. Cut the coordinates at each p into g copies of k(p). If every peer maps a shift by k(p) to a shift by
 * k(p of the peer) and copy 0 to copy 0, then transfers stay inside their copy and all copies do the same; if groups
 * either span the axis or agree on its coordinate with equal k, collectives of copy 0 have the members they have in the
 * whole, one for each of them. So everything matches in the whole if and only if it does in copy 0. A circle of waits in
 * the whole projects to one in copy 0 (coordinate modulo k), and one in copy 0 is there in the whole as it stands.
 */
export function dividedMesh(program: Program): ProgramMesh {
  const { submeshes } = program.mesh
  let mesh = program.mesh
  for (const axis of new Set(submeshes.flatMap((axes) => axes.map(({ name }) => name)))) {
    const sizes = submeshes.map((axes) => axes.find(({ name }) => name === axis)?.size)
    const copies = sizes.reduce<number>((divisor, size) => greatestCommonDivisor(size ?? 1, divisor), 0)
    const parts = sizes.map((size) => (size ?? 1) / copies)
    if (copies === 1 || !isPeriodic(program, axis, parts)) continue
    mesh = {
      submeshes: mesh.submeshes.map((axes, pipeline) =>
        axes.map((item) => (item.name === axis ? { name: axis, size: parts[pipeline]! } : item)),
      ),
    }
  }
  return mesh
}

function isPeriodic({ roles, groups }: Program, axis: string, parts: readonly number[]): boolean {
  const rolesRepeat = roles.every(({ pipeline, where, peers }) => {
    const part = parts[pipeline]!
    const modulus = where?.axis === axis ? where.modulus : 1
    const remainder = where?.axis === axis ? where.remainder : 0
    if (part % modulus !== 0) return false
    return peers.every((peer) => {
      const there = parts[pipeline + peer.pipeline]
      return there === undefined || staysInCopy(peer, axis, part, there, modulus, remainder)
    })
  })
  const groupsRepeat = groups.every((group) => {
    if (group.axes.includes(axis) || !group.axes.includes('pipeline')) return true
    const inside = group.pipelines?.map((pipeline) => parts[pipeline]) ?? parts
    return inside.every((part) => part === inside[0])
  })
  return rolesRepeat && groupsRepeat
}

function staysInCopy(
  peer: Peer,
  axis: string,
  part: number,
  there: number,
  modulus: number,
  remainder: number,
): boolean {
  const entry = peer.axes.findLast(({ name }) => name === axis)
  if (entry === undefined) return part === there
  const { scale, offset, divisor } = entry
  if (scale * part !== divisor * there) return false
  for (let own = remainder; own < part; own += modulus) {
    const other = Math.floor((scale * own + offset) / divisor)
    if (other < 0 || other >= there) return false
  }
  return true
}
