import { columnKinds } from '../columnAccesses.ts'
import { IntList } from '../intList.ts'
import type { InstructionPlace, VerifyContext } from './finding.ts'

/** Pairs of nodes, or of instructions of a role: from[i] and to[i]. */
export interface Pairs {
  readonly from: Int32Array
  readonly to: Int32Array
}

export class PairList implements Pairs {
  private readonly first = new IntList()
  private readonly second = new IntList()

  get from(): Int32Array {
    return this.first.view()
  }

  get to(): Int32Array {
    return this.second.view()
  }

  add(from: number, to: number): void {
    this.first.push(from)
    this.second.push(to)
  }
}

/** Parts of instructions that meet their counterparts on other ranks, in the order of ranks and instructions. */
export interface Meetings {
  /** Node of the instruction: `offset of its rank + instruction`. */
  readonly node: readonly number[]
  readonly kind: readonly (typeof meetingKinds)[keyof typeof meetingKinds][]
  /** Equal for those that meet, numbered from 0. */
  readonly key: readonly number[]
  /** Sender, receiver and stream, numbered from 0 in the order of their first use: the channel a message waits in. -1 for collectives. */
  readonly channel: readonly number[]
  readonly keys: number
  readonly channels: number
}

export const meetingKinds = { send: 0, recv: 1, collective: 2 } as const

/** Every rank's instructions numbered through, and who meets whom. */
export interface RankGraph {
  readonly nodes: number
  readonly place: (node: number) => InstructionPlace
  readonly meetings: Meetings
  /** Applies edges between instructions of a role to each of its ranks. */
  readonly expand: (edges: (role: number) => Pairs) => Pairs
}

export function rankGraph({ ranks, roles }: Pick<VerifyContext, 'ranks' | 'roles'>): RankGraph {
  const offsets: number[] = []
  const meetings = new MeetingList()
  let nodes = 0
  for (const { rank, view, peers, groups } of ranks) {
    const offset = nodes
    offsets.push(offset)
    const { code } = view
    nodes += code.length
    for (let index = 0; index < code.length; index++) {
      const kind = code.kind[index]
      const start = code.start[index]!
      if (kind === columnKinds.collective) {
        const group = code.operands[start + 2]!
        meetings.collective(offset + index, `${code.target[index]} ${group} ${groups[group]?.[0]}`)
      }
      if (kind !== columnKinds.exchange) continue
      for (let part = start; part < code.start[index + 1]!; part += 5) {
        const other = peers[code.operands[part + 4]!] ?? -1
        const transfer = code.operands[part + 1]!
        meetings.part(offset + index, code.operands[part] === 1, rank, other, transfer, code.stream[index]!)
      }
    }
  }
  return {
    nodes,
    meetings,
    place: (node) => {
      let low = 0
      let high = offsets.length - 1
      while (low < high) {
        const middle = (low + high + 1) >> 1
        if (offsets[middle]! <= node) low = middle
        else high = middle - 1
      }
      const { rank, view } = ranks[low]!
      return { role: view.index, rank, instruction: node - offsets[low]! }
    },
    expand: (edges) => {
      const byRole = roles.map((view) => edges(view.index))
      const pairs = new PairList()
      for (const [index, { view }] of ranks.entries()) {
        const offset = offsets[index]!
        const { from, to } = byRole[view.index]!
        for (let edge = 0; edge < from.length; edge++) pairs.add(offset + from[edge]!, offset + to[edge]!)
      }
      return pairs
    },
  }
}

/** By receiver: key of each transfer, channel of each stream. */
type ReceiverPairs = Map<
  number,
  { readonly transfers: Map<number, number>; readonly streams: Map<number, number> }
>

class MeetingList implements Meetings {
  readonly node: number[] = []
  readonly kind: (typeof meetingKinds)[keyof typeof meetingKinds][] = []
  readonly key: number[] = []
  readonly channel: number[] = []
  keys = 0
  channels = 0
  private readonly collectives = new Map<string, number>()
  /** By sender, then by receiver. */
  private readonly pairs = new Map<number, ReceiverPairs>()

  collective(node: number, name: string): void {
    const key = this.collectives.get(name) ?? this.keys++
    this.collectives.set(name, key)
    this.push(node, meetingKinds.collective, key, -1)
  }

  part(node: number, receives: boolean, rank: number, other: number, transfer: number, stream: number): void {
    const [from, to] = receives ? [other, rank] : [rank, other]
    const receivers: ReceiverPairs = this.pairs.get(from) ?? new Map()
    this.pairs.set(from, receivers)
    let pair = receivers.get(to)
    if (pair === undefined) {
      pair = { transfers: new Map(), streams: new Map() }
      receivers.set(to, pair)
    }
    let key = pair.transfers.get(transfer)
    if (key === undefined) {
      key = this.keys++
      pair.transfers.set(transfer, key)
    }
    let channel = pair.streams.get(stream)
    if (channel === undefined) {
      channel = this.channels++
      pair.streams.set(stream, channel)
    }
    this.push(node, receives ? meetingKinds.recv : meetingKinds.send, key, channel)
  }

  private push(
    node: number,
    kind: (typeof meetingKinds)[keyof typeof meetingKinds],
    key: number,
    channel: number,
  ): void {
    this.node.push(node)
    this.kind.push(kind)
    this.key.push(key)
    this.channel.push(channel)
  }
}
