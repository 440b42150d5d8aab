import { visitAccesses } from './accesses.ts'
import { Heap } from './heap.ts'
import type { BufferSpec, Instruction } from './types.ts'

export interface SlotAssignment {
  /** Slot of each value. */
  readonly slots: readonly number[]
  /** Slots of each buffer. */
  readonly counts: readonly number[]
}

/** Where a value lives is decided by its buffer; state and constants have one place each. */
type SlotBuffer = Pick<BufferSpec, 'state' | 'constant'>

/**
 * The rule by which values get their slots, the same for compiled programs and for those read from text: the lowest
 * slot of its buffer that is free at the value's first access, free again after its first `free`. State and constants
 * live in slot 0 and are never freed.
 */
export function assignSlots(
  buffers: readonly SlotBuffer[],
  values: readonly { readonly buffer: number }[],
  instructions: Iterable<Instruction>,
): SlotAssignment {
  const slots = new Array<number>(values.length).fill(0)
  const phase = new Uint8Array(values.length)
  const counts = new Array<number>(buffers.length).fill(0)
  // All slots below the count are taken but those that came back.
  const returned = buffers.map(() => new Heap<number>((a, b) => a < b))
  const isKept = buffers.map(({ state, constant }) => state === true || constant !== undefined)
  const place = (value: number): void => {
    const buffer = values[value]?.buffer
    if (buffer === undefined || phase[value] !== untouched) return
    phase[value] = live
    const slot = isKept[buffer] === true ? 0 : (returned[buffer]!.pop() ?? counts[buffer]!)
    slots[value] = slot
    if (slot >= counts[buffer]!) counts[buffer] = slot + 1
  }
  for (const instruction of instructions) {
    visitAccesses(instruction, ({ value }) => place(value))
    if (instruction.kind !== 'free') continue
    for (const value of instruction.values) {
      const buffer = values[value]?.buffer
      if (buffer === undefined || phase[value] !== live || isKept[buffer] === true) continue
      phase[value] = freed
      returned[buffer]!.push(slots[value]!)
    }
  }
  return { slots, counts }
}

const untouched = 0
const live = 1
const freed = 2
