import { firstGap, operandElements, operandRows, overlap, valueRows } from '../accesses.ts'
import { columnAccess, columnKinds, visitColumnAccesses } from '../columnAccesses.ts'
import { maySharePool } from '../slots.ts'
import { formatInstruction } from '../text/instruction.ts'
import { formatOperands, formatValue } from '../text/operands.ts'
import type { BufferSpec, Operand, Region, Role } from '../types.ts'
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

/** Of a value: whether anything of it was written, all of it and not read since, it was freed, and `partial` tells of its rows. */
const flags = { written: 1, unread: 2, freed: 4, partial: 8 } as const

/** Rows written so far, and of these those that were not read since. */
interface Rows {
  readonly written: Region[]
  unread: Region[]
}

class LifetimeWalk {
  private readonly findings: Finding[] = []
  private readonly context: VerifyContext
  private readonly view: RoleView
  private readonly role: Role
  /** By value. */
  private readonly state: Uint8Array
  private readonly size: Float64Array
  /** The last instruction to use what was written. */
  private readonly last: Int32Array
  /** Values in the order in which they were first written. */
  private readonly written: number[] = []
  /** Of values that were accessed in parts. */
  private readonly partial = new Map<number, Rows>()
  /** Value that lives in a slot; -1 where none does. */
  private readonly occupants: Int32Array
  /** Accesses of the instruction at hand; a region of -1 is the whole. */
  private count = 0
  private readonly value: number[] = []
  private readonly region: number[] = []
  private readonly kind: number[] = []
  private readonly inside: number[] = []
  /** What is wrong with the instruction at hand: what it concerns, by code and what is said of it. */
  private wrong = new Map<LifetimeCode, Map<string, Operand[]>>()

  constructor(context: VerifyContext, view: RoleView) {
    this.context = context
    this.view = view
    this.role = view.role
    const count = this.role.values.length
    this.state = new Uint8Array(count)
    this.last = new Int32Array(count)
    this.size = Float64Array.from({ length: count }, (_, value) => valueRows(this.role, value))
    this.occupants = new Int32Array(view.values.slots).fill(-1)
  }

  walk(): Finding[] {
    const { code } = this.view
    for (let index = 0; index < code.length; index++) {
      if (code.kind[index] === columnKinds.free)
        for (let at = code.start[index]!; at < code.start[index + 1]!; at++) this.free(code.operands[at]!)
      else this.access(index)
      this.report(index)
    }
    const left = this.written
      .filter((value) => !this.is(value, flags.freed) && this.buffer(value)?.state !== true)
      .sort((a, b) => this.last[a]! - this.last[b]!)
    left.forEach((value, position) => {
      const last = this.last[value]!
      this.complain('VALUE_LEFT', { value })
      const next = left[position + 1]
      if (next === undefined || this.last[next] !== last) this.report(last)
    })
    return this.findings
  }

  private access(index: number): void {
    this.count = 0
    visitColumnAccesses(this.view.code, index, this.note)
    const { count, value: values, region, kind } = this
    // What an instruction reads is there before what it writes.
    for (let at = 0; at < count; at++)
      if (kind[at] !== columnAccess.write && this.inside[at] === 1) this.read(values[at]!, region[at]!)
    for (let at = 0; at < count; at++)
      if (kind[at] !== columnAccess.read && this.inside[at] === 1)
        this.write(values[at]!, region[at]!, kind[at] === columnAccess.write)
    for (let at = 0; at < count; at++) this.collide(at)
    for (let at = 0; at < count; at++) if (this.is(values[at]!, flags.written)) this.last[values[at]!] = index
  }

  private readonly note = (value: number, region: number, access: number): void => {
    const at = this.count++
    this.value[at] = value
    this.region[at] = region
    this.kind[at] = access
    this.inside[at] = this.isInside(value, region) ? 1 : 0
  }

  /** Whether the operand names rows and a slot that its buffer has. */
  private isInside(value: number, region: number): boolean {
    const { role } = this
    const instance = role.values[value]
    const buffer = this.buffer(value)
    if (instance === undefined || buffer === undefined) return false
    const slots = role.pools[buffer.pool]?.slots ?? 0
    if (instance.slot < 0 || instance.slot >= slots)
      this.complain('SLOT_OUTSIDE', operandOf(value, region), ` in slot ${instance.slot} of ${slots}`)
    if (region < 0) return true
    const rows = operandRows(role, { value, region })
    const size = this.size[value]!
    // A buffer without elements has no rows to name.
    if (rows.start >= 0 && rows.end <= size && rows.start < rows.end) return true
    this.complain('REGION_OUTSIDE', { value, region }, ` of ${size} row${size === 1 ? '' : 's'}`)
    return false
  }

  private read(value: number, region: number): void {
    if (this.is(value, flags.freed)) {
      this.complain('READ_AFTER_FREE', operandOf(value, region))
      return
    }
    const rows = this.rowsOf(value, region)
    const partial = this.partialOf(value, region)
    if (partial === undefined) this.state[value]! &= ~flags.unread
    else partial.unread = partial.unread.filter((unread) => !overlap(unread, rows))
    if (this.isGiven(value)) {
      if (this.isOverwritten(value, rows)) this.complain('READ_AFTER_UPDATE', operandOf(value, region))
      return
    }
    const isWritten = this.is(value, flags.written)
    if (isWritten && partial === undefined) return
    const gap = firstGap(partial?.written ?? [], rows)
    if (gap !== undefined)
      this.complain('READ_BEFORE_WRITE', operandOf(value, region), isWritten ? ` (row ${gap})` : '')
  }

  private write(value: number, region: number, sets: boolean): void {
    if (this.isGiven(value)) {
      this.complain('WRITE_GIVEN', operandOf(value, region))
      return
    }
    if (this.is(value, flags.freed)) this.complain('WRITE_AFTER_FREE', operandOf(value, region))
    const slot = this.view.values.slot[value]!
    const occupant = this.occupants[slot]!
    if (occupant >= 0 && occupant !== value && this.buffer(value)?.state !== true)
      this.complain('SLOT_IN_USE', operandOf(value, region), ` over ${formatValue(this.role, occupant)}`)
    this.occupants[slot] = value
    if (!this.is(value, flags.written)) {
      this.written.push(value)
      this.state[value]! |= flags.written
      if (region < 0) this.state[value]! |= flags.unread
      else {
        const rows = this.rowsOf(value, region)
        this.state[value]! |= flags.partial
        this.partial.set(value, { written: [rows], unread: [rows] })
      }
      return
    }
    const rows = this.rowsOf(value, region)
    const partial = this.partialOf(value, region)
    if (partial === undefined) {
      if (sets && this.is(value, flags.unread) && overlap(rows, rows))
        this.complain('WRITE_UNREAD', operandOf(value, region))
      this.state[value]! |= flags.unread
      return
    }
    if (sets && partial.unread.some((unread) => overlap(unread, rows)))
      this.complain('WRITE_UNREAD', operandOf(value, region))
    partial.unread.push(rows)
    if (firstGap(partial.written, rows) !== undefined) partial.written.push(rows)
  }

  private free(value: number): void {
    if (this.role.values[value] === undefined) return
    if (this.isGiven(value) || this.buffer(value)?.state === true)
      this.complain('FREE_UNKNOWN', { value }, ', which lives on')
    else if (this.is(value, flags.freed)) this.complain('FREE_UNKNOWN', { value }, ' a second time')
    else if (!this.is(value, flags.written))
      this.complain('FREE_UNKNOWN', { value }, ', which was never written')
    this.state[value]! |= flags.freed
    const slot = this.view.values.slot[value]!
    if (this.occupants[slot] === value) this.occupants[slot] = -1
  }

  private is(value: number, flag: number): boolean {
    return (this.state[value]! & flag) !== 0
  }

  /** There before the step begins. */
  private isGiven(value: number): boolean {
    const buffer = this.buffer(value)
    const step = this.role.values[value]?.step
    return buffer?.constant !== undefined || (buffer?.state === true && step !== undefined && step <= 0)
  }

  /** Whether a later version of the state is in the same place already. */
  private isOverwritten(value: number, rows: Region): boolean {
    const occupant = this.occupants[this.view.values.slot[value]!]!
    if (occupant < 0) return false
    const written = this.partial.get(occupant)?.written ?? [this.rowsOf(occupant, -1)]
    return written.some((region) => overlap(region, rows))
  }

  /** Rows of a value that was written; undefined where all accesses so far are of the whole, and this one too. */
  private partialOf(value: number, region: number): Rows | undefined {
    if (this.is(value, flags.partial)) return this.partial.get(value)
    if (region < 0 || !this.is(value, flags.written)) return undefined
    const rows = this.rowsOf(value, -1)
    const partial = { written: [rows], unread: this.is(value, flags.unread) ? [rows] : [] }
    this.partial.set(value, partial)
    this.state[value]! |= flags.partial
    return partial
  }

  private rowsOf(value: number, region: number): Region {
    return region < 0 ? { start: 0, end: this.size[value]! } : operandRows(this.role, { value, region })
  }

  /** Whether an access of the instruction at hand writes what an earlier one of it writes. */
  private collide(at: number): void {
    if (this.kind[at] === columnAccess.read || this.inside[at] === 0) return
    const { role, value, region } = this
    const { slot } = this.view.values
    for (let other = 0; other < at; other++) {
      if (this.kind[other] === columnAccess.read || this.inside[other] === 0) continue
      if (slot[value[at]!] !== slot[value[other]!]) continue
      const [ours, theirs] = [at, other].map((one) =>
        operandElements(role, operandOf(value[one]!, region[one]!)),
      )
      if (!overlap(ours!, theirs!)) continue
      this.complain('WRITE_OVERLAP', { value: value[at]! })
      return
    }
  }

  private buffer(value: number): BufferSpec | undefined {
    return this.role.buffers[this.view.values.buffer[value] ?? -1]
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

function operandOf(value: number, region: number): Operand {
  return region < 0 ? { value } : { value, region }
}
