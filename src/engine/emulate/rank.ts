import { assertNever, internalError, MeshwrightError } from '../../base/index.ts'
import { bytesPerElement } from '../../graph/index.ts'
import {
  type Coordinates,
  collectivePayloadBytes,
  coordinatesOf,
  formatInstruction,
  formatOperand,
  groupRanks,
  type Instruction,
  type Program,
  peerRank,
  type Role,
  readInstructions,
  type TransferPart,
  valueAccesses,
} from '../../program/index.ts'
import { RankCounts } from '../counters.ts'
import type { RankCounters } from '../types.ts'
import { EmulationError, overlaps, type Range, RankMemory } from './memory.ts'
import type { Meeting, MemberPart, Network } from './network.ts'
import type { Ports } from './ports.ts'
import { runTask } from './tasks.ts'

/** A send or receive that was posted and is not complete. */
interface Pending {
  readonly instruction: number
  readonly part: TransferPart
  readonly peer: number
  readonly stream: number
  readonly range: Range
}

/**
 * One rank of an emulated program. It goes through its list in order; sends and receives are posted where the list
 * has them and complete when they can, and only an instruction that touches their elements waits for them.
 */
export class EmulatedRank {
  readonly rank: number
  readonly role: Role
  readonly memory: RankMemory
  private readonly program: Program
  private readonly own: Coordinates
  private readonly instructions: readonly Instruction[]
  private counts = new RankCounts()
  private seconds = { compute: 0, transfer: 0 }
  private at = 0
  private pending: Pending[] = []
  private meeting: Meeting | undefined
  private trace: number[] = []
  private readonly began = new Map<number, number>()
  private started = 0

  constructor(program: Program, role: Role, rank: number) {
    this.program = program
    this.role = role
    this.rank = rank
    this.own = coordinatesOf(program.mesh, rank)
    this.instructions = readInstructions(role.code)
    this.memory = new RankMemory(program, role, rank)
  }

  /** `started`: when the step began, in milliseconds. */
  beginStep(started: number): void {
    this.counts = new RankCounts()
    this.seconds = { compute: 0, transfer: 0 }
    this.at = 0
    this.pending = []
    this.meeting = undefined
    this.trace = []
    this.began.clear()
    this.started = started
    this.memory.beginStep()
  }

  get finished(): boolean {
    return this.at === this.instructions.length && this.pending.length === 0
  }

  /** Goes on as far as it can; returns whether that was anywhere. */
  advance(network: Network, ports: Ports): boolean {
    let moved = false
    for (;;) {
      if (this.progress(network)) moved = true
      const instruction = this.instructions[this.at]
      if (instruction === undefined) return moved
      const index = this.at
      if (instruction.kind !== 'exchange' && this.blockers(instruction).length > 0) return moved
      if (!this.began.has(index)) this.began.set(index, this.now())
      // A collective whose members are not all there is tried again; the last of them to come moves on.
      if (!this.guarded(index, () => this.execute(instruction, network, ports))) return moved
      if (instruction.kind !== 'exchange') this.record(index)
      this.at++
      moved = true
    }
  }

  /** What this rank waits for, for a person to read. */
  waitsFor(): string {
    const instruction = this.instructions[this.at]
    const where = instruction === undefined ? 'at the end of its list' : `at ${this.line(this.at)}`
    if (this.meeting !== undefined) {
      const here = this.meeting.arrivals.map((arrival) => arrival.rank)
      const missing = this.meeting.members.filter((member) => !here.includes(member))
      return `${where}: waits for rank${missing.length === 1 ? '' : 's'} ${missing.join(', ')}`
    }
    const blockers = instruction === undefined ? this.pending : this.blockers(instruction)
    const stream = (index: number): string => this.program.streams[index]?.name ?? '?'
    const parts = blockers.map((one) => {
      const { direction, transfer } = one.part
      return direction === 'recv'
        ? `to receive transfer #${transfer} from rank ${one.peer} on stream ${stream(one.stream)}`
        : `to send transfer #${transfer} to rank ${one.peer} on stream ${stream(one.stream)}`
    })
    return `${where}: waits ${parts.join(' and ')}`
  }

  counters(): RankCounters {
    const total = this.now()
    const { compute, transfer } = this.seconds
    return this.counts.counters(this.rank, {
      compute,
      transfer,
      wait: Math.max(0, total - compute - transfer),
      total,
    })
  }

  /** [instruction, start, end] triples. */
  times(): Float64Array {
    return Float64Array.from(this.trace)
  }

  /** Adds who and where to what went wrong. */
  guarded<T>(index: number, act: () => T): T {
    try {
      return act()
    } catch (error) {
      if (!(error instanceof EmulationError)) throw error
      const where = index < this.instructions.length ? this.line(index) : 'the end of the step'
      throw new MeshwrightError(error.code, `rank ${this.rank}, ${where}: ${error.message}`, {
        exitCode: error.exitCode,
        ...(error.cause === undefined ? {} : { cause: error.cause }),
      })
    }
  }

  get length(): number {
    return this.instructions.length
  }

  /** Returns false where the instruction has to wait and be tried again. */
  private execute(instruction: Instruction, network: Network, ports: Ports): boolean {
    switch (instruction.kind) {
      case 'run':
        this.timed('compute', () => runTask(this.program, this.role, this.rank, instruction, this.memory))
        return true
      case 'exchange':
        this.post(instruction)
        return true
      case 'collective':
        return this.meet(instruction, network)
      case 'move':
        this.timed('transfer', () => ports.move(this.rank, this.role, this.memory, instruction))
        return true
      case 'free':
        for (const value of instruction.values) this.memory.free(value)
        return true
      default:
        return assertNever(instruction)
    }
  }

  /** Sends before receives: a receive into what the same exchange sends has to leave the old content to the send. */
  private post(instruction: Extract<Instruction, { kind: 'exchange' }>): void {
    for (const direction of ['send', 'recv'] as const)
      for (const part of instruction.parts) {
        if (part.direction !== direction) continue
        const peer = this.role.peers[part.peer]
        if (peer === undefined) throw internalError(`no peer ${part.peer}`)
        const rank = peerRank(this.program.mesh, this.own, peer)
        if (rank === undefined)
          throw new EmulationError(
            'EMULATE_PEER',
            `transfer #${part.transfer} is with a rank that does not exist`,
          )
        const range = this.memory.range(part)
        if (direction === 'send') this.memory.requireWritten(part, range, 'sends')
        else this.memory.claim(part, range)
        this.pending.push({ instruction: this.at, part, peer: rank, stream: instruction.stream, range })
      }
    if (instruction.parts.length === 0) this.record(this.at)
  }

  /** Completes what can be completed, in the order of posting on each channel. */
  private progress(network: Network): boolean {
    let moved = false
    for (let index = 0; index < this.pending.length; ) {
      const one = this.pending[index]!
      const earlier = this.pending.slice(0, index)
      const waits = earlier.some(
        (other) =>
          (other.part.direction === one.part.direction &&
            other.peer === one.peer &&
            other.stream === one.stream) ||
          ((other.part.direction === 'recv' || one.part.direction === 'recv') &&
            overlaps(other.range, one.range)),
      )
      if (waits || !this.guarded(one.instruction, () => this.complete(one, network))) {
        index++
        continue
      }
      this.pending.splice(index, 1)
      if (!this.pending.some((other) => other.instruction === one.instruction)) this.record(one.instruction)
      moved = true
      index = 0
    }
    return moved
  }

  private complete(one: Pending, network: Network): boolean {
    const { part, peer, stream, range } = one
    const elements = this.memory.elements(range)
    if (part.direction === 'send') {
      const channel = network.channel(this.rank, peer, stream)
      if (channel.length >= network.slots) return false
      this.timed('transfer', () => channel.push({ transfer: part.transfer, data: elements.slice() }))
      const { dtype } = this.role.buffers[range.buffer]!
      this.counts.send(elements.length * bytesPerElement[dtype])
      return true
    }
    const channel = network.channel(peer, this.rank, stream)
    const [message] = channel
    if (message === undefined) return false
    if (message.transfer !== part.transfer)
      throw new EmulationError(
        'EMULATE_TRANSFER_MISMATCH',
        `expects transfer #${part.transfer} from rank ${peer}, which sends #${message.transfer} first`,
      )
    const { length } = message.data
    if (length !== elements.length || message.data.constructor !== elements.constructor)
      throw new EmulationError(
        'EMULATE_TRANSFER_SIZE',
        `expects ${elements.length} elements in ${formatOperand(this.role, part)}, rank ${peer} sends ${length}`,
      )
    this.timed('transfer', () => elements.set(message.data))
    channel.shift()
    return true
  }

  private meet(instruction: Extract<Instruction, { kind: 'collective' }>, network: Network): boolean {
    if (this.meeting === undefined) {
      const group = this.program.groups[instruction.group]
      if (group === undefined) throw internalError(`no group ${instruction.group}`)
      const members = groupRanks(this.program.mesh, this.own, group)
      const payloadBytes = collectivePayloadBytes(this.role, instruction)
      this.counts.collectives.add(instruction.operation, payloadBytes, members.length)
      this.meeting = this.timed('transfer', () =>
        network.join(this.rank, members, instruction, this.memberParts(instruction)),
      )
    }
    if (!this.meeting.done) return false
    this.meeting = undefined
    return true
  }

  /** All sources are read before any result is written. */
  private memberParts({ reduce, parts }: Extract<Instruction, { kind: 'collective' }>): MemberPart[] {
    const { memory } = this
    const ranges = parts.map(({ source, result }) => {
      const range = memory.range(source)
      memory.requireWritten(source, range, reduce === undefined ? 'sends' : 'reduces')
      return { source: range, result: memory.range(result) }
    })
    return parts.map((part, index) => {
      const { source, result } = ranges[index]!
      const isInWay = (other: Range, own: boolean): boolean =>
        overlaps(other, result) && !(own && other.start === result.start && other.end === result.end)
      if (
        ranges.some((other, at) => isInWay(other.source, at === index) || isInWay(other.result, at === index))
      )
        throw new EmulationError(
          'EMULATE_COLLECTIVE_OVERLAP',
          `writes ${formatOperand(this.role, part.result)} over another operand of the collective`,
        )
      if (part.result.mode === 'add') memory.requireWritten(part.result, result, 'adds to')
      const data = memory.elements(source).slice()
      memory.claim(part.result, result)
      return { source: data, result: memory.elements(result), mode: part.result.mode }
    })
  }

  /** Pending transfers of elements that the instruction touches. */
  private blockers(instruction: Instruction): Pending[] {
    if (this.pending.length === 0) return []
    const touched = valueAccesses(instruction).map((access) => ({
      writes: access.kind !== 'read',
      range: this.guarded(this.at, () => this.memory.range(access)),
    }))
    return this.pending.filter(({ part, range }) =>
      touched.some((one) => (one.writes || part.direction === 'recv') && overlaps(one.range, range)),
    )
  }

  private timed<T>(kind: 'compute' | 'transfer', act: () => T): T {
    const began = performance.now()
    const result = act()
    this.seconds[kind] += (performance.now() - began) / 1000
    return result
  }

  private record(index: number): void {
    this.trace.push(index, this.began.get(index)!, this.now())
  }

  private now(): number {
    return (performance.now() - this.started) / 1000
  }

  private line(index: number): string {
    return `instruction ${index} (${formatInstruction(this.program, this.role, index)})`
  }
}
