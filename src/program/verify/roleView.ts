import { columnKinds } from '../columnAccesses.ts'
import { readInstruction, readInstructions } from '../columns.ts'
import type { Instruction, InstructionColumns, Role, ValueInstance } from '../types.ts'

type Kind = Instruction['kind']

/** An index that a value has not. */
export const absent = -2_147_483_648

/** What the values of a role are, by value: walks compare numbers. */
export interface ValueColumns {
  readonly buffer: Int32Array
  /** `absent` where it has none. */
  readonly microbatch: Int32Array
  readonly step: Int32Array
  /** Where it lives, numbered from 0 through all slots of all pools. */
  readonly slot: Int32Array
  readonly slots: number
}

/**
 * A role, and the ranks that follow it. Its instructions become objects only where somebody asks for them: a program has
 * hundreds of thousands, and what looks at all of them walks the columns.
 */
export class RoleView {
  readonly index: number
  readonly role: Role
  readonly ranks: readonly number[]
  readonly code: InstructionColumns
  private decoded: readonly Instruction[] | undefined
  private columns: ValueColumns | undefined
  private readonly places = new Map<Kind, Int32Array>()

  constructor(index: number, role: Role, ranks: readonly number[]) {
    this.index = index
    this.role = role
    this.ranks = ranks
    this.code = role.code
  }

  /** All of them, decoded once. */
  get instructions(): readonly Instruction[] {
    this.decoded ??= readInstructions(this.code)
    return this.decoded
  }

  get values(): ValueColumns {
    if (this.columns !== undefined) return this.columns
    const { values, buffers, pools } = this.role
    const firstSlot: number[] = []
    let slots = 0
    for (const pool of pools) {
      firstSlot.push(slots)
      slots += Math.max(0, pool.slots)
    }
    // A hostile program has more slots than values: those are numbered as they are used, and so are those no pool has.
    if (slots > values.length) slots = 0
    const others = new Map<string, number>()
    const slotOf = ({ buffer, slot: own }: ValueInstance): number => {
      const pool = buffers[buffer]?.pool ?? -1
      if (slots > 0 && own >= 0 && own < (pools[pool]?.slots ?? 0)) return firstSlot[pool]! + own
      const key = `${pool}:${own}`
      const number = others.get(key) ?? slots + others.size
      others.set(key, number)
      return number
    }
    const slot = new Int32Array(values.length)
    const buffer = new Int32Array(values.length)
    const microbatch = new Int32Array(values.length)
    const step = new Int32Array(values.length)
    for (let value = 0; value < values.length; value++) {
      const instance = values[value]!
      buffer[value] = instance.buffer
      microbatch[value] = instance.microbatch ?? absent
      step[value] = instance.step ?? absent
      slot[value] = slotOf(instance)
    }
    this.columns = { buffer, microbatch, step, slot, slots: slots + others.size }
    return this.columns
  }

  /** Undefined where there is none. */
  instruction(index: number): Instruction | undefined {
    return index >= 0 && index < this.code.length ? readInstruction(this.code, index) : undefined
  }

  /** Index into the role's actions of a run that is known to be one; -1 where it is for none. */
  actionOf(run: number): number {
    return this.code.operands[this.code.start[run]!]! - 1
  }

  /** Where the instructions of a kind stand, ascending. */
  of(kind: Kind): Int32Array {
    const known = this.places.get(kind)
    if (known !== undefined) return known
    const found: number[] = []
    const wanted = columnKinds[kind]
    for (let index = 0; index < this.code.length; index++)
      if (this.code.kind[index] === wanted) found.push(index)
    const places = Int32Array.from(found)
    this.places.set(kind, places)
    return places
  }

  /** The instructions of a kind in order, each made when it is come to. */
  *each<K extends Kind>(kind: K): Generator<readonly [index: number, Extract<Instruction, { kind: K }>]> {
    for (const index of this.of(kind))
      yield [index, readInstruction(this.code, index) as Extract<Instruction, { kind: K }>]
  }
}
