import { byteSize } from '../../graph/index.ts'
import { operandBytes, operandRows, valueRows } from '../accesses.ts'
import { coordinatesOf, replicaIndex } from '../mesh.ts'
import { formatValue } from '../text/operands.ts'
import type { Operand, Region, Role } from '../types.ts'
import {
  type Finding,
  type InstructionPlace,
  mergeAlike,
  type RoleView,
  type VerifyContext,
} from './finding.ts'

/** One end of a transfer, as a rank sees it. */
interface TransferEnd {
  readonly place: InstructionPlace & { readonly rank: number }
  readonly transfer: number
  readonly direction: 'send' | 'recv'
  readonly stream: number
  readonly bytes: number
  readonly dtype: string
  /** What a micro-batch's value is called, and which of its rows these are, counted over all replicas. */
  readonly value: string | undefined
  readonly rows: Region
  /** Of all replicas. */
  readonly allRows: number
}

/** Everything that one rank sends to another, or should: numbers of ends. */
interface Pair {
  readonly from: number
  readonly to: number
  readonly sends: number[]
  readonly recvs: number[]
}

/** Both ends of every transfer are there once, on one stream, of one size and type. */
export function checkTransfers(context: VerifyContext): Finding[] {
  const ends = endsOf(context)
  const findings: Finding[] = ends.lost
    .map((number) => ends.describe(number))
    .map((end) => ({
      code: 'PEER_MISSING',
      message: `rank ${end.place.rank} would ${end.direction} transfer #${end.transfer}, but no rank is there`,
      fix: 'correct the peer',
      ranks: [end.place.rank],
      places: [end.place],
    }))
  for (const pair of ends.pairs) findings.push(...checkPair(context, ends, pair))
  return mergeAlike(findings)
}

/** What a channel (sender, receiver, stream) carries arrives in the order in which it is sent. */
export function checkChannelOrder(context: VerifyContext): Finding[] {
  const ends = endsOf(context)
  return mergeAlike(
    ends.pairs.flatMap(({ from, to, sends, recvs }) =>
      [...new Set(sends.map((end) => ends.stream(end)))].flatMap((stream): Finding[] => {
        const sent = sends.filter((end) => ends.stream(end) === stream)
        const received = recvs.filter((end) => ends.stream(end) === stream)
        const index = sent.findIndex((end, place) => {
          const other = received[place]
          return other === undefined || ends.transfer(end) !== ends.transfer(other)
        })
        if (index < 0 || index >= received.length) return []
        const [send, recv] = [ends.describe(sent[index]!), ends.describe(received[index]!)]
        return [
          {
            code: 'CHANNEL_ORDER',
            message: `message ${index} from rank ${from} to rank ${to} on stream ${streamName(context, stream)} is #${send.transfer} where it is sent and #${recv.transfer} where it is received`,
            fix: 'issue the sends and the receives of a channel in the same order',
            ranks: [from, to],
            places: [send.place, recv.place],
          },
        ]
      }),
    ),
  )
}

/** What both checks of one program ask for. */
const known = new WeakMap<VerifyContext, TransferEnds>()

function endsOf(context: VerifyContext): TransferEnds {
  const ends = known.get(context) ?? new TransferEnds(context)
  known.set(context, ends)
  return ends
}

/** All ends of transfers, numbered in the order of ranks and instructions; objects only of those that something is said of. */
class TransferEnds {
  readonly pairs: Pair[] = []
  /** Ends whose other end would be on no rank. */
  readonly lost: number[] = []
  private readonly context: VerifyContext
  private readonly replicas: readonly { readonly index: number; readonly count: number }[]
  /** By number: index into the ranks looked at, the instruction, and where its operands have the part. */
  private readonly owner: number[] = []
  private readonly instruction: number[] = []
  private readonly at: number[] = []
  /** Bytes of whole values, by view, then by buffer. */
  private readonly wholeBytes: readonly (readonly number[])[]

  constructor(context: VerifyContext) {
    this.context = context
    const { program, ranks, roles } = context
    this.replicas = ranks.map(({ rank }) => {
      const { pipeline, axes } = coordinatesOf(program.mesh, rank)
      return replicaIndex(program.mesh, pipeline, axes)
    })
    this.wholeBytes = roles.map(({ role }) => role.buffers.map(byteSize))
    const pairs = new Map<string, Pair>()
    for (const [owner, { rank, view, peers }] of ranks.entries()) {
      const { code } = view
      // By peer, as its sender and as its receiver.
      const own: Pair[] = []
      for (const index of view.of('exchange'))
        for (let at = code.start[index]!; at < code.start[index + 1]!; at += 5) {
          const end = this.owner.push(owner) - 1
          this.instruction.push(index)
          this.at.push(at)
          const receives = code.operands[at] === 1
          const peer = code.operands[at + 4]!
          const other = peers[peer]
          if (other === undefined) {
            this.lost.push(end)
            continue
          }
          const place = 2 * peer + (receives ? 1 : 0)
          let pair = own[place]
          if (pair === undefined) {
            const [from, to] = receives ? [other, rank] : [rank, other]
            pair = pairs.get(`${from} ${to}`)
            if (pair === undefined) {
              pair = { from, to, sends: [], recvs: [] }
              pairs.set(`${from} ${to}`, pair)
              this.pairs.push(pair)
            }
            own[place] = pair
          }
          if (receives) pair.recvs.push(end)
          else pair.sends.push(end)
        }
    }
  }

  transfer(end: number): number {
    return this.view(end).code.operands[this.at[end]! + 1]!
  }

  stream(end: number): number {
    return this.view(end).code.stream[this.instruction[end]!]!
  }

  /** Whether two ends of a transfer differ in nothing that `describe` tells of them. */
  agree(a: number, b: number): boolean {
    const [ours, theirs] = [this.operand(a), this.operand(b)]
    if (this.stream(a) !== this.stream(b) || ours.bytes !== theirs.bytes) return false
    const [mine, other] = [this.view(a).role, this.view(b).role]
    const [left, right] = [mine.values[ours.value], other.values[theirs.value]]
    const [from, to] = [mine.buffers[left?.buffer ?? -1], other.buffers[right?.buffer ?? -1]]
    if (left === undefined || right === undefined || from === undefined || to === undefined) return false
    if (from.dtype !== to.dtype || left.microbatch !== right.microbatch) return false
    if (left.microbatch === undefined) return true
    return (
      from.name === to.name &&
      left.step === right.step &&
      left.slice === right.slice &&
      left.window === right.window &&
      this.firstRow(a, ours) === this.firstRow(b, theirs) &&
      this.allRows(a, ours.value) === this.allRows(b, theirs.value)
    )
  }

  describe(end: number): TransferEnd {
    const { rank, view } = this.context.ranks[this.owner[end]!]!
    const { role, code } = view
    const { value, region, bytes } = this.operand(end)
    const operand = region < 0 ? { value } : { value, region }
    return {
      place: { role: view.index, instruction: this.instruction[end]!, rank },
      transfer: this.transfer(end),
      direction: code.operands[this.at[end]!] === 1 ? 'recv' : 'send',
      stream: this.stream(end),
      bytes,
      dtype: role.buffers[role.values[value]?.buffer ?? -1]?.dtype ?? '?',
      value: sharedValue(role, operand),
      rows: sharedRows(role, operand, this.replicas[this.owner[end]!]!.index),
      allRows: this.allRows(end, value),
    }
  }

  private view(end: number): RoleView {
    return this.context.ranks[this.owner[end]!]!.view
  }

  private operand(end: number): { readonly value: number; readonly region: number; readonly bytes: number } {
    const { code, role, index } = this.view(end)
    const at = this.at[end]!
    const value = code.operands[at + 2]!
    const region = code.operands[at + 3]! - 1
    const bytes =
      region < 0
        ? (this.wholeBytes[index]![role.values[value]?.buffer ?? -1] ?? 0)
        : operandBytes(role, { value, region })
    return { value, region, bytes }
  }

  private firstRow(
    end: number,
    { value, region }: { readonly value: number; readonly region: number },
  ): number {
    const { role } = this.view(end)
    const first = region < 0 ? 0 : operandRows(role, { value, region }).start
    return this.replicas[this.owner[end]!]!.index * valueRows(role, value) + first
  }

  /** Of all replicas. */
  private allRows(end: number, value: number): number {
    return this.replicas[this.owner[end]!]!.count * valueRows(this.view(end).role, value)
  }
}

/** Values of a micro-batch are the same on every rank that holds them: so are their names. */
function sharedValue(role: Role, { value }: Operand): string | undefined {
  return role.values[value]?.microbatch === undefined ? undefined : formatValue(role, value)
}

/** Replicas hold equal shares of a micro-batch's rows, in order. */
function sharedRows(role: Role, part: Operand, replica: number): Region {
  const { start, end } = operandRows(role, part)
  const first = replica * valueRows(role, part.value)
  return { start: first + start, end: first + end }
}

function checkPair(context: VerifyContext, all: TransferEnds, { from, to, sends, recvs }: Pair): Finding[] {
  const findings: Finding[] = []
  const complain = (code: string, ends: readonly TransferEnd[], message: string, fix: string): void => {
    const [first] = ends
    findings.push({
      code,
      message: `transfer #${first!.transfer} from rank ${from} to rank ${to} ${message}`,
      fix,
      ranks: [from, to],
      places: ends.map(({ place }) => place),
    })
  }
  const firstById = (ends: readonly number[], done: string): Map<number, number> => {
    const byId = new Map<number, number>()
    for (const end of ends) {
      const transfer = all.transfer(end)
      const first = byId.get(transfer)
      if (first === undefined) byId.set(transfer, end)
      else
        complain(
          'TRANSFER_REPEATED',
          [all.describe(first), all.describe(end)],
          `is ${done} twice`,
          'keep one of them',
        )
    }
    return byId
  }
  const sent = firstById(sends, 'sent')
  const received = firstById(recvs, 'received')
  for (const [transfer, sending] of sent) {
    const receiving = received.get(transfer)
    if (receiving !== undefined && all.agree(sending, receiving)) continue
    const send = all.describe(sending)
    const recv = receiving === undefined ? undefined : all.describe(receiving)
    if (recv === undefined) {
      complain('TRANSFER_UNMATCHED', [send], 'is sent but never received', 'add its receive, or remove it')
      continue
    }
    const ends = [send, recv]
    if (send.stream !== recv.stream) {
      const streams = ends.map(({ stream }) => streamName(context, stream))
      complain(
        'TRANSFER_STREAM',
        ends,
        `is sent on stream ${streams[0]} and received on ${streams[1]}`,
        'put both ends on one stream',
      )
    }
    if (send.bytes !== recv.bytes)
      complain(
        'TRANSFER_SIZE',
        ends,
        `sends ${send.bytes} bytes and receives ${recv.bytes}`,
        'make both ends name regions of one size',
      )
    if (send.dtype !== recv.dtype)
      complain(
        'TRANSFER_TYPE',
        ends,
        `sends ${send.dtype} and receives ${recv.dtype}`,
        'give both ends buffers of one dtype',
      )
    if (send.value !== recv.value)
      complain(
        'TRANSFER_VALUE',
        ends,
        `sends ${send.value ?? 'what is of no micro-batch'} and receives ${recv.value ?? 'what is of none'}`,
        'name the same value of the same micro-batch at both ends',
      )
    else if (
      send.value !== undefined &&
      (send.rows.start !== recv.rows.start || send.allRows !== recv.allRows)
    )
      complain(
        'TRANSFER_ROWS',
        ends,
        `sends ${send.value} from row ${send.rows.start} of the ${send.allRows} of all replicas on, and receives it as from ${recv.rows.start} of ${recv.allRows}`,
        'let every replica receive the rows of its own share',
      )
  }
  for (const [transfer, recv] of received)
    if (!sent.has(transfer))
      complain(
        'TRANSFER_UNMATCHED',
        [all.describe(recv)],
        'is received but never sent',
        'add its send, or remove it',
      )
  return findings
}

function streamName({ program }: VerifyContext, stream: number): string {
  return program.streams[stream]?.name ?? String(stream)
}
