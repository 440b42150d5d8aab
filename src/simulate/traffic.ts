import {
  type CollectiveOperation,
  collectiveWireBytes,
  coordinatesOf,
  groupSize,
  type Program,
  roleRanks,
} from '../program/index.ts'
import { collectiveAt } from './rolePlan.ts'
import type { Network, Traffic, TrafficKind } from './types.ts'

const kindOf: Partial<Readonly<Record<CollectiveOperation, TrafficKind>>> = {
  allReduce: 'allReduce',
  allGather: 'allGather',
  reduceScatter: 'reduceScatter',
}

/** What all ranks, copies included, put on the wire, collectives around a ring; and how often. */
export function measureTraffic(network: Network): { readonly bytes: Traffic; readonly calls: Traffic } {
  const { program } = network
  const bytes = { p2p: 0, allReduce: 0, allGather: 0, reduceScatter: 0, other: 0 }
  const calls = { p2p: 0, allReduce: 0, allGather: 0, reduceScatter: 0, other: 0 }
  for (const plan of new Set(network.ranks.map((rank) => rank.plan))) {
    const role = program.roles[plan.index]!
    const ranks = roleRanks(program.mesh, role)
    for (let part = 0; part < plan.partIsSend.length; part++) {
      if (plan.partIsSend[part] === 0) continue
      bytes.p2p += ranks.length * plan.partBytes[part]!
      calls.p2p += ranks.length
    }
    if (plan.payload.size === 0) continue
    const sizeOf = groupSizes(program, ranks)
    for (const [at, payload] of plan.payload) {
      const { operation, group } = collectiveAt(role, at)
      const kind = kindOf[operation] ?? 'other'
      for (const [members, count] of sizeOf(group))
        bytes[kind] += count * collectiveWireBytes(operation, payload, members)
      calls[kind] += ranks.length
    }
  }
  return { bytes, calls }
}

/** For a group: its sizes, and how many of the ranks are in one of each size. */
function groupSizes(program: Program, ranks: readonly number[]): (group: number) => Map<number, number> {
  const known = new Map<number, Map<number, number>>()
  return (group) => {
    let sizes = known.get(group)
    if (sizes !== undefined) return sizes
    sizes = new Map<number, number>()
    for (const rank of ranks) {
      const size = groupSize(program.mesh, coordinatesOf(program.mesh, rank), program.groups[group]!)
      sizes.set(size, (sizes.get(size) ?? 0) + 1)
    }
    known.set(group, sizes)
    return sizes
  }
}
