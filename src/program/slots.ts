import { valueAccesses } from './accesses.ts'
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
 * slot of its buffer that is free at the value's first access, free again after its `free`. State and constants live in
 * slot 0 and are never freed.
 */
export function assignSlots(
  buffers: readonly SlotBuffer[],
  values: readonly { readonly buffer: number }[],
  instructions: Iterable<Instruction>,
): SlotAssignment {
  const slots = new Array<number>(values.length).fill(0)
  const placed = new Uint8Array(values.length)
  const counts = new Array<number>(buffers.length).fill(0)
  const taken = buffers.map((): boolean[] => [])
  const isKept = (buffer: number): boolean =>
    buffers[buffer]?.state === true || buffers[buffer]?.constant !== undefined
  const place = (value: number): void => {
    const buffer = values[value]?.buffer
    if (buffer === undefined || placed[value] === 1) return
    placed[value] = 1
    const busy = taken[buffer]!
    const free = isKept(buffer) ? 0 : busy.indexOf(false)
    const slot = free < 0 ? busy.length : free
    busy[slot] = true
    slots[value] = slot
    counts[buffer] = Math.max(counts[buffer]!, slot + 1)
  }
  for (const instruction of instructions) {
    for (const { value } of valueAccesses(instruction)) place(value)
    if (instruction.kind !== 'free') continue
    for (const value of instruction.values) {
      const buffer = values[value]?.buffer
      if (buffer !== undefined && placed[value] === 1 && !isKept(buffer))
        taken[buffer]![slots[value]!] = false
    }
  }
  return { slots, counts }
}
