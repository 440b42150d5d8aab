import { operandBytes, operandRows, valueRows } from '../accesses.ts'
import { coordinatesOf, replicaIndex } from '../mesh.ts'
import { formatValue } from '../text/operands.ts'
import type { Region, Role, TransferPart } from '../types.ts'
import { type Finding, type InstructionPlace, mergeAlike, type VerifyContext } from './finding.ts'

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

/** Everything that one rank sends to another, or should. */
interface Pair {
  readonly from: number
  readonly to: number
  readonly sends: TransferEnd[]
  readonly recvs: TransferEnd[]
}

/** Both ends of every transfer are there once, on one stream, of one size and type. */
export function checkTransfers(context: VerifyContext): Finding[] {
  const { pairs, lost } = collect(context)
  const findings: Finding[] = lost.map((end) => ({
    code: 'PEER_MISSING',
    message: `rank ${end.place.rank} would ${end.direction} transfer #${end.transfer}, but no rank is there`,
    fix: 'correct the peer',
    ranks: [end.place.rank],
    places: [end.place],
  }))
  for (const pair of pairs) findings.push(...checkPair(context, pair))
  return mergeAlike(findings)
}

/** What a channel (sender, receiver, stream) carries arrives in the order in which it is sent. */
export function checkChannelOrder(context: VerifyContext): Finding[] {
  return mergeAlike(
    collect(context).pairs.flatMap(({ from, to, sends, recvs }) =>
      [...new Set(sends.map(({ stream }) => stream))].flatMap((stream): Finding[] => {
        const sent = sends.filter((end) => end.stream === stream)
        const received = recvs.filter((end) => end.stream === stream)
        const index = sent.findIndex((end, place) => end.transfer !== received[place]?.transfer)
        const [send, recv] = [sent[index], received[index]]
        if (send === undefined || recv === undefined) return []
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

function collect({ program, ranks }: VerifyContext): {
  pairs: readonly Pair[]
  lost: readonly TransferEnd[]
} {
  const pairs = new Map<string, Pair>()
  const lost: TransferEnd[] = []
  for (const { rank, view, peers } of ranks) {
    const { pipeline, axes } = coordinatesOf(program.mesh, rank)
    const replica = replicaIndex(program.mesh, pipeline, axes)
    view.instructions.forEach((instruction, index) => {
      if (instruction.kind !== 'exchange') return
      for (const part of instruction.parts) {
        const end: TransferEnd = {
          place: { role: view.index, instruction: index, rank },
          transfer: part.transfer,
          direction: part.direction,
          stream: instruction.stream,
          bytes: operandBytes(view.role, part),
          dtype: view.role.buffers[view.role.values[part.value]?.buffer ?? -1]?.dtype ?? '?',
          value: sharedValue(view.role, part),
          rows: sharedRows(view.role, part, replica.index),
          allRows: replica.count * valueRows(view.role, part.value),
        }
        const other = peers[part.peer]
        if (other === undefined) {
          lost.push(end)
          continue
        }
        const [from, to] = part.direction === 'send' ? [rank, other] : [other, rank]
        const key = `${from} ${to}`
        const pair = pairs.get(key) ?? { from, to, sends: [], recvs: [] }
        pairs.set(key, pair)
        pair[part.direction === 'send' ? 'sends' : 'recvs'].push(end)
      }
    })
  }
  return { pairs: [...pairs.values()], lost }
}

/** Values of a micro-batch are the same on every rank that holds them: so are their names. */
function sharedValue(role: Role, { value }: TransferPart): string | undefined {
  return role.values[value]?.microbatch === undefined ? undefined : formatValue(role, value)
}

/** Replicas hold equal shares of a micro-batch's rows, in order. */
function sharedRows(role: Role, part: TransferPart, replica: number): Region {
  const { start, end } = operandRows(role, part)
  const first = replica * valueRows(role, part.value)
  return { start: first + start, end: first + end }
}

function checkPair(context: VerifyContext, { from, to, sends, recvs }: Pair): Finding[] {
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
  const firstById = (ends: readonly TransferEnd[], done: string): Map<number, TransferEnd> => {
    const byId = new Map<number, TransferEnd>()
    for (const end of ends) {
      const first = byId.get(end.transfer)
      if (first === undefined) byId.set(end.transfer, end)
      else complain('TRANSFER_REPEATED', [first, end], `is ${done} twice`, 'keep one of them')
    }
    return byId
  }
  const sent = firstById(sends, 'sent')
  const received = firstById(recvs, 'received')
  for (const [transfer, send] of sent) {
    const recv = received.get(transfer)
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
      complain('TRANSFER_UNMATCHED', [recv], 'is received but never sent', 'add its send, or remove it')
  return findings
}

function streamName({ program }: VerifyContext, stream: number): string {
  return program.streams[stream]?.name ?? String(stream)
}
