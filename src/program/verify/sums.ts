import { isInPlace, operandRows, overlap, type ValueAccess } from '../accesses.ts'
import { columnAccess, columnKinds, visitColumnAccesses } from '../columnAccesses.ts'
import { isReplicaAxis } from '../mesh.ts'
import { formatInstruction } from '../text/instruction.ts'
import { formatValue } from '../text/operands.ts'
import type { CollectivePart, Instruction, MeshAxis, Operand, Program, Region, Role } from '../types.ts'
import { actionOf, type Finding, type RoleView, type VerifyContext } from './finding.ts'
import { heldRegion } from './packs.ts'
import { isAllAdded, isSameSpan, type Reduced, remainder, type Span, wideAxes } from './sumGroups.ts'

type Collective = Extract<Instruction, { kind: 'collective' }>

/** Rows of a value that are terms of a sum over a group, until they are added. */
interface Term extends Region {
  readonly group: string
  /** That group's axes along which there are several ranks. */
  readonly span: Span
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
  const { mesh } = program
  const submesh = mesh.submeshes[role.pipeline] ?? []
  const added = new Map<number, Reduced[]>()
  const read = new Map<number, Region[]>()
  /** Rows of a value that got a term, and by which instruction last. */
  const given = new Map<number, { readonly rows: Region[]; last: number }>()
  const termsByBuffer = role.buffers.map((_, buffer) => termsOf(program, role, buffer))
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
  /** Whether a collective that reduces nothing leaves terms as terms: along axes that the sum does not go, said so. */
  const passesOn = (
    term: Term,
    part: CollectivePart,
    over: Span | undefined,
    before: readonly Reduced[],
  ): boolean => {
    if (over === undefined || over.axes.some((axis) => term.span.axes.includes(axis))) return false
    if (before.some(({ axes }) => axes.length > 0)) return false
    if (isInPlace(part)) return true
    const said = termsAt(role, part.result, term.what, termsByBuffer)
    return said.every((span) => isSameSpan(mesh, span, term.span))
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
  let instruction: Collective | undefined
  const check = (access: SumAccess): void => {
    const { value, part, moved } = access
    const rows = operandRows(role, access)
    if (wasRead[value] === 1) {
      wasRead[value] = 0
      noteRead(value, operandRows(role, { value }))
    }
    const done = added.get(value) ?? []
    if (
      part !== undefined &&
      instruction !== undefined &&
      isHeld(program, role, instruction, part) &&
      isPartlyWhole(role, submesh, value, rows)
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
      const before = done.filter((region) => overlap(region, shared))
      const over = instruction === undefined ? undefined : program.groups[instruction.group]
      if (part !== undefined && instruction !== undefined) {
        const isTwice = before.some(
          ({ inPlace, axes }) => !inPlace || axes.some((axis) => over?.axes.includes(axis)),
        )
        const added = new Set(isTwice ? [] : before.flatMap(({ axes }) => axes))
        const left = { ...term.span, axes: term.span.axes.filter((axis) => !added.has(axis)) }
        const rest = over === undefined ? undefined : remainder(mesh, left, over)
        const said = isInPlace(part) ? undefined : termsAt(role, part.result, term.what, termsByBuffer)
        if (
          instruction.reduce !== 'sum' ||
          rest === undefined ||
          said?.some((span) => !isSameSpan(mesh, span, rest)) === true
        )
          report(
            'SUM_GROUP',
            index,
            `takes the ${instruction.reduce} of ${name()} over ${over?.name ?? '?'}, though its terms lie on ${term.group}`,
            `add it over ${term.group}`,
          )
        if (isTwice) report('SUM_TWICE', index, `adds ${name()} a second time`, 'add it once')
      } else if (moved !== undefined && passesOn(term, moved, over, before)) {
        added.set(value, [...done, { ...rows, axes: [], inPlace: isInPlace(moved) }])
      } else if (access.kind === 'read' || moved !== undefined) {
        if (!isUnsynced(role, value) && !isAllAdded(done, term.span.axes, shared, true))
          report(
            'SUM_MISSING',
            index,
            `reads ${name()} before its terms are added over ${term.group}`,
            `add it over ${term.group} first`,
          )
      } else if (before.length > 0)
        report(
          'SUM_LATE',
          index,
          `adds a term to ${name()} after the sum was made`,
          'move it before the all-reduce',
        )
    }
    if (part !== undefined)
      added.set(value, [
        ...done,
        { ...rows, axes: program.groups[instruction!.group]?.axes ?? [], inPlace: isInPlace(part) },
      ])
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
      instruction = view.instruction(index) as Collective
      for (const access of sumAccesses(instruction)) check(access)
    } else visitColumnAccesses(code, index, visit)
  }
  for (const [value, { rows, last }] of given) {
    const done = added.get(value) ?? []
    const lost = terms(value).find(
      (term) => rows.some((one) => overlap(one, term)) && !isAllAdded(done, term.span.axes, term, false),
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
  /** Where it is what a collective that reduces nothing takes elsewhere. */
  readonly moved?: CollectivePart
}

/** What a collective takes of others is one access of its own; otherwise as for any instruction. */
function sumAccesses({ reduce, parts }: Collective): readonly SumAccess[] {
  return parts.flatMap((part): SumAccess[] => {
    const isIn = isInPlace(part)
    const source: SumAccess =
      reduce === undefined
        ? { ...part.source, kind: isIn ? 'update' : 'read', moved: part }
        : { ...part.source, kind: 'update', part }
    if (isIn) return [source]
    const { mode, ...result } = part.result
    return [source, { ...result, kind: mode === 'add' ? 'update' : 'write' }]
  })
}

/** What the rows of a result are said to be terms over, as far as they are of `what`; undefined: they are whole. */
function termsAt(
  role: Role,
  result: Operand,
  what: string,
  termsByBuffer: readonly (readonly Term[])[],
): (Span | undefined)[] {
  const rows = operandRows(role, result)
  const found = (termsByBuffer[role.values[result.value]?.buffer ?? -1] ?? []).filter(
    (term) => overlap(term, rows) && (term.what === what || term.what === 'all' || what === 'all'),
  )
  return found.length === 0 ? [undefined] : found.map(({ span }) => span)
}

/**
 * Whether what ranks reduce must be said to be terms. A mean makes one of replicas that differ. Along axes that replicas do
 * not lie along, what goes to a gradient at once need not, nor the largest of anything; a program that says itself what its
 * step is says what it likes.
 */
function isHeld(
  { groups, work }: Program,
  role: Role,
  instruction: Collective,
  part: CollectivePart,
): boolean {
  const { reduce, group } = instruction
  if (reduce === 'mean') return false
  if (groups[group]?.axes.every((axis) => axis === 'pipeline' || isReplicaAxis(axis)) === true) return true
  if (work.method === 'declared' || reduce !== 'sum') return false
  const result = role.buffers[role.values[part.result.value]?.buffer ?? -1]
  return isInPlace(part) || result?.pack === undefined
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
function isPartlyWhole(role: Role, submesh: readonly MeshAxis[], value: number, rows: Region): boolean {
  const buffer = role.buffers[role.values[value]?.buffer ?? -1]
  if (buffer === undefined || buffer.sumOver !== undefined) return false
  const { pack } = buffer
  if (pack === undefined) return true
  return pack.some(
    (entry) => entry.sumOver === undefined && overlap(heldRegion(buffer, entry, submesh), rows),
  )
}

function termsOf({ mesh, groups }: Program, role: Role, index: number): Term[] {
  const buffer = role.buffers[index]
  if (buffer === undefined) return []
  const submesh = mesh.submeshes[role.pipeline] ?? []
  const term = (region: Region, name: string, what: string): Term => {
    const group = groups.find((candidate) => candidate.name === name)
    const span = group === undefined ? { axes: ['?'] } : { ...group, axes: wideAxes(mesh, group) }
    return { ...region, group: name, span, what }
  }
  const rows = { start: 0, end: buffer.shape[0] ?? 1 }
  const whole = buffer.sumOver === undefined ? [] : [term(rows, buffer.sumOver, 'all')]
  const entries = (buffer.pack ?? []).flatMap((entry): Term[] => {
    const { name, sumOver } = entry
    return sumOver === undefined ? [] : [term(heldRegion(buffer, entry, submesh), sumOver, name)]
  })
  return [...whole, ...entries]
}
