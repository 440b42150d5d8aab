import {
  firstGap,
  operandElements,
  operandRows,
  overlap,
  type ValueAccess,
  valueAccesses,
  valueRows,
} from '../accesses.ts'
import { maySharePool } from '../slots.ts'
import { formatInstruction } from '../text/instruction.ts'
import { formatOperands, formatValue } from '../text/operands.ts'
import type { BufferSpec, Instruction, Operand, Region, Role, ValueInstance } from '../types.ts'
import { actionOf, type Finding, type RoleView, type VerifyContext } from './finding.ts'
import { type LifetimeCode, lifetimeRules } from './lifetimeRules.ts'

/**
 * Buffers that share slots may do so; walks every role's list: each read is written before, nothing is used after it is freed or overwritten, no slot is
 * written while it holds another value, nothing is written twice before it is read, nothing is left over.
 */
export function checkLifetimes(context: VerifyContext): Finding[] {
  return context.roles.flatMap((view) => [...checkPools(view), ...new LifetimeWalk(context, view).walk()])
}

/** Buffers that take turns in the same slots are alike, and none of them has to outlive the step. */
function checkPools({ role, ranks }: RoleView): Finding[] {
  return role.buffers.flatMap((buffer, index): Finding[] => {
    const first = role.buffers.findIndex(({ pool }) => pool === buffer.pool)
    if (first === index || maySharePool(role.buffers[first]!, buffer)) return []
    const names = `${role.buffers[first]!.name} and ${buffer.name}`
    return [
      {
        code: 'SLOT_SHARED',
        message: `${names} of ${role.name} share their slots, and are not alike or not only of the step`,
        fix: 'give each its own slots',
        ranks,
        places: [],
      },
    ]
  })
}

class LifetimeWalk {
  private readonly findings: Finding[] = []
  private readonly context: VerifyContext
  private readonly view: RoleView
  private readonly role: Role
  /** Rows written so far, and of these those that were read since, by value. */
  private readonly written = new Map<number, { rows: Region[]; unread: Region[]; last: number }>()
  private readonly freed = new Set<number>()
  /** Value that lives in a slot, by `pool:slot`. */
  private readonly occupants = new Map<string, number>()
  /** What is wrong with the instruction at hand: what it concerns, by code and what is said of it. */
  private wrong = new Map<LifetimeCode, Map<string, Operand[]>>()

  constructor(context: VerifyContext, view: RoleView) {
    this.context = context
    this.view = view
    this.role = view.role
  }

  walk(): Finding[] {
    this.view.instructions.forEach((instruction, index) => {
      if (instruction.kind === 'free') for (const value of instruction.values) this.free(value)
      else this.access(instruction, index)
      this.report(index)
    })
    const left = [...this.written]
      .filter(([value]) => !this.freed.has(value) && this.buffer(value)?.state !== true)
      .sort(([, a], [, b]) => a.last - b.last)
    left.forEach(([value, { last }], position) => {
      this.complain('VALUE_LEFT', { value })
      if (left[position + 1]?.[1].last !== last) this.report(last)
    })
    return this.findings
  }

  private access(instruction: Instruction, index: number): void {
    // What an instruction reads is there before what it writes.
    const accesses = valueAccesses(instruction)
    const inside = accesses.filter((access) => this.isInside(access))
    for (const access of inside) if (access.kind !== 'write') this.read(access)
    for (const access of inside) if (access.kind !== 'read') this.write(access)
    const writes = inside.filter(({ kind }) => kind !== 'read')
    writes.forEach((write, position) => {
      if (writes.slice(0, position).some((other) => this.collide(write, other)))
        this.complain('WRITE_OVERLAP', { value: write.value })
    })
    for (const { value } of accesses) {
      const entry = this.written.get(value)
      if (entry !== undefined) entry.last = index
    }
  }

  /** Whether the operand names rows and a slot that its buffer has. */
  private isInside(access: ValueAccess): boolean {
    const { role } = this
    const instance = role.values[access.value]
    const buffer = this.buffer(access.value)
    if (instance === undefined || buffer === undefined) return false
    const rows = operandRows(role, access)
    const size = valueRows(role, access.value)
    const slots = role.pools[buffer.pool]?.slots ?? 0
    if (instance.slot < 0 || instance.slot >= slots)
      this.complain('SLOT_OUTSIDE', access, ` in slot ${instance.slot} of ${slots}`)
    // A buffer without elements has no rows to name.
    const empty = rows.start >= rows.end && access.region !== undefined
    if (rows.start >= 0 && rows.end <= size && !empty) return true
    this.complain('REGION_OUTSIDE', access, ` of ${size} row${size === 1 ? '' : 's'}`)
    return false
  }

  private read(access: ValueAccess): void {
    const { role } = this
    const { value } = access
    const rows = operandRows(role, access)
    if (this.freed.has(value)) {
      this.complain('READ_AFTER_FREE', access)
      return
    }
    const entry = this.written.get(value)
    if (entry !== undefined) entry.unread = entry.unread.filter((unread) => !overlap(unread, rows))
    if (this.isGiven(value)) {
      if (this.isOverwritten(value, rows)) this.complain('READ_AFTER_UPDATE', access)
      return
    }
    const gap = firstGap(entry?.rows ?? [], rows)
    if (gap === undefined) return
    const part = entry === undefined ? '' : ` (row ${gap})`
    this.complain('READ_BEFORE_WRITE', access, part)
  }

  private write(access: ValueAccess): void {
    const { role } = this
    const { value } = access
    const rows = operandRows(role, access)
    if (this.isGiven(value)) {
      this.complain('WRITE_GIVEN', access)
      return
    }
    if (this.freed.has(value)) this.complain('WRITE_AFTER_FREE', access)
    const key = this.slotKey(role.values[value]!)
    const occupant = this.occupants.get(key)
    if (occupant !== undefined && occupant !== value && this.buffer(value)?.state !== true)
      this.complain('SLOT_IN_USE', access, ` over ${formatValue(role, occupant)}`)
    this.occupants.set(key, value)
    const entry = this.written.get(value)
    if (entry === undefined) {
      this.written.set(value, { rows: [rows], unread: [rows], last: 0 })
      return
    }
    if (access.kind === 'write' && entry.unread.some((unread) => overlap(unread, rows)))
      this.complain('WRITE_UNREAD', access)
    entry.unread.push(rows)
    if (firstGap(entry.rows, rows) !== undefined) entry.rows.push(rows)
  }

  private free(value: number): void {
    const { role } = this
    const instance = role.values[value]
    if (instance === undefined) return
    if (this.isGiven(value) || this.buffer(value)?.state === true)
      this.complain('FREE_UNKNOWN', { value }, ', which lives on')
    else if (this.freed.has(value)) this.complain('FREE_UNKNOWN', { value }, ' a second time')
    else if (!this.written.has(value)) this.complain('FREE_UNKNOWN', { value }, ', which was never written')
    this.freed.add(value)
    const key = this.slotKey(instance)
    if (this.occupants.get(key) === value) this.occupants.delete(key)
  }

  /** There before the step begins. */
  private isGiven(value: number): boolean {
    const buffer = this.buffer(value)
    const step = this.role.values[value]?.step
    return buffer?.constant !== undefined || (buffer?.state === true && step !== undefined && step <= 0)
  }

  /** Whether a later version of the state is in the same place already. */
  private isOverwritten(value: number, rows: Region): boolean {
    const occupant = this.occupants.get(this.slotKey(this.role.values[value]!))
    return occupant !== undefined && this.written.get(occupant)!.rows.some((region) => overlap(region, rows))
  }

  private collide(a: ValueAccess, b: ValueAccess): boolean {
    const { role } = this
    if (this.slotKey(role.values[a.value]!) !== this.slotKey(role.values[b.value]!)) return false
    return overlap(operandElements(role, a), operandElements(role, b))
  }

  private slotKey({ buffer, slot }: ValueInstance): string {
    return `${this.role.buffers[buffer]?.pool}:${slot}`
  }

  private buffer(value: number): BufferSpec | undefined {
    return this.role.buffers[this.role.values[value]?.buffer ?? -1]
  }

  /** `note` is said behind the name of the operand. */
  private complain(code: LifetimeCode, operand: Operand, note = ''): void {
    const byNote = this.wrong.get(code) ?? new Map<string, Operand[]>()
    this.wrong.set(code, byNote)
    const operands = byNote.get(note)
    if (operands === undefined) byNote.set(note, [operand])
    else operands.push(operand)
  }

  /** One finding for each kind of thing that is wrong with the instruction. */
  private report(index: number): void {
    if (this.wrong.size === 0) return
    const { context, view } = this
    const line = `"${formatInstruction(context.program, view.role, index)}" of ${view.role.name}`
    for (const [code, byNote] of this.wrong) {
      const names = [...byNote].map(
        ([note, operands]) => formatOperands(view.role, operands).join(' ') + note,
      )
      const shown = names.slice(0, 4).join(', ') + (names.length > 4 ? ', …' : '')
      this.findings.push({
        code,
        message: `${line} ${lifetimeRules[code].what(shown)}`,
        fix: lifetimeRules[code].fix,
        ...actionOf(view, index),
        ranks: view.ranks,
        places: [{ role: view.index, instruction: index }],
      })
    }
    this.wrong = new Map()
  }
}
