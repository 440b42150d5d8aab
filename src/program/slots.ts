import { elementCount } from '../graph/index.ts'
import { columnKinds, visitColumnAccesses } from './columnAccesses.ts'
import { encodeInstructions } from './columns.ts'
import type { BufferSpec, Instruction, InstructionColumns, SlotPool } from './types.ts'

/** What decides where the values of a buffer live. */
type PooledBuffer = Pick<BufferSpec, 'dtype' | 'shape' | 'tier' | 'state' | 'constant' | 'windowed'>

/** State and constants are there from step to step: they share their place with nobody. */
export function isKept({ state, constant }: Pick<BufferSpec, 'state' | 'constant'>): boolean {
  return state === true || constant !== undefined
}

/** Whether values of two buffers may take turns in one slot. */
export function maySharePool(a: PooledBuffer, b: PooledBuffer): boolean {
  return !isKept(a) && !isKept(b) && poolKey(a) === poolKey(b)
}

/** The pool of each buffer, numbered in the order of buffers: all that may share one do. */
export function assignPools(buffers: readonly PooledBuffer[]): number[] {
  const known = new Map<string, number>()
  let count = 0
  return buffers.map((buffer) => {
    if (isKept(buffer)) return count++
    const key = poolKey(buffer)
    const pool = known.get(key) ?? count++
    known.set(key, pool)
    return pool
  })
}

function poolKey({ dtype, shape, tier, windowed }: PooledBuffer): string {
  return `${dtype} ${windowed === true ? 'windows' : elementCount(shape)} ${tier}`
}

export interface SlotAssignment {
  /** Slot of each value, in the pool of its buffer. */
  readonly slots: readonly number[]
  readonly pools: readonly SlotPool[]
}

/**
 * The rule by which values get their slots, the same for compiled programs and for those read from text: at its first
 * access a value takes, of the free slots of its pool, the one that has been free the longest, so that it waits least
 * for those who used it before; a new one where none is free. It is free again after the value's first `free`. State and
 * constants are never freed and live in slot 0, what earlier steps left of a state each in a slot of its own: version t - k
 * in slot k. The next version takes the place of the oldest.
 */
export function assignSlots(
  buffers: readonly Pick<BufferSpec, 'pool' | 'state' | 'constant'>[],
  values: readonly { readonly buffer: number; readonly step?: number }[],
  instructions: Iterable<Instruction>,
): SlotAssignment {
  return assignCodeSlots(buffers, values, encodeInstructions(instructions))
}

/** The same of instructions as columns. */
export function assignCodeSlots(
  buffers: readonly Pick<BufferSpec, 'pool' | 'state' | 'constant'>[],
  values: readonly { readonly buffer: number; readonly step?: number }[],
  code: InstructionColumns,
): SlotAssignment {
  const slots = new Array<number>(values.length).fill(0)
  const phase = new Uint8Array(values.length)
  const pools = buffers.reduce((most, { pool }) => Math.max(most, pool + 1), 0)
  const counts = new Array<number>(pools).fill(0)
  // All slots below the count are taken but those that came back, the first of them first.
  const returned = Array.from({ length: pools }, () => new Queue())
  const kept = buffers.map(isKept)
  const oldest = new Array<number>(buffers.length).fill(0)
  for (const { buffer, step = 0 } of values)
    if (-step > oldest[buffer]!) {
      oldest[buffer] = -step
      if (kept[buffer] === true) counts[buffers[buffer]!.pool] = 1 - step
    }
  const place = (value: number): void => {
    if (phase[value] !== untouched) return
    const { buffer, step = 0 } = values[value]!
    phase[value] = live
    const { pool } = buffers[buffer]!
    const slot =
      kept[buffer] !== true
        ? (returned[pool]!.take() ?? counts[pool]!)
        : step > 0
          ? oldest[buffer]!
          : 0 - step
    slots[value] = slot
    if (slot >= counts[pool]!) counts[pool] = slot + 1
  }
  for (let index = 0; index < code.length; index++) {
    visitColumnAccesses(code, index, place)
    if (code.kind[index] !== columnKinds.free) continue
    for (let at = code.start[index]!; at < code.start[index + 1]!; at++) {
      const value = code.operands[at]!
      const buffer = values[value]?.buffer
      if (buffer === undefined || phase[value] !== live || kept[buffer] === true) continue
      phase[value] = freed
      returned[buffers[buffer]!.pool]!.add(slots[value]!)
    }
  }
  return { slots, pools: counts.map((count) => ({ slots: count })) }
}

const untouched = 0
const live = 1
const freed = 2

/** First in, first out. */
class Queue {
  private readonly items: number[] = []
  private first = 0

  add(item: number): void {
    this.items.push(item)
  }

  take(): number | undefined {
    return this.first < this.items.length ? this.items[this.first++] : undefined
  }
}
