import type { Instruction, Operand, Region, Role } from './types.ts'

export interface ValueAccess extends Operand {
  /** `update` reads what is there and writes over it. */
  readonly kind: 'read' | 'write' | 'update'
}

/** Every value an instruction reads or writes; `free` is none. */
export function valueAccesses(instruction: Instruction): ValueAccess[] {
  switch (instruction.kind) {
    case 'run':
      return [
        ...instruction.reads.map((read): ValueAccess => ({ ...read, kind: 'read' })),
        ...instruction.writes.map(
          (write): ValueAccess => ({ ...write, kind: write.mode === 'add' ? 'update' : 'write' }),
        ),
      ]
    case 'exchange':
      return instruction.parts.map((part) => ({
        ...part,
        kind: part.direction === 'send' ? 'read' : 'write',
      }))
    case 'collective':
      return [{ ...instruction.operand, kind: 'update' }]
    case 'move':
      return [{ value: instruction.value, kind: instruction.direction === 'in' ? 'write' : 'read' }]
    case 'free':
      return []
  }
}

/** Rows of the operand's buffer that it covers. A scalar has one row. */
export function operandRows(role: Role, operand: Operand): Region {
  const region = operand.region === undefined ? undefined : role.regions[operand.region]
  return region ?? { start: 0, end: valueRows(role, operand.value) }
}

export function valueRows(role: Role, value: number): number {
  const buffer = role.buffers[role.values[value]?.buffer ?? -1]
  return buffer?.shape[0] ?? 1
}

export function overlap(a: Region, b: Region): boolean {
  return a.start < b.end && b.start < a.end
}

/** The first of `rows` that is in none of `regions`; undefined when all are. */
export function firstGap(regions: readonly Region[], rows: Region): number | undefined {
  let reached = rows.start
  for (const region of regions.toSorted((a, b) => a.start - b.start))
    if (region.start <= reached) reached = Math.max(reached, region.end)
  return reached >= rows.end ? undefined : reached
}

/** Bytes of one element. */
export const elementBytes = { f32: 4, f64: 8, i32: 4, bool: 1 } as const

/** Bytes of an operand. */
export function operandBytes(role: Role, operand: Operand): number {
  const buffer = role.buffers[role.values[operand.value]?.buffer ?? -1]
  if (buffer === undefined) return 0
  const rowElements = buffer.shape.slice(1).reduce((product, size) => product * size, 1)
  const { start, end } = operandRows(role, operand)
  return (end - start) * rowElements * elementBytes[buffer.dtype]
}

/** Bytes of one instance of a buffer, rounded up to the arena's alignment. */
export function slotBytes(buffer: {
  readonly dtype: keyof typeof elementBytes
  readonly shape: readonly number[]
}): number {
  const bytes = buffer.shape.reduce((product, size) => product * size, elementBytes[buffer.dtype])
  return Math.ceil(bytes / arenaAlignment) * arenaAlignment
}

/** A cache line. */
export const arenaAlignment = 64

/** Bytes of a role's static arena: every slot of every buffer. */
export function arenaBytes(role: Role): number {
  return role.buffers.reduce((sum, buffer) => sum + buffer.slots * slotBytes(buffer), 0)
}
