import { operandBytes, operandRows, overlap } from '../accesses.ts'
import { formatOperand } from '../text/operands.ts'
import type { Operand, Role } from '../types.ts'
import { type Finding, type InstructionPlace, mergeAlike, rankList, type VerifyContext } from './finding.ts'
import { entryRegion } from './packs.ts'

/** One member's part in a collective. */
interface Member {
  readonly rank: number
  readonly place: InstructionPlace
  readonly bytes: number
  /** Operation, reduction and dtype. */
  readonly what: string
  /** What is reduced, by names that ranks share. */
  readonly value: string
}

interface Meeting {
  readonly id: number
  readonly group: number
  readonly expected: readonly number[]
  readonly members: Member[]
}

/** Every member of a collective's group issues it, once, with the same operation, type and size. */
export function checkCollectives({ ranks }: VerifyContext): Finding[] {
  const meetings = new Map<string, Meeting>()
  for (const { rank, view, groups } of ranks)
    view.instructions.forEach((instruction, index) => {
      if (instruction.kind !== 'collective') return
      const { collective: id, group, operand } = instruction
      const expected = groups[group] ?? []
      const key = `${id} ${group} ${expected[0]}`
      const meeting = meetings.get(key) ?? { id, group, expected, members: [] }
      meetings.set(key, meeting)
      const dtype = view.role.buffers[view.role.values[operand.value]?.buffer ?? -1]?.dtype ?? '?'
      meeting.members.push({
        rank,
        place: { role: view.index, instruction: index, rank },
        bytes: operandBytes(view.role, operand),
        what: `${instruction.operation} ${instruction.reduce} of ${dtype}`,
        value: sharedName(view.role, operand),
      })
    })
  return mergeAlike([...meetings.values()].flatMap(checkMeeting))
}

function checkMeeting({ id, expected, members }: Meeting): Finding[] {
  const findings: Finding[] = []
  const complain = (code: string, concerned: readonly Member[], message: string, fix: string): void => {
    findings.push({
      code,
      message: `collective #${id} ${message}`,
      fix,
      ranks: concerned.map(({ rank }) => rank),
      places: concerned.map(({ place }) => place),
    })
  }
  const here = new Set(members.map(({ rank }) => rank))
  const absent = expected.filter((rank) => !here.has(rank))
  if (absent.length > 0) {
    findings.push({
      code: 'COLLECTIVE_MEMBER',
      message: `collective #${id} is not issued by ${rankList(absent)}, for which ${rankList([...here])} would wait`,
      fix: 'let every member of the group issue it',
      ranks: [...here, ...absent].sort((a, b) => a - b),
      places: members.map(({ place }) => place),
    })
  }
  const group = new Set(expected)
  const strangers = members.filter(({ rank }) => !group.has(rank))
  if (strangers.length > 0) {
    const who = rankList(strangers.map(({ rank }) => rank))
    complain(
      'COLLECTIVE_MEMBER',
      strangers,
      `is issued by ${who}, no member of its group`,
      'correct the group',
    )
  }
  const byRank = groupBy(members, ({ rank }) => String(rank))
  const repeated = [...byRank.values()].filter((list) => list.length > 1)
  if (repeated.length > 0)
    complain(
      'COLLECTIVE_REPEATED',
      repeated.flat(),
      `is issued twice by ${rankList(repeated.map(([first]) => first!.rank))}`,
      'keep one of them',
    )
  const describe = ({ what, bytes }: Member): string => `${what}, ${bytes} bytes`
  const kinds = groupBy(members, describe)
  if (kinds.size > 1) {
    const said = [...kinds].map(([kind, list]) => `${rankList(list.map(({ rank }) => rank))}: ${kind}`)
    complain(
      'COLLECTIVE_MISMATCH',
      members,
      `differs between its members (${said.join('; ')})`,
      'give all members the same operation and size',
    )
  }
  const values = groupBy(members, ({ value }) => value)
  if (values.size > 1) {
    const said = [...values].map(([value, list]) => `${rankList(list.map(({ rank }) => rank))}: ${value}`)
    complain(
      'COLLECTIVE_VALUE',
      members,
      `reduces different things (${said.join('; ')})`,
      'let all members name the same tensors',
    )
  }
  return findings
}

/** Of a pack, the tensors and how far in they lie; of anything else the operand's own name. */
function sharedName(role: Role, operand: Operand): string {
  const pack = role.buffers[role.values[operand.value]?.buffer ?? -1]?.pack
  if (pack === undefined) return formatOperand(role, operand)
  const rows = operandRows(role, operand)
  return pack
    .filter((entry) => overlap(entryRegion(entry), rows))
    .map(({ name, offset }) => (offset === rows.start ? name : `${name} at ${offset - rows.start}`))
    .join(', ')
}

function groupBy<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const list = groups.get(key(item))
    if (list === undefined) groups.set(key(item), [item])
    else list.push(item)
  }
  return groups
}
