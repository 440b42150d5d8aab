import { coordinatesOf, groupRanks, peerRank } from '../mesh.ts'
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

/** Every rank's instructions numbered through, and who meets whom. */
export interface RankGraph {
  readonly nodes: number
  readonly place: (node: number) => InstructionPlace
  readonly meetings: readonly Meeting[]
  /** Applies edges between instructions of a role to each of its ranks. */
  readonly expand: (edges: (role: number) => readonly (readonly [number, number])[]) => [number, number][]
}

export function rankGraph({ program, roles }: VerifyContext): RankGraph {
  const offsets: { role: number; rank: number; offset: number }[] = []
  let nodes = 0
  for (const view of roles)
    for (const rank of view.ranks) {
      offsets.push({ role: view.index, rank, offset: nodes })
      nodes += view.instructions.length
    }
  const meetings: Meeting[] = []
  for (const { role, rank, offset } of offsets) {
    const view = roles[role]!
    const own = coordinatesOf(program.mesh, rank)
    const leaders = program.groups.map((group) => groupRanks(program.mesh, own, group)[0])
    const peers = view.role.peers.map((peer) => peerRank(program.mesh, own, peer))
    view.instructions.forEach((instruction, index) => {
      const node = offset + index
      if (instruction.kind === 'collective')
        meetings.push({
          node,
          kind: 'collective',
          key: `collective ${instruction.collective} ${leaders[instruction.group]}`,
          channel: '',
        })
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
        if (offsets[middle]!.offset <= node) low = middle
        else high = middle - 1
      }
      const { role, rank, offset } = offsets[low]!
      return { role, rank, instruction: node - offset }
    },
    expand: (edges) => {
      const byRole = roles.map((view) => edges(view.index))
      return offsets.flatMap(({ role, offset }) =>
        byRole[role]!.map(([from, to]): [number, number] => [offset + from, offset + to]),
      )
    },
  }
}
