import type { OnnxEmitter } from '../rule.ts'
import { sameShape } from '../tensor.ts'
import type { DType } from '../types.ts'

/** Numbers of `TensorProto.DataType`, as `Cast` wants them. */
export const onnxDataType: Readonly<Record<DType | 'i64', number>> = {
  f32: 1,
  i32: 6,
  i64: 7,
  bool: 9,
  f64: 11,
}

/** The domain of ONNX Runtime's own ops. */
export const contrib = { domain: 'com.microsoft' } as const

/** The largest constant worth storing in a model where computing it is the alternative. */
export const constantElements: number = 1 << 16

/** ONNX attributes are float32: whether a double survives as one. */
export function isExactF32(value: number): boolean {
  return Math.fround(value) === value
}

/** A node with one output. */
export function one(
  emit: OnnxEmitter,
  opType: string,
  inputs: readonly string[],
  attributes: Parameters<OnnxEmitter['node']>[2] = {},
  options: Parameters<OnnxEmitter['node']>[3] = {},
): string {
  return emit.node(opType, inputs, attributes, options)[0]!
}

export function scalarConstant(emit: OnnxEmitter, dtype: DType, value: number): string {
  return emit.constant(dtype, [], [value])
}

/** A vector of shape, axes or bounds. */
export function integers(emit: OnnxEmitter, values: readonly number[]): string {
  return emit.constant('i64', [values.length], values)
}

export function reshaped(
  emit: OnnxEmitter,
  input: string,
  from: readonly number[],
  to: readonly number[],
): string {
  if (sameShape(from, to)) return input
  // Otherwise a 0 would mean "as it was".
  const attributes = to.includes(0) ? { allowzero: { int: 1 } } : {}
  return one(emit, 'Reshape', [input, integers(emit, to)], attributes)
}

export function expandedTo(
  emit: OnnxEmitter,
  input: string,
  from: readonly number[],
  to: readonly number[],
): string {
  return sameShape(from, to) ? input : one(emit, 'Expand', [input, integers(emit, to)])
}

/** Elements are lists of 0 … size - 1. */
export function countingConstant(emit: OnnxEmitter, dtype: DType, shape: readonly number[]): string {
  const size = shape.reduce((product, part) => product * part, 1)
  return emit.constant(
    dtype,
    shape,
    Array.from({ length: size }, (_, index) => index),
  )
}
