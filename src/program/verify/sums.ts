import { elementCount } from '../../graph/index.ts'
import { firstGap, operandRows, overlap, valueAccesses } from '../accesses.ts'
import { formatInstruction } from '../text/instruction.ts'
import { formatValue } from '../text/operands.ts'
import type { Region, Role } from '../types.ts'
import { actionOf, type Finding, type RoleView, type VerifyContext } from './finding.ts'

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
  view.instructions.forEach((instruction, index) => {
    for (const access of valueAccesses(instruction)) {
      const rows = operandRows(role, access)
      const done = added.get(access.value) ?? []
      if (instruction.kind === 'collective' && firstGap(terms(access.value), rows) !== undefined)
        report(
          'SUM_WHOLE',
          index,
          `adds copies of ${formatValue(role, access.value)}, of which every rank has the whole`,
          'remove it, or say over which group its terms lie',
        )
      if (isAccumulator(role, access.value)) {
        const known = read.get(access.value) ?? []
        if (access.kind === 'read') {
          if (known.push(rows) === 1) read.set(access.value, known)
        } else if (instruction.kind === 'run' && known.some((region) => overlap(region, rows)))
          report(
            'SUM_LATE',
            index,
            `adds to ${formatValue(role, access.value)} after it was read`,
            'read it after the last term',
          )
      }
      for (const term of terms(access.value)) {
        if (!overlap(term, rows)) continue
        const part = { start: Math.max(term.start, rows.start), end: Math.min(term.end, rows.end) }
        const name = (): string => `${term.what} of ${formatValue(role, access.value)}`
        const isAdded = done.some((region) => overlap(region, part))
        if (instruction.kind === 'collective') {
          const group = program.groups[instruction.group]?.name ?? '?'
          if (group !== term.group || instruction.reduce !== 'sum')
            report(
              'SUM_GROUP',
              index,
              `takes the ${instruction.reduce} of ${name()} over ${group}, though its terms lie on ${term.group}`,
              `add it over ${term.group}`,
            )
          if (isAdded) report('SUM_TWICE', index, `adds ${name()} a second time`, 'add it once')
        } else if (access.kind === 'read') {
          if (firstGap(done, part) !== undefined)
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
      if (instruction.kind === 'collective') added.set(access.value, [...done, rows])
    }
  })
  return findings
}

/** A value of the whole step: neither of a micro-batch, nor a version of state. */
function isAccumulator(role: Role, value: number): boolean {
  const instance = role.values[value]
  return instance?.microbatch === undefined && instance?.step === undefined
}

function termsOf(role: Role, index: number): Term[] {
  const buffer = role.buffers[index]
  if (buffer === undefined) return []
  const rows = buffer.shape[0] ?? 1
  const whole =
    buffer.sumOver === undefined ? [] : [{ start: 0, end: rows, group: buffer.sumOver, what: 'all' }]
  const entries = (buffer.pack ?? []).flatMap(({ name, shape, offset, sumOver }): Term[] => {
    if (sumOver === undefined) return []
    return [{ start: offset, end: offset + elementCount(shape), group: sumOver, what: name }]
  })
  return [...whole, ...entries]
}
