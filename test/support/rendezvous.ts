import {
  coordinatesOf,
  groupRanks,
  type Instruction,
  operandElements,
  type Program,
  peerRank,
  type Role,
  readInstructions,
  rolesByRank,
  valueAccesses,
} from '../../src/program/index.ts'

interface RankState {
  readonly rank: number
  readonly role: Role
  readonly instructions: readonly Instruction[]
  readonly started: boolean[]
  readonly done: boolean[]
}

/**
 * Runs the order of a program, and nothing else, the slow way: each stream of each rank starts its next instruction
 * when the one before it in the stream, and whatever stands before it in the list and touches the same memory, is done.
 * A send is done when its receive has started and the other way round (`channelSlots` undefined), or when fewer than
 * `channelSlots` messages of its channel are under way; a collective when all its members have started it.
 *
 * Returns whether everything gets done.
 */
export function runsToTheEnd(program: Program, channelSlots?: number): boolean {
  const ranks = rolesByRank(program).map((role, rank): RankState => {
    const instructions = readInstructions(role.code)
    const flags = (): boolean[] => instructions.map(({ kind }) => kind === 'free')
    return { rank, role, instructions, started: flags(), done: flags() }
  })
  const messages = new Messages(program, ranks, channelSlots)
  for (let moved = true; moved; ) {
    moved = false
    for (const state of ranks)
      state.instructions.forEach((instruction, index) => {
        if (!state.started[index] && mayStart(state, index)) {
          state.started[index] = true
          moved = true
        }
        if (state.started[index] && !state.done[index] && messages.isDone(state, instruction, index)) {
          state.done[index] = true
          moved = true
        }
      })
    moved = messages.pass() || moved
  }
  return ranks.every(({ done }) => done.every(Boolean))
}

function mayStart({ role, instructions, done }: RankState, index: number): boolean {
  const instruction = instructions[index]!
  return instructions.slice(0, index).every((earlier, at) => {
    if (done[at] || earlier.kind === 'free' || instruction.kind === 'free') return true
    return earlier.stream !== instruction.stream && !conflict(role, earlier, instruction)
  })
}

function conflict(role: Role, a: Instruction, b: Instruction): boolean {
  return valueAccesses(a).some((left) =>
    valueAccesses(b).some((right) => {
      if (left.kind === 'read' && right.kind === 'read') return false
      const [one, other] = [role.values[left.value]!, role.values[right.value]!]
      const [pool, otherPool] = [role.buffers[one.buffer]!.pool, role.buffers[other.buffer]!.pool]
      if (pool !== otherPool || one.slot !== other.slot) return false
      const [rows, others] = [operandElements(role, left), operandElements(role, right)]
      return rows.start < others.end && others.start < rows.end
    }),
  )
}

/** One end of a transfer; it has passed when the message has left, or arrived. */
interface End {
  readonly state: RankState
  readonly index: number
  passed: boolean
}

class Messages {
  private readonly program: Program
  private readonly ranks: readonly RankState[]
  private readonly slots: number | undefined
  /** By sender, receiver and stream, in the order of each list. */
  private readonly channels = new Map<string, { sends: End[]; recvs: End[] }>()

  constructor(program: Program, ranks: readonly RankState[], slots: number | undefined) {
    this.program = program
    this.ranks = ranks
    this.slots = slots
    for (const state of ranks)
      state.instructions.forEach((instruction, index) => {
        if (instruction.kind !== 'exchange') return
        for (const part of instruction.parts) {
          const peer = state.role.peers[part.peer]!
          const other = peerRank(program.mesh, coordinatesOf(program.mesh, state.rank), peer)
          const pair = part.direction === 'send' ? [state.rank, other] : [other, state.rank]
          // Rendezvous pairs the ends by their number, channels by their order.
          const name = [...pair, slots === undefined ? `#${part.transfer}` : instruction.stream].join(' ')
          const channel = this.channels.get(name) ?? { sends: [], recvs: [] }
          this.channels.set(name, channel)
          channel[part.direction === 'send' ? 'sends' : 'recvs'].push({ state, index, passed: false })
        }
      })
  }

  /** Lets every message go as far as it can. */
  pass(): boolean {
    let moved = false
    const move = (end: End | undefined, may: boolean): void => {
      if (end === undefined || end.passed || !may || !end.state.started[end.index]) return
      end.passed = true
      moved = true
    }
    for (const { sends, recvs } of this.channels.values())
      sends.forEach((send, index) => {
        const recv = recvs[index]
        if (this.slots === undefined) {
          const meet = recv?.state.started[recv.index] === true && send.state.started[send.index] === true
          move(send, meet)
          move(recv, meet)
          return
        }
        const before = index - this.slots
        move(send, before < 0 || recvs[before]?.passed === true)
        move(recv, send.passed)
      })
    return moved
  }

  isDone(state: RankState, instruction: Instruction, index: number): boolean {
    switch (instruction.kind) {
      case 'run':
      case 'move':
      case 'free':
        return true
      case 'exchange':
        return [...this.channels.values()].every(({ sends, recvs }) =>
          [...sends, ...recvs].every((end) => end.state !== state || end.index !== index || end.passed),
        )
      case 'collective': {
        const { mesh, groups } = this.program
        const members = groupRanks(mesh, coordinatesOf(mesh, state.rank), groups[instruction.group]!)
        return members.every((rank) => {
          const other = this.ranks[rank]!
          return other.instructions.some(
            (item, at) =>
              item.kind === 'collective' &&
              item.collective === instruction.collective &&
              item.group === instruction.group &&
              other.started[at],
          )
        })
      }
    }
  }
}
