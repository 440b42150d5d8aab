import type { InstructionPlace, VerifyContext } from './finding.ts'

/** A part of an instruction that meets its counterpart on another rank. */
export interface Meeting {
  /** Node of the instruction: `offset of its rank + instruction`. */
  readonly node: number
  readonly kind: 'send' | 'recv' | 'collective'
  /** Equal for those that meet. */
  readonly key: string
  /** Sender, receiver and stream: the channel a message waits in. */
  readonly channel: string
}

export type NodePair = readonly [earlier: number, later: number]

/** Every rank's instructions numbered through, and who meets whom. */
export interface RankGraph {
  readonly nodes: number
  readonly place: (node: number) => InstructionPlace
  readonly meetings: readonly Meeting[]
  /** Applies edges between instructions of a role to each of its ranks. */
  readonly expand: (edges: (role: number) => readonly NodePair[]) => NodePair[]
}

export function rankGraph({ ranks, roles }: Pick<VerifyContext, 'ranks' | 'roles'>): RankGraph {
  const offsets: number[] = []
  const meetings: Meeting[] = []
  let nodes = 0
  for (const { rank, view, peers, groups } of ranks) {
    const offset = nodes
    offsets.push(offset)
    nodes += view.instructions.length
    view.instructions.forEach((instruction, index) => {
      const node = offset + index
      if (instruction.kind === 'collective') {
        const { collective, group } = instruction
        const key = `collective ${collective} ${group} ${groups[group]?.[0]}`
        meetings.push({ node, kind: 'collective', key, channel: '' })
      }
      if (instruction.kind !== 'exchange') return
      for (const part of instruction.parts) {
        const other = peers[part.peer]
        const [from, to] = part.direction === 'send' ? [rank, other] : [other, rank]
        meetings.push({
          node,
          kind: part.direction,
          key: `transfer ${part.transfer} ${from} ${to}`,
          channel: `${from} ${to} ${instruction.stream}`,
        })
      }
    })
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
      return ranks.flatMap(({ view }, index) => {
        const offset = offsets[index]!
        return byRole[view.index]!.map(([from, to]): NodePair => [offset + from, offset + to])
      })
    },
  }
}
