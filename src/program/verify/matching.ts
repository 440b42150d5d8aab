import { operandBytes } from '../accesses.ts'
import { coordinatesOf, groupRanks, peerRank } from '../mesh.ts'
import type { Instruction, Program, Role } from '../types.ts'
import type { Finding, InstructionPlace, VerifyContext } from './finding.ts'

interface End {
  readonly place: InstructionPlace
  readonly bytes: number
  readonly stream: number
}

/** One end of a transfer, as a rank sees it. */
interface RankEnd extends End {
  readonly transfer: number
  readonly from: number
  readonly to: number
  readonly direction: 'send' | 'recv'
}

/** The two ends of every transfer and all members of every collective agree, and every channel is first in, first out. */
export function checkMatching(context: VerifyContext): Finding[] {
  const { program } = context
  const findings: Finding[] = []
  const channels = new Map<string, { sends: RankEnd[]; recvs: RankEnd[] }>()
  const collectives = new Map<
    string,
    { members: Set<number>; ends: (End & { rank: number; what: string })[] }
  >()
  for (const view of context.roles)
    for (const rank of view.ranks) {
      const own = coordinatesOf(program.mesh, rank)
      const groups = program.groups.map((group) => groupRanks(program.mesh, own, group))
      view.instructions.forEach((instruction, index) => {
        const place = { role: view.index, instruction: index, rank }
        if (instruction.kind === 'collective') {
          const members = groups[instruction.group] ?? []
          const key = `${instruction.collective} ${members[0]}`
          const entry = collectives.get(key) ?? { members: new Set(members), ends: [] }
          collectives.set(key, entry)
          entry.ends.push({
            place,
            rank,
            stream: instruction.stream,
            bytes: operandBytes(view.role, instruction.operand),
            what: `${instruction.operation} ${instruction.reduce}`,
          })
        }
        if (instruction.kind !== 'exchange') return
        for (const end of rankEnds(program, view.role, instruction, place, rank)) {
          if (end.from < 0 || end.to < 0) {
            findings.push({
              code: 'PEER_MISSING',
              message: `rank ${rank} would ${end.direction} transfer #${end.transfer}, but no rank is there`,
              fix: 'correct the peer',
              ranks: [rank],
              places: [place],
            })
            continue
          }
          const key = `${end.from} ${end.to} ${end.stream}`
          const channel = channels.get(key) ?? { sends: [], recvs: [] }
          channels.set(key, channel)
          if (end.direction === 'send') channel.sends.push(end)
          else channel.recvs.push(end)
        }
      })
    }
  for (const { sends, recvs } of channels.values()) findings.push(...checkChannel(sends, recvs))
  for (const [key, { members, ends }] of collectives)
    findings.push(...checkCollective(key.split(' ')[0]!, members, ends))
  return findings
}

function rankEnds(
  program: Program,
  role: Role,
  instruction: Extract<Instruction, { kind: 'exchange' }>,
  place: InstructionPlace,
  rank: number,
): RankEnd[] {
  const own = coordinatesOf(program.mesh, rank)
  return instruction.parts.map((part) => {
    const peer = role.peers[part.peer]
    const other = (peer === undefined ? undefined : peerRank(program.mesh, own, peer)) ?? -1
    return {
      place,
      stream: instruction.stream,
      bytes: operandBytes(role, part),
      transfer: part.transfer,
      direction: part.direction,
      from: part.direction === 'send' ? rank : other,
      to: part.direction === 'send' ? other : rank,
    }
  })
}

function checkChannel(sends: readonly RankEnd[], recvs: readonly RankEnd[]): Finding[] {
  const findings: Finding[] = []
  const any = (sends[0] ?? recvs[0])!
  const where = `from rank ${any.from} to rank ${any.to}`
  const received = new Map(recvs.map((end) => [end.transfer, end]))
  const sent = new Map(sends.map((end) => [end.transfer, end]))
  for (const end of sends)
    if (!received.has(end.transfer))
      findings.push(unmatched(end, `transfer #${end.transfer} ${where} is sent but never received`))
  for (const end of recvs) {
    const other = sent.get(end.transfer)
    if (other === undefined)
      findings.push(unmatched(end, `transfer #${end.transfer} ${where} is received but never sent`))
    else if (other.bytes !== end.bytes)
      findings.push({
        code: 'TRANSFER_SIZE',
        message: `transfer #${end.transfer} ${where} sends ${other.bytes} bytes and receives ${end.bytes}`,
        fix: 'make both ends name the same region',
        ranks: [end.from, end.to],
        places: [other.place, end.place],
      })
  }
  for (const list of [sends, recvs]) {
    const seen = new Set<number>()
    for (const end of list) {
      if (seen.has(end.transfer))
        findings.push({
          code: 'TRANSFER_REPEATED',
          message: `transfer #${end.transfer} ${where} is ${end.direction === 'send' ? 'sent' : 'received'} twice`,
          fix: 'keep one of them',
          ranks: [end.from, end.to],
          places: [end.place],
        })
      seen.add(end.transfer)
    }
  }
  if (findings.length > 0) return findings
  const broken = sends.findIndex((end, index) => end.transfer !== recvs[index]?.transfer)
  if (broken < 0) return []
  const send = sends[broken]!
  const recv = recvs[broken]!
  return [
    {
      code: 'CHANNEL_ORDER',
      message: `${where}, message ${broken} is #${send.transfer} where it is sent and #${recv.transfer} where it is received`,
      fix: 'issue the sends and the receives of a channel in the same order',
      ranks: [send.from, send.to],
      places: [send.place, recv.place],
    },
  ]
}

function unmatched(end: RankEnd, message: string): Finding {
  return {
    code: 'TRANSFER_UNMATCHED',
    message,
    fix: `add its ${end.direction === 'send' ? 'receive' : 'send'}, or remove it`,
    ranks: [end.from, end.to],
    places: [end.place],
  }
}

function checkCollective(
  id: string,
  members: ReadonlySet<number>,
  ends: readonly (End & { rank: number; what: string })[],
): Finding[] {
  const first = ends[0]!
  const here = new Set(ends.map((end) => end.rank))
  const places = ends.map((end) => end.place)
  const absent = [...members].filter((rank) => !here.has(rank))
  const findings: Finding[] = []
  if (absent.length > 0)
    findings.push({
      code: 'COLLECTIVE_MEMBER',
      message: `rank${absent.length === 1 ? '' : 's'} ${absent.join(', ')} never join${absent.length === 1 ? 's' : ''} collective #${id}, where ${[...here].join(', ')} wait`,
      fix: 'let every member of the group issue it',
      ranks: [...members],
      places,
    })
  if (ends.length > here.size)
    findings.push({
      code: 'COLLECTIVE_REPEATED',
      message: `collective #${id} is issued twice by one rank`,
      fix: 'keep one of them',
      ranks: [...here],
      places,
    })
  if (ends.some((end) => end.bytes !== first.bytes || end.what !== first.what))
    findings.push({
      code: 'COLLECTIVE_MISMATCH',
      message: `members of collective #${id} disagree: ${ends.map((end) => `rank ${end.rank} ${end.what} of ${end.bytes} bytes`).join(', ')}`,
      fix: 'give all members the same operation and size',
      ranks: [...here],
      places,
    })
  return findings
}
