import { byteSize, bytesPerElement, elementCount } from '../graph/index.ts'
import type { BufferSpec, CollectivePart, Instruction, Operand, Region, Role } from './types.ts'

export interface ValueAccess extends Operand {
  /** `update` reads what is there and writes over it. */
  readonly kind: 'read' | 'write' | 'update'
}

/** Every value an instruction reads or writes, reads of a run first; `free` is none. Makes no objects for runs. */
function visitAccesses(
  instruction: Instruction,
  visit: (operand: Operand, kind: ValueAccess['kind']) => void,
): void {
  switch (instruction.kind) {
    case 'run':
      for (const read of instruction.reads) visit(read, 'read')
      for (const write of instruction.writes) visit(write, write.mode === 'add' ? 'update' : 'write')
      return
    case 'exchange':
      for (const part of instruction.parts)
        visit(plainOperand(part), part.direction === 'send' ? 'read' : 'write')
      return
    case 'collective':
      for (const { source, result } of instruction.parts) {
        if (isInPlace({ source, result })) {
          visit(source, 'update')
          continue
        }
        visit(source, 'read')
        visit(plainOperand(result), result.mode === 'add' ? 'update' : 'write')
      }
      return
    case 'move':
      visit({ value: instruction.value }, instruction.direction === 'in' ? 'write' : 'read')
      return
    case 'free':
      return
  }
}

/** A part of a collective that leaves its result where its source was. */
export function inPlace(operand: Operand): CollectivePart {
  return { source: operand, result: { ...operand, mode: 'set' } }
}

/** Whether a collective leaves its result where its source was. */
export function isInPlace({ source, result }: CollectivePart): boolean {
  return source.value === result.value && source.region === result.region
}

/** Of few shapes, so that what walks millions of operands stays fast. */
function plainOperand({ value, region }: Operand): Operand {
  return region === undefined ? { value } : { value, region }
}

/** The same as a list. */
export function valueAccesses(instruction: Instruction): ValueAccess[] {
  const accesses: ValueAccess[] = []
  visitAccesses(instruction, ({ value, region }, kind) => {
    accesses.push(region === undefined ? { value, kind } : { value, region, kind })
  })
  return accesses
}

/** Rows of the operand's buffer that it covers. A scalar has one row. */
export function operandRows(role: Role, operand: Operand): Region {
  const region = operand.region === undefined ? undefined : role.regions[operand.region]
  return region ?? { start: 0, end: valueRows(role, operand.value) }
}

/** Elements of the operand's buffer that it covers. */
export function operandElements(role: Role, operand: Operand): Region {
  const { start, end } = operandRows(role, operand)
  const shape = role.buffers[role.values[operand.value]?.buffer ?? -1]?.shape ?? []
  const rowElements = elementCount(shape.slice(1))
  return { start: start * rowElements, end: end * rowElements }
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

/** Bytes of an operand. */
export function operandBytes(role: Role, operand: Operand): number {
  const buffer = role.buffers[role.values[operand.value]?.buffer ?? -1]
  if (buffer === undefined) return 0
  const { start, end } = operandRows(role, operand)
  return (end - start) * elementCount(buffer.shape.slice(1)) * bytesPerElement[buffer.dtype]
}

/** Bytes of one instance of a buffer, rounded up to the arena's alignment. */
export function slotBytes(buffer: Pick<BufferSpec, 'dtype' | 'shape'>): number {
  return Math.ceil(byteSize(buffer) / arenaAlignment) * arenaAlignment
}

/** A cache line. */
export const arenaAlignment = 64

/** Bytes of one slot of each pool of a role. */
export function poolSlotBytes({ buffers, pools }: Pick<Role, 'buffers' | 'pools'>): number[] {
  const bytes = pools.map(() => 0)
  for (const buffer of buffers) bytes[buffer.pool] = Math.max(bytes[buffer.pool] ?? 0, slotBytes(buffer))
  return bytes
}

/** Bytes of a role's static arena: every slot of every pool. */
export function arenaBytes(role: Pick<Role, 'buffers' | 'pools'>): number {
  return poolSlotBytes(role).reduce((sum, bytes, pool) => sum + (role.pools[pool]?.slots ?? 0) * bytes, 0)
}
