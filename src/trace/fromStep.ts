import { internalError } from '../base/index.ts'
import {
  collectiveVerbs,
  coordinatesOf,
  formatOperand,
  formatValue,
  groupRanks,
  type Instruction,
  operandBytes,
  type Program,
  peerRank,
  type Role,
  readInstructions,
  rolesByRank,
} from '../program/index.ts'
import type { Trace, TraceEvent } from './types.ts'

/**
 * The trace of one step from what an engine measured: for each rank [instruction, start, end] triples, in seconds.
 *
 * How long an event waited for others follows from the times of both ends: a receive cannot begin before its send (the
 * "late sender" of Scalasca's patterns), a send that finds its channel full not before an earlier message is taken, a
 * collective not before its last member.
 */
export function traceFromStep(program: Program, times: readonly Float64Array[]): Trace {
  const roles = rolesByRank(program)
  if (times.length !== roles.length)
    throw internalError(`times of ${times.length} ranks for a program of ${roles.length}`)
  const decoded = new Map(program.roles.map((role) => [role, readInstructions(role.code)]))
  const events: TraceEvent[] = []
  const meetings = new Meetings(program)
  const timed = roles.map((role, rank) => readTriples(decoded.get(role)!, times[rank]!, rank))
  roles.forEach((role, rank) => {
    decoded.get(role)!.forEach((instruction, index) => {
      meetings.note(rank, role, index, instruction, timed[rank]!.get(index))
    })
  })
  roles.forEach((role, rank) => {
    const instructions = decoded.get(role)!
    for (const [index, { start, end }] of timed[rank]!) {
      const instruction = instructions[index]!
      if (instruction.kind === 'free') continue
      const ready = meetings.ready(rank, index)
      events.push(instructionEvent(program, role, instruction, { rank, index, start, end, ready }))
    }
  })
  return { ranks: roles.length, streams: program.streams, events: events.sort(byStart) }
}

/** One instruction as an event. `ready`: when all that it meets were ready for it, 0 where it meets none. */
export function instructionEvent(
  program: Program,
  role: Role,
  instruction: Exclude<Instruction, { kind: 'free' }>,
  at: {
    readonly rank: number
    readonly index: number
    readonly start: number
    readonly end: number
    readonly ready: number
  },
): TraceEvent {
  const { rank, index, start, end, ready } = at
  const wait = Math.min(end - start, Math.max(0, ready - start))
  return {
    rank,
    stream: instruction.stream,
    ...describeInstruction(program, role, instruction),
    start,
    end,
    ...(wait > 0 ? { wait } : {}),
    instruction: index,
  }
}

/** The order of a trace's events: by start, then by rank and place in its list. */
export function byStart(a: TraceEvent, b: TraceEvent): number {
  return a.start - b.start || a.rank - b.rank || a.instruction! - b.instruction!
}

interface Span {
  readonly start: number
  readonly end: number
}

function readTriples(
  instructions: readonly Instruction[],
  triples: Float64Array,
  rank: number,
): Map<number, Span> {
  const spans = new Map<number, Span>()
  for (let at = 0; at + 2 < triples.length; at += 3) {
    const [index, start, end] = [triples[at]!, triples[at + 1]!, triples[at + 2]!]
    if (instructions[index] === undefined) throw internalError(`rank ${rank} timed instruction ${index}`)
    if (!(start >= 0 && end >= start))
      throw internalError(`instruction ${index} took from ${start} to ${end} s`)
    spans.set(index, { start, end })
  }
  return spans
}

/** What an event of this instruction is called, and what it is about. */
export function describeInstruction(
  program: Program,
  role: Role,
  instruction: Exclude<Instruction, { kind: 'free' }>,
): Pick<TraceEvent, 'kind' | 'name' | 'phase' | 'stage' | 'microbatch' | 'slice' | 'bytes' | 'ids'> {
  const { kind } = instruction
  switch (kind) {
    case 'run': {
      const name = program.tasks[instruction.task]?.name ?? '?'
      const action = instruction.action === undefined ? undefined : role.actions[instruction.action]
      if (action === undefined) return { kind, name }
      const { phase, stage, microbatch, slice } = action
      return { kind, name, phase, stage, microbatch, ...(slice === undefined ? {} : { slice }) }
    }
    case 'exchange': {
      const [part, second] = instruction.parts
      const name =
        part === undefined || second !== undefined
          ? 'exchange'
          : `${part.direction} ${formatOperand(role, part)}`
      const microbatch = part === undefined ? undefined : role.values[part.value]?.microbatch
      return {
        kind,
        name,
        ...(microbatch === undefined ? {} : { microbatch }),
        bytes: instruction.parts.reduce((sum, one) => sum + operandBytes(role, one), 0),
        ids: [...new Set(instruction.parts.map((one) => one.transfer))],
      }
    }
    case 'collective': {
      const { operation, parts, collective, reduce } = instruction
      const sources = parts.map(({ source }) => formatOperand(role, source))
      return {
        kind,
        name: [collectiveVerbs[operation], ...(reduce === undefined ? [] : [reduce]), ...sources].join(' '),
        bytes: parts.reduce((sum, { source }) => sum + operandBytes(role, source), 0),
        ids: [collective],
      }
    }
    case 'move': {
      const microbatch = role.values[instruction.value]?.microbatch
      return {
        kind,
        name: `${instruction.direction} ${formatValue(role, instruction.value)}`,
        ...(microbatch === undefined ? {} : { microbatch }),
        bytes: operandBytes(role, instruction),
      }
    }
  }
}

interface Channel {
  readonly sends: { readonly rank: number; readonly index: number; readonly span: Span | undefined }[]
  readonly recvs: { readonly rank: number; readonly index: number; readonly span: Span | undefined }[]
}

/** Who meets whom in transfers and collectives, and so from when on each could go. */
class Meetings {
  private readonly program: Program
  private readonly channels = new Map<string, Channel>()
  private readonly collectives = new Map<string, { latest: number; readonly members: [number, number][] }>()
  private times: Map<string, number> | undefined

  constructor(program: Program) {
    this.program = program
  }

  note(rank: number, role: Role, index: number, instruction: Instruction, span: Span | undefined): void {
    const own = coordinatesOf(this.program.mesh, rank)
    if (instruction.kind === 'collective') {
      const group = this.program.groups[instruction.group]
      if (group === undefined) throw internalError(`no group ${instruction.group}`)
      const key = `${instruction.collective} ${groupRanks(this.program.mesh, own, group).join(' ')}`
      const entry = this.collectives.get(key) ?? { latest: 0, members: [] }
      this.collectives.set(key, entry)
      entry.latest = Math.max(entry.latest, span?.start ?? 0)
      entry.members.push([rank, index])
    } else if (instruction.kind === 'exchange')
      for (const { direction, peer } of instruction.parts) {
        const other = peerRank(this.program.mesh, own, role.peers[peer]!)
        const key =
          direction === 'send'
            ? `${rank} ${other} ${instruction.stream}`
            : `${other} ${rank} ${instruction.stream}`
        const channel = this.channels.get(key) ?? { sends: [], recvs: [] }
        this.channels.set(key, channel)
        channel[direction === 'send' ? 'sends' : 'recvs'].push({ rank, index, span })
      }
  }

  /** Seconds at which an instruction's counterparts were all ready; 0 where it has none. */
  ready(rank: number, index: number): number {
    this.times ??= this.readyTimes()
    return this.times.get(`${rank} ${index}`) ?? 0
  }

  private readyTimes(): Map<string, number> {
    const times = new Map<string, number>()
    const atLeast = (rank: number, index: number, time: number | undefined): void => {
      const key = `${rank} ${index}`
      if (time !== undefined && time > (times.get(key) ?? 0)) times.set(key, time)
    }
    for (const { latest, members } of this.collectives.values())
      for (const [rank, index] of members) atLeast(rank, index, latest)
    const slots = Math.max(1, this.program.channelSlots)
    // Channels are first in, first out: the ends of a message have the same place in both lists.
    for (const { sends, recvs } of this.channels.values()) {
      recvs.forEach(({ rank, index }, message) => {
        atLeast(rank, index, sends[message]?.span?.start)
      })
      sends.forEach(({ rank, index }, message) => {
        atLeast(rank, index, recvs[message - slots]?.span?.end)
      })
    }
    return times
  }
}
