import { assertNever } from '../../base/index.ts'
import type { TensorData } from '../../graph/index.ts'
import type { Instruction } from '../../program/index.ts'
import { EmulationError } from './memory.ts'

export interface Message {
  readonly transfer: number
  readonly data: TensorData
}

/** Messages of one (sender, receiver, stream) that were sent and not received, oldest first. */
export type Channel = Message[]

type Collective = Extract<Instruction, { kind: 'collective' }>

interface Arrival {
  readonly rank: number
  readonly instruction: Collective
  /** The operand itself: it is replaced when all are there. */
  readonly data: TensorData
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
  join(rank: number, members: readonly number[], instruction: Collective, data: TensorData): Meeting {
    const key = `${instruction.collective} ${members.join(' ')}`
    const meeting = this.meetings.get(key) ?? { members, arrivals: [], done: false }
    this.meetings.set(key, meeting)
    const first = meeting.arrivals[0]
    if (meeting.arrivals.some((arrival) => arrival.rank === rank))
      throw new EmulationError(
        'EMULATE_COLLECTIVE_REPEATED',
        `joins collective #${instruction.collective} twice`,
      )
    if (first !== undefined) {
      const [ours, theirs] = [describe(instruction, data), describe(first.instruction, first.data)]
      if (ours !== theirs)
        throw new EmulationError(
          'EMULATE_COLLECTIVE_MISMATCH',
          `joins collective #${instruction.collective} with ${ours}, rank ${first.rank} with ${theirs}`,
        )
    }
    meeting.arrivals.push({ rank, instruction, data })
    if (meeting.arrivals.length === members.length) {
      reduce(meeting.arrivals)
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

function describe(instruction: Collective, data: TensorData): string {
  return `${instruction.operation} ${instruction.reduce} of ${data.length} elements`
}

function reduce(arrivals: readonly Arrival[]): void {
  const ordered = [...arrivals].sort((a, b) => a.rank - b.rank)
  const { reduce: reduction } = ordered[0]!.instruction
  const result = ordered[0]!.data.slice()
  for (const { data } of ordered.slice(1))
    for (let index = 0; index < result.length; index++) {
      const [a, b] = [result[index]!, data[index]!]
      switch (reduction) {
        case 'sum':
          result[index] = a + b
          break
        case 'max':
          result[index] = Math.max(a, b)
          break
        default:
          assertNever(reduction)
      }
    }
  for (const { data } of ordered) data.set(result)
}
