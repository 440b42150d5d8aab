import { firstGap, isInPlace, operandRows, overlap, type ValueAccess, valueAccesses } from '../accesses.ts'
import { columnAccess, columnKinds, visitColumnAccesses } from '../columnAccesses.ts'
import { isReplicaAxis } from '../mesh.ts'
import { formatInstruction } from '../text/instruction.ts'
import { formatValue } from '../text/operands.ts'
import type { CollectivePart, Group, Instruction, Operand, Program, Region, Role } from '../types.ts'
import { actionOf, type Finding, type RoleView, type VerifyContext } from './finding.ts'
import { heldRegion } from './packs.ts'

/** Rows of a value that are terms of a sum over a group, until they are added. */
interface Term extends Region {
  readonly group: string
  /** What the rows are, for a person. */
  readonly what: string
}

/**
 * What ranks hold as terms of one sum (a gradient of its own share of the batch, say) is added over exactly the group
 * it says, once, after the last term and before anybody else reads it. This is what a lost or doubled all-reduce breaks:
 * the launch runs, and trains another model.
 */
export function checkSums(context: VerifyContext): Finding[] {
  return context.roles.flatMap((view) => walk(context, view))
}

function walk({ program }: VerifyContext, view: RoleView): Finding[] {
  const { role } = view
  const findings: Finding[] = []
  const added = new Map<number, Region[]>()
  const read = new Map<number, Region[]>()
  /** Rows of a value that got a term, and by which instruction last. */
  const given = new Map<number, { readonly rows: Region[]; last: number }>()
  const termsByBuffer = role.buffers.map((_, buffer) => termsOf(role, buffer))
  const terms = (value: number): readonly Term[] => termsByBuffer[role.values[value]?.buffer ?? -1] ?? []
  const report = (code: string, index: number, message: string, fix: string): void => {
    findings.push({
      code,
      message: `"${formatInstruction(program, role, index)}" of ${role.name} ${message}`,
      fix,
      ...actionOf(view, index),
      ranks: view.ranks,
      places: [{ role: view.index, instruction: index }],
    })
  }
  const { code, values } = view
  // Of values that are no terms, which most are, a whole read is a mark until there is something to hold it against.
  const wasRead = new Uint8Array(role.values.length)
  const noteRead = (value: number, rows: Region): void => {
    const known = read.get(value)
    if (known === undefined) read.set(value, [rows])
    else known.push(rows)
  }
  let index = 0
  let instruction: Extract<Instruction, { kind: 'collective' }> | undefined
  const check = (access: SumAccess): void => {
    const { value, part } = access
    const rows = operandRows(role, access)
    if (wasRead[value] === 1) {
      wasRead[value] = 0
      noteRead(value, operandRows(role, { value }))
    }
    const done = added.get(value) ?? []
    if (
      part !== undefined &&
      instruction !== undefined &&
      isHeld(program, instruction) &&
      isPartlyWhole(role, value, rows)
    )
      report(
        'SUM_WHOLE',
        index,
        `adds copies of ${formatValue(role, value)}, of which every rank has the whole`,
        'remove it, or say over which group its terms lie',
      )
    if (isAccumulator(role, value) && part === undefined) {
      if (access.kind === 'read') noteRead(value, rows)
      else if (
        code.kind[index] !== columnKinds.move &&
        read.get(value)?.some((region) => overlap(region, rows))
      )
        report(
          'SUM_LATE',
          index,
          `adds to ${formatValue(role, value)} after it was read`,
          'read it after the last term',
        )
    }
    for (const term of terms(value)) {
      if (!overlap(term, rows)) continue
      const shared = { start: Math.max(term.start, rows.start), end: Math.min(term.end, rows.end) }
      const name = (): string => `${term.what} of ${formatValue(role, value)}`
      const isAdded = done.some((region) => overlap(region, shared))
      if (part !== undefined && instruction !== undefined) {
        const over = program.groups[instruction.group]
        const rest = remainder(program, term.group, over)
        const left = isInPlace(part) ? [undefined] : termsAt(role, part.result, term.what, termsByBuffer)
        if (
          instruction.reduce !== 'sum' ||
          rest === 'none' ||
          left.some((group) => !isSameGroup(program, group, rest))
        )
          report(
            'SUM_GROUP',
            index,
            `takes the ${instruction.reduce} of ${name()} over ${over?.name ?? '?'}, though its terms lie on ${term.group}`,
            `add it over ${term.group}`,
          )
        if (isAdded) report('SUM_TWICE', index, `adds ${name()} a second time`, 'add it once')
      } else if (access.kind === 'read') {
        if (!isUnsynced(role, value) && firstGap(done, shared) !== undefined)
          report(
            'SUM_MISSING',
            index,
            `reads ${name()} before its terms are added over ${term.group}`,
            `add it over ${term.group} first`,
          )
      } else if (isAdded)
        report(
          'SUM_LATE',
          index,
          `adds a term to ${name()} after the sum was made`,
          'move it before the all-reduce',
        )
    }
    if (part !== undefined) added.set(value, [...done, rows])
    else if (access.kind !== 'read' && terms(value).length > 0) {
      const known = given.get(value) ?? { rows: [], last: index }
      given.set(value, known)
      known.last = index
      if (!known.rows.some(({ start, end }) => start <= rows.start && rows.end <= end)) known.rows.push(rows)
    }
  }
  const visit = (value: number, region: number, access: number): void => {
    if (termsByBuffer[values.buffer[value] ?? -1]?.length === 0) {
      if (!isAccumulator(role, value)) return
      if (access === columnAccess.read && region < 0) {
        wasRead[value] = 1
        return
      }
      if (access !== columnAccess.read && wasRead[value] === 0 && !read.has(value)) return
    }
    const kind = accessKinds[access]!
    check(region < 0 ? { value, kind } : { value, region, kind })
  }
  for (; index < code.length; index++) {
    instruction = undefined
    if (code.kind[index] === columnKinds.collective) {
      instruction = view.instruction(index) as Extract<Instruction, { kind: 'collective' }>
      for (const access of sumAccesses(instruction)) check(access)
    } else visitColumnAccesses(code, index, visit)
  }
  for (const [value, { rows, last }] of given) {
    const done = added.get(value) ?? []
    const lost = terms(value).find(
      (term) => rows.some((one) => overlap(one, term)) && firstGap(done, term) !== undefined,
    )
    // Where it was read before that, this has been said.
    if (lost !== undefined && !isUnsynced(role, value) && !read.get(value)?.some((one) => overlap(one, lost)))
      report(
        'SUM_MISSING',
        last,
        `leaves ${lost.what} of ${formatValue(role, value)} as terms, which nothing adds over ${lost.group}`,
        `add it over ${lost.group}`,
      )
  }
  return findings
}

/** As the columns number them. */
const accessKinds = ['read', 'write', 'update'] as const

interface SumAccess extends ValueAccess {
  /** Where it is what a reduction adds up. */
  readonly part?: CollectivePart
}

/** What a reduction adds up is one access; otherwise as for any instruction. */
function sumAccesses(instruction: Instruction): readonly SumAccess[] {
  if (instruction.kind !== 'collective' || instruction.reduce === undefined) return valueAccesses(instruction)
  return instruction.parts.flatMap((part): SumAccess[] => {
    const source: SumAccess = { ...part.source, kind: 'update', part }
    if (isInPlace(part)) return [source]
    const { mode, ...result } = part.result
    return [source, { ...result, kind: mode === 'add' ? 'update' : 'write' }]
  })
}

/** Groups that the rows of a result are said to be terms over, as far as they are of `what`; undefined: they are whole. */
function termsAt(
  role: Role,
  result: Operand,
  what: string,
  termsByBuffer: readonly (readonly Term[])[],
): (string | undefined)[] {
  const rows = operandRows(role, result)
  const found = (termsByBuffer[role.values[result.value]?.buffer ?? -1] ?? []).filter(
    (term) => overlap(term, rows) && (term.what === what || term.what === 'all' || what === 'all'),
  )
  return found.length === 0 ? [undefined] : found.map(({ group }) => group)
}

/** What is left of a sum over `name` once it is added over `over`: undefined where nothing is, `none` where it cannot be. */
function remainder(
  { groups }: Program,
  name: string,
  over: Group | undefined,
): Pick<Group, 'axes' | 'pipelines'> | undefined | 'none' {
  const whole = groups.find((group) => group.name === name)
  if (whole === undefined || over === undefined) return 'none'
  if (whole.name === over.name) return undefined
  if (over.axes.some((axis) => !whole.axes.includes(axis))) return 'none'
  const byPipeline = over.axes.includes('pipeline')
  if (byPipeline && String(over.pipelines) !== String(whole.pipelines)) return 'none'
  const axes = whole.axes.filter((axis) => !over.axes.includes(axis))
  if (axes.length === 0) return undefined
  return { axes, ...(whole.pipelines === undefined || byPipeline ? {} : { pipelines: whole.pipelines }) }
}

function isSameGroup(
  { groups }: Program,
  name: string | undefined,
  wanted: Pick<Group, 'axes' | 'pipelines'> | undefined,
): boolean {
  if (name === undefined || wanted === undefined) return name === undefined && wanted === undefined
  const group = groups.find((candidate) => candidate.name === name)
  return (
    group !== undefined &&
    group.axes.toSorted().join() === wanted.axes.toSorted().join() &&
    String(group.pipelines) === String(wanted.pipelines)
  )
}

/**
 * Whether what ranks reduce must be said to be terms: over replicas. A mean makes one of replicas that differ, and along
 * other axes the program's own word is taken.
 */
function isHeld({ groups }: Program, instruction: Instruction): boolean {
  if (instruction.kind !== 'collective' || instruction.reduce === 'mean') return false
  return groups[instruction.group]?.axes.every((axis) => axis === 'pipeline' || isReplicaAxis(axis)) === true
}

function isUnsynced(role: Role, value: number): boolean {
  return role.buffers[role.values[value]?.buffer ?? -1]?.unsynced === true
}

/** What may be added up: all but versions of state. */
function isAccumulator(role: Role, value: number): boolean {
  const instance = role.values[value]
  return instance?.step === undefined
}

/** Whether some of the rows are no terms: every rank has the whole of them. Padding is neither. */
function isPartlyWhole(role: Role, value: number, rows: Region): boolean {
  const buffer = role.buffers[role.values[value]?.buffer ?? -1]
  if (buffer === undefined || buffer.sumOver !== undefined) return false
  const { pack } = buffer
  if (pack === undefined) return true
  return pack.some((entry) => entry.sumOver === undefined && overlap(heldRegion(buffer, entry), rows))
}

function termsOf(role: Role, index: number): Term[] {
  const buffer = role.buffers[index]
  if (buffer === undefined) return []
  const rows = buffer.shape[0] ?? 1
  const whole =
    buffer.sumOver === undefined ? [] : [{ start: 0, end: rows, group: buffer.sumOver, what: 'all' }]
  const entries = (buffer.pack ?? []).flatMap((entry): Term[] => {
    const { name, sumOver } = entry
    return sumOver === undefined ? [] : [{ ...heldRegion(buffer, entry), group: sumOver, what: name }]
  })
  return [...whole, ...entries]
}
