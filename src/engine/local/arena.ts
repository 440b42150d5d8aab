import { bytesPerElement, type DType, elementCount } from '../../graph/index.ts'
import { type Operand, operandRows, poolSlotBytes, type Role, type ValueRef } from '../../program/index.ts'
import type { WasmMemory } from './wasm/index.ts'

/** Where a tensor is in a memory. */
export interface Place {
  /** Bytes from the start of the memory. */
  readonly pointer: number
  readonly dtype: DType
  readonly shape: readonly number[]
  /** Elements. */
  readonly count: number
}

export function placeBytes(place: Place): number {
  return place.count * bytesPerElement[place.dtype]
}

export function overlaps(a: Place, b: Place): boolean {
  return a.pointer < b.pointer + placeBytes(b) && b.pointer < a.pointer + placeBytes(a)
}

/**
 * The device tier of one rank: every slot of every pool of its role, one behind the other in one private memory, so
 * that ONNX Runtime takes views of it and fused loops reach all of it. Buffers of the host tier have their place here too.
 */
export class ArenaLayout {
  /** Bytes of all slots; the workspace of tasks begins here. */
  readonly bytes: number
  private readonly role: Role
  private readonly pools: readonly { readonly at: number; readonly slotBytes: number }[]

  constructor(role: Role) {
    this.role = role
    // Address 0 stays unused, so that a pointer that was never set is not a tensor.
    let bytes = 64
    this.pools = poolSlotBytes(role).map((slotBytes, pool) => {
      const at = bytes
      bytes += role.pools[pool]!.slots * slotBytes
      return { at, slotBytes }
    })
    this.bytes = bytes
  }

  /** One instance of a buffer. */
  slot(buffer: number, slot: number): Place {
    const spec = this.role.buffers[buffer]!
    const { at, slotBytes } = this.pools[spec.pool]!
    return {
      pointer: at + slot * slotBytes,
      dtype: spec.dtype,
      shape: spec.shape,
      count: elementCount(spec.shape),
    }
  }

  value(value: ValueRef): Place {
    const { buffer, slot } = this.role.values[value]!
    return this.slot(buffer, slot)
  }

  operand(operand: Operand): Place {
    const whole = this.value(operand.value)
    if (operand.region === undefined || whole.shape.length === 0) return whole
    const { start, end } = operandRows(this.role, operand)
    const rowElements = whole.count / whole.shape[0]!
    return {
      pointer: whole.pointer + start * rowElements * bytesPerElement[whole.dtype],
      dtype: whole.dtype,
      shape: [end - start, ...whole.shape.slice(1)],
      count: (end - start) * rowElements,
    }
  }
}

/** A part of a flat tensor, seen as a tensor of its own. */
export function viewOf(place: Place, offset: number, dtype: DType, shape: readonly number[]): Place {
  return {
    pointer: place.pointer + offset * bytesPerElement[place.dtype],
    dtype,
    shape,
    count: elementCount(shape),
  }
}

export type PlaceData = Float32Array | Float64Array | Int32Array | Uint8Array

/** The elements of a place, as a view. */
export function placeData(memory: WasmMemory, place: Place): PlaceData {
  const { buffer } = memory
  switch (place.dtype) {
    case 'f32':
      return new Float32Array(buffer, place.pointer, place.count)
    case 'f64':
      return new Float64Array(buffer, place.pointer, place.count)
    case 'i32':
      return new Int32Array(buffer, place.pointer, place.count)
    case 'bool':
      return new Uint8Array(buffer, place.pointer, place.count)
  }
}
