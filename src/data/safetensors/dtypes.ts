import type { DType } from '../../graph/index.ts'

/** Bytes of one element of every dtype that is read and written. Elements are little-endian. */
export const elementBytes = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
} as const

export type SafetensorsDType = keyof typeof elementBytes

export function isSafetensorsDType(name: string): name is SafetensorsDType {
  return Object.hasOwn(elementBytes, name)
}

/** The dtype that a tensor of a graph is stored as. */
export const storedDType: { readonly [K in DType]: SafetensorsDType } = {
  f32: 'F32',
  f64: 'F64',
  i32: 'I32',
  bool: 'BOOL',
}

let halfTable: Float32Array | undefined

/** IEEE 754 binary16 bit patterns as numbers; every one of them is exact in float32. */
export function decodeF16(bits: Uint16Array, target: Float32Array | Float64Array): void {
  halfTable ??= Float32Array.from({ length: 2 ** 16 }, (_, pattern) => halfValue(pattern))
  for (let index = 0; index < bits.length; index++) target[index] = halfTable[bits[index]!]!
}

function halfValue(pattern: number): number {
  const sign = pattern & 0x8000 ? -1 : 1
  const exponent = (pattern >> 10) & 0x1f
  const fraction = pattern & 0x3ff
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : Number.NaN
  // Exponent 0 is the subnormal range: no hidden bit, and the smallest exponent again.
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25)
}

/** bfloat16 is the upper half of a float32. */
export function decodeBF16(bits: Uint16Array, target: Float32Array | Float64Array): void {
  const words = new Uint32Array(bits.length)
  for (let index = 0; index < bits.length; index++) words[index] = bits[index]! << 16
  target.set(new Float32Array(words.buffer))
}
