import { operandRows, type ValueAccess, valueAccesses, valueRows } from '../accesses.ts'
import { formatInstruction, formatOperand, formatValue } from '../text/instruction.ts'
import type { Region } from '../types.ts'
import { actionOf, type Finding, type RoleView, type VerifyContext } from './finding.ts'

/** Every read is written before, nothing is used after it is freed, no slot is written while it holds another value. */
export function checkLifetimes(context: VerifyContext): Finding[] {
  return context.roles.flatMap((view) => new LifetimeWalk(context, view).walk())
}

class LifetimeWalk {
  private readonly findings: Finding[] = []
  private readonly context: VerifyContext
  private readonly view: RoleView
  /** Rows written so far, by value. */
  private readonly written = new Map<number, Region[]>()
  private readonly freed = new Set<number>()
  /** Value that lives in a slot, by `buffer:slot`. */
  private readonly occupants = new Map<string, number>()

  constructor(context: VerifyContext, view: RoleView) {
    this.context = context
    this.view = view
  }

  walk(): Finding[] {
    const { view } = this
    view.instructions.forEach((instruction, index) => {
      if (instruction.kind === 'free') {
        for (const value of instruction.values) this.free(value, index)
        return
      }
      for (const access of valueAccesses(instruction)) {
        if (access.kind !== 'write') this.read(access, index)
        if (access.kind !== 'read') this.write(access, index)
      }
    })
    for (const value of this.occupants.values()) {
      if (this.given(value) || this.isState(value)) continue
      this.report('VALUE_LEFT', view.instructions.length - 1, {
        message: `${formatValue(view.role, value)} is never freed on ${view.role.name}`,
        fix: 'free it after its last use',
      })
    }
    return this.findings
  }

  private read(access: ValueAccess, index: number): void {
    const { role } = this.view
    const name = formatOperand(role, access)
    if (this.freed.has(access.value)) {
      this.report('READ_AFTER_FREE', index, {
        message: `${this.line(index)} reads ${name} after it was freed`,
        fix: 'free it after this instruction',
      })
      return
    }
    if (this.given(access.value)) return
    const rows = operandRows(role, access)
    if (covered(this.written.get(access.value) ?? [], rows)) return
    this.report('READ_BEFORE_WRITE', index, {
      message: `${this.line(index)} reads ${name}, which nothing before it writes${
        this.written.has(access.value) ? ' in full' : ''
      }`,
      fix: 'move what writes it before this instruction',
    })
  }

  private write(access: ValueAccess, index: number): void {
    const { role } = this.view
    const name = formatValue(role, access.value)
    const instance = role.values[access.value]
    const buffer = role.buffers[instance?.buffer ?? -1]
    const rows = operandRows(role, access)
    if (instance === undefined || buffer === undefined) return
    if (this.freed.has(access.value))
      this.report('WRITE_AFTER_FREE', index, {
        message: `${this.line(index)} writes ${name} after it was freed`,
        fix: 'free it after its last use',
      })
    if (rows.start < 0 || rows.end > valueRows(role, access.value) || rows.start >= rows.end)
      this.report('REGION_OUTSIDE', index, {
        message: `${this.line(index)} writes rows ${rows.start} to ${rows.end} of ${name}, which has ${valueRows(role, access.value)}`,
        fix: 'keep the region inside the buffer',
      })
    if (instance.slot < 0 || instance.slot >= buffer.slots)
      this.report('SLOT_OUTSIDE', index, {
        message: `${name} lives in slot ${instance.slot} of ${buffer.slots}`,
        fix: 'give the buffer more slots',
      })
    const key = `${instance.buffer}:${instance.slot}`
    const occupant = this.occupants.get(key)
    if (occupant !== undefined && occupant !== access.value && !this.isState(access.value))
      this.report('SLOT_IN_USE', index, {
        message: `${this.line(index)} writes ${name} over ${formatValue(role, occupant)}, which is still needed`,
        fix: `free it first, or give ${buffer.name} one more slot`,
      })
    this.occupants.set(key, access.value)
    const regions = this.written.get(access.value)
    if (regions === undefined) this.written.set(access.value, [rows])
    else if (!covered(regions, rows)) regions.push(rows)
  }

  private free(value: number, index: number): void {
    const { role } = this.view
    const instance = role.values[value]
    if (instance === undefined) return
    if (this.freed.has(value) || !this.written.has(value))
      this.report('FREE_UNKNOWN', index, {
        message: `${formatValue(role, value)} is freed but ${this.freed.has(value) ? 'was freed before' : 'was never written'}`,
        fix: 'free each value once, after its last use',
      })
    this.freed.add(value)
    this.occupants.delete(`${instance.buffer}:${instance.slot}`)
  }

  /** There before the step begins. */
  private given(value: number): boolean {
    const instance = this.view.role.values[value]
    const buffer = this.view.role.buffers[instance?.buffer ?? -1]
    return buffer?.constant !== undefined || (buffer?.state === true && instance?.step === 0)
  }

  private isState(value: number): boolean {
    return this.view.role.buffers[this.view.role.values[value]?.buffer ?? -1]?.state === true
  }

  private line(index: number): string {
    return `"${formatInstruction(this.context.program, this.view.role, index)}" of ${this.view.role.name}`
  }

  private report(code: string, index: number, words: { message: string; fix: string }): void {
    this.findings.push({
      code,
      ...words,
      ...actionOf(this.view, index),
      ranks: this.view.ranks,
      places: [{ role: this.view.index, instruction: index }],
    })
  }
}

/** Whether the union of `regions` holds all of `rows`. */
function covered(regions: readonly Region[], rows: Region): boolean {
  let reached = rows.start
  for (const region of [...regions].sort((a, b) => a.start - b.start))
    if (region.start <= reached) reached = Math.max(reached, region.end)
  return reached >= rows.end
}
