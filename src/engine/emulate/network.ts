import type { TensorData } from '../../graph/index.ts'
import { collectiveBlocks, type Instruction } from '../../program/index.ts'
import { collectiveResults } from './collectives.ts'
import { EmulationError } from './memory.ts'

export interface Message {
  readonly transfer: number
  readonly data: TensorData
}

/** Messages of one (sender, receiver, stream) that were sent and not received, oldest first. */
export type Channel = Message[]

type Collective = Extract<Instruction, { kind: 'collective' }>

/** One part of a collective as a member brings it. */
export interface MemberPart {
  /** As they were when the member came. */
  readonly source: TensorData
  /** The elements themselves: they are written when all are there. */
  readonly result: TensorData
  readonly mode: 'set' | 'add'
}

interface Arrival {
  readonly rank: number
  readonly instruction: Collective
  readonly parts: readonly MemberPart[]
}

/** Where the members of one collective meet. */
export interface Meeting {
  readonly members: readonly number[]
  readonly arrivals: Arrival[]
  done: boolean
}

/** What lies between the ranks of an emulated step. */
export class Network {
  readonly slots: number
  private readonly channels = new Map<string, Channel>()
  private readonly meetings = new Map<string, Meeting>()

  constructor(slots: number) {
    this.slots = Math.max(1, slots)
  }

  channel(sender: number, receiver: number, stream: number): Channel {
    const key = `${sender} ${receiver} ${stream}`
    const channel = this.channels.get(key) ?? []
    this.channels.set(key, channel)
    return channel
  }

  /** The last member to come makes the result, in rank order, and gives it to all. */
  join(
    rank: number,
    members: readonly number[],
    instruction: Collective,
    parts: readonly MemberPart[],
  ): Meeting {
    const key = `${instruction.collective} ${members.join(' ')}`
    const meeting = this.meetings.get(key) ?? { members, arrivals: [], done: false }
    this.meetings.set(key, meeting)
    const first = meeting.arrivals[0]
    if (meeting.arrivals.some((arrival) => arrival.rank === rank))
      throw new EmulationError(
        'EMULATE_COLLECTIVE_REPEATED',
        `joins collective #${instruction.collective} twice`,
      )
    requireFit(instruction, parts, members.length)
    if (first !== undefined) {
      const [ours, theirs] = [describe(instruction, parts), describe(first.instruction, first.parts)]
      if (ours !== theirs)
        throw new EmulationError(
          'EMULATE_COLLECTIVE_MISMATCH',
          `joins collective #${instruction.collective} with ${ours}, rank ${first.rank} with ${theirs}`,
        )
    }
    meeting.arrivals.push({ rank, instruction, parts })
    if (meeting.arrivals.length === members.length) {
      deliver(meeting.arrivals)
      meeting.done = true
    }
    return meeting
  }

  /** Throws where a message was sent that nobody took. */
  requireEmpty(): void {
    for (const [key, channel] of this.channels) {
      const [message] = channel
      if (message === undefined) continue
      const [sender, receiver] = key.split(' ')
      throw new EmulationError(
        'EMULATE_UNRECEIVED',
        `transfer #${message.transfer} from rank ${sender} to rank ${receiver} was never received`,
      )
    }
  }
}

function describe({ operation, reduce, root, shift }: Collective, parts: readonly MemberPart[]): string {
  const words = [
    operation,
    ...(reduce === undefined ? [] : [reduce]),
    ...(root === undefined ? [] : [`root ${root}`]),
    ...(shift === undefined ? [] : [`shift ${shift}`]),
  ]
  return `${words.join(' ')} of ${parts.map(({ source }) => source.length).join(' and ')} elements`
}

/** Sources and results are as long as the operation has them. */
function requireFit(instruction: Collective, parts: readonly MemberPart[], members: number): void {
  const { collective, operation, root } = instruction
  const fail = (message: string): never => {
    throw new EmulationError('EMULATE_COLLECTIVE_SIZE', `collective #${collective} ${message}`)
  }
  if (root !== undefined && root >= members) fail(`has its root at place ${root} of ${members} members`)
  const blocks = collectiveBlocks(operation, members)
  for (const { source, result } of parts) {
    if (source.constructor !== result.constructor) fail('puts a result into a buffer of another dtype')
    if (source.length % blocks.source !== 0)
      fail(`deals ${source.length} elements into ${blocks.source} equal blocks`)
    const wanted = (source.length / blocks.source) * blocks.result
    if (result.length !== wanted)
      fail(`makes ${wanted} elements out of ${source.length}, its result has ${result.length}`)
  }
}

function deliver(arrivals: readonly Arrival[]): void {
  const ordered = [...arrivals].sort((a, b) => a.rank - b.rank)
  const { instruction, parts } = ordered[0]!
  for (const index of parts.keys()) {
    const results = collectiveResults(
      instruction,
      ordered.map((arrival) => arrival.parts[index]!.source),
    )
    for (const [member, arrival] of ordered.entries()) {
      const { result, mode } = arrival.parts[index]!
      const made = results[member]!
      if (mode === 'set') result.set(made)
      else for (let element = 0; element < made.length; element++) result[element]! += made[element]!
    }
  }
}
