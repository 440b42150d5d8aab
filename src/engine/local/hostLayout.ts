import {
  collectivePayloadBytes,
  coordinatesOf,
  groupRanks,
  operandBytes,
  type Program,
  peerRank,
  type Role,
  readInstructions,
} from '../../program/index.ts'
import { collectiveCountLength } from '../counters.ts'
import { type PortLayout, portLayout } from './portLayout.ts'

/**
 * The host tier: one shared memory that all workers map. Everything that crosses threads lives in it: control words,
 * mailboxes of transfers, areas of collectives, ports, results. This file only says where each thing is.
 */
export interface HostLayout {
  readonly bytes: number
  readonly channels: readonly ChannelLayout[]
  readonly groups: readonly GroupLayout[]
  readonly ports: PortLayout
  /** One result block for each rank (see results.ts). */
  readonly results: readonly number[]
  /** Triples of each rank, when tracing. */
  readonly traces: readonly number[]
}

/** Mailbox of one (sender, receiver, stream): `slots` messages that were sent and not received yet. */
export interface ChannelLayout {
  readonly sender: number
  readonly receiver: number
  readonly stream: number
  readonly slots: number
  readonly slotBytes: number
  /** Head word, tail word (a cache line each), then transfer id and byte count of each slot. */
  readonly control: number
  readonly data: number
}

/** Meeting place of the members of one group. */
export interface GroupLayout {
  readonly members: readonly number[]
  readonly areaBytes: number
  /** Arrival counter, then a cache line later twice the collective id of each member. */
  readonly control: number
  /** Twice an area of each member, then two of results. */
  readonly data: number
}

/** Words (of 4 bytes) at the start of the memory. */
export const globalWords = {
  /** 0, or a reason of `abortReasons`. */
  abort: 0,
  /** 1 + the rank that failed first. */
  failedRank: 1,
  command: 2,
  generation: 3,
  finished: 4,
  step: 5,
} as const
export const stepStartByte = 64
const globalBytes = 128

/** Words of a rank's block, from its start; what others write and what it writes itself are on separate lines. */
export const rankWords = { bell: 0, sleeping: 1, activity: 16, instruction: 17, progress: 18 } as const
const rankBytes = 128
const lineBytes = 64

export const resultWords = {
  sendCalls: 0,
  sendBytes: 1,
  compute: 2,
  transfer: 3,
  wait: 4,
  total: 5,
  traced: 6,
} as const
/** Of the counts of collectives, from the start of a rank's results. */
export const collectiveCountsByte = 64
const resultBytes = collectiveCountsByte + 8 * collectiveCountLength

/** Large payloads are exchanged piece by piece, each small enough to stay in the cache that members share. */
const largestArea = 256 * 1024

export function align(bytes: number): number {
  return Math.ceil(bytes / lineBytes) * lineBytes
}

export function rankBlock(rank: number): number {
  return globalBytes + rank * rankBytes
}

export function hostLayout(program: Program, roles: readonly Role[], trace: boolean): HostLayout {
  let bytes = rankBlock(roles.length)
  const take = (size: number): number => {
    const at = bytes
    bytes = align(bytes + size)
    return at
  }
  const needs = communicationNeeds(program, roles)
  const channels = needs.channels.map(({ sender, receiver, stream, bytes: size }) => {
    const slots = Math.max(1, program.channelSlots)
    const slotBytes = align(size)
    const control = take(2 * lineBytes + slots * 8)
    return { sender, receiver, stream, slots, slotBytes, control, data: take(slots * slotBytes) }
  })
  const groups = needs.groups.map(({ members, bytes: size }) => {
    // Room for one line of each block; where it is small, for all at once.
    const least = members.length * lineBytes
    const areaBytes = Math.max(least, Math.min(largestArea, align(size) + least))
    const control = take(lineBytes + members.length * 8)
    return { members, areaBytes, control, data: take((2 * members.length + 2) * areaBytes) }
  })
  const results = roles.map(() => take(resultBytes))
  const traces = trace ? roles.map((role) => take(role.code.length * 24)) : []
  const ports = portLayout(program, roles, take)
  return { bytes, channels, groups, ports, results, traces }
}

interface CommunicationNeeds {
  readonly channels: readonly { sender: number; receiver: number; stream: number; bytes: number }[]
  readonly groups: readonly { members: readonly number[]; bytes: number }[]
}

function communicationNeeds(program: Program, roles: readonly Role[]): CommunicationNeeds {
  const channels = new Map<string, { sender: number; receiver: number; stream: number; bytes: number }>()
  const groups = new Map<string, { members: readonly number[]; bytes: number }>()
  const decoded = new Map(program.roles.map((role) => [role, readInstructions(role.code)]))
  roles.forEach((role, rank) => {
    const own = coordinatesOf(program.mesh, rank)
    for (const instruction of decoded.get(role)!) {
      if (instruction.kind === 'exchange')
        for (const part of instruction.parts) {
          const other = peerRank(program.mesh, own, role.peers[part.peer]!)
          if (other === undefined) continue
          const [sender, receiver] = part.direction === 'send' ? [rank, other] : [other, rank]
          const key = `${sender} ${receiver} ${instruction.stream}`
          const bytes = Math.max(operandBytes(role, part), channels.get(key)?.bytes ?? 0)
          channels.set(key, { sender, receiver, stream: instruction.stream, bytes })
        }
      else if (instruction.kind === 'collective') {
        const members = groupRanks(program.mesh, own, program.groups[instruction.group]!)
        const key = members.join(' ')
        const size = collectivePayloadBytes(role, instruction)
        groups.set(key, { members, bytes: Math.max(size, groups.get(key)?.bytes ?? 0) })
      }
    }
  })
  return { channels: [...channels.values()], groups: [...groups.values()] }
}
