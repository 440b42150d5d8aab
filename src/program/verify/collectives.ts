import { operandBytes, operandRows, overlap } from '../accesses.ts'
import { coordinatesOf, groupSize } from '../mesh.ts'
import { formatOperand } from '../text/operands.ts'
import type { BufferSpec, CollectiveOperation, CollectivePart, Operand, ProgramMesh, Role } from '../types.ts'
import { type Finding, type InstructionPlace, mergeAlike, rankList, type VerifyContext } from './finding.ts'
import { heldRegion } from './packs.ts'

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
export function checkCollectives({ program, ranks }: VerifyContext): Finding[] {
  const meetings = new Map<string, Meeting>()
  const findings: Finding[] = []
  for (const { rank, view, groups } of ranks)
    for (const [index, instruction] of view.each('collective')) {
      const { collective: id, group, operation, reduce, parts, root, shift } = instruction
      const expected = groups[group] ?? []
      const key = `${id} ${group} ${expected[0]}`
      const meeting = meetings.get(key) ?? { id, group, expected, members: [] }
      meetings.set(key, meeting)
      const over = program.groups[group]
      // Of a large program only some members are looked at.
      const members =
        over === undefined ? 1 : groupSize(program.mesh, coordinatesOf(program.mesh, rank), over)
      for (const part of parts) {
        const problem = sizeProblem(operation, members, view.role, part)
        if (problem !== undefined)
          findings.push({
            code: 'COLLECTIVE_SIZE',
            message: `collective #${id} ${problem}`,
            fix: 'give both ends the dtype and the sizes that the operation makes of each other',
            ranks: [rank],
            places: [{ role: view.index, instruction: index, rank }],
          })
      }
      const dtypes = parts.map(({ source }) => bufferOf(view.role, source)?.dtype ?? '?')
      const details = [
        root === undefined ? '' : ` root ${root}`,
        shift === undefined ? '' : ` shift ${shift}`,
      ]
      meeting.members.push({
        rank,
        place: { role: view.index, instruction: index, rank },
        bytes: parts.reduce((sum, { source }) => sum + operandBytes(view.role, source), 0),
        what: `${operation}${reduce === undefined ? '' : ` ${reduce}`}${details.join('')} of ${dtypes.join(', ')}`,
        value: parts.map(({ source }) => sharedName(program.mesh, view.role, source)).join(' and '),
      })
    }
  return mergeAlike([...findings, ...[...meetings.values()].flatMap(checkMeeting)])
}

/** What is wrong with the ends of a part of a collective of `members` ranks. */
function sizeProblem(
  operation: CollectiveOperation,
  members: number,
  role: Role,
  { source, result }: CollectivePart,
): string | undefined {
  const [from, to] = [operandBytes(role, source), operandBytes(role, result)]
  const [given, taken] = [bufferOf(role, source)?.dtype, bufferOf(role, result)?.dtype]
  if (given !== taken) return `turns ${given} into ${taken}`
  const divides = ['reduceScatter', 'scatter', 'allToAll'].includes(operation)
  const rows = operandRows(role, source)
  if (divides && (rows.end - rows.start) % members !== 0)
    return `deals ${rows.end - rows.start} rows out to ${members} ranks`
  const joins = operation === 'allGather' || operation === 'gather'
  const wanted = joins
    ? from * members
    : operation === 'reduceScatter' || operation === 'scatter'
      ? from / members
      : from
  return to === wanted ? undefined : `makes ${wanted} bytes for the ${to} of ${formatOperand(role, result)}`
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
function sharedName({ submeshes }: ProgramMesh, role: Role, operand: Operand): string {
  const buffer = bufferOf(role, operand)
  if (buffer?.pack === undefined) return formatOperand(role, operand)
  const rows = operandRows(role, operand)
  const submesh = submeshes[role.pipeline] ?? []
  return buffer.pack
    .filter((entry) => overlap(heldRegion(buffer, entry, submesh), rows))
    .map((entry) => {
      const at = heldRegion(buffer, entry, submesh).start - rows.start
      return at === 0 ? entry.name : `${entry.name} at ${at}`
    })
    .join(', ')
}

function bufferOf(role: Role, operand: Operand): BufferSpec | undefined {
  return role.buffers[role.values[operand.value]?.buffer ?? -1]
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
