import type { OnnxEmitter } from '../rule.ts'
import { elementCount } from '../tensor.ts'
import type { TensorType } from '../types.ts'
import { one, reshaped } from './lowering.ts'

/** Vectors of one element for each channel; absent: 0 for `mean` and `shift`, 1 for `scale`. */
export interface AffineOperands {
  readonly mean?: string
  readonly scale?: string
  readonly shift?: string
}

/**
 * (x - mean) * scale + shift, where the elements of x fall into `channels` equal runs. ONNX Runtime computes its
 * BatchNormalization in one pass over x, with a variance of 1 and no epsilon exactly as x * scale + (shift - mean *
 * scale); Mul and Add are two, which takes twice as long. The result has the shape of x.
 */
export function emitAffine(
  emit: OnnxEmitter,
  x: string,
  { dtype, shape }: TensorType,
  channels: number,
  { mean, scale, shift }: AffineOperands,
): string {
  const runs = [1, channels, elementCount(shape) / channels]
  const all = (value: number): string =>
    emit.constant(dtype, [channels], new Float64Array(channels).fill(value))
  const ones = all(1)
  const operands = [reshaped(emit, x, shape, runs), scale ?? ones, shift ?? all(0), mean ?? all(0), ones]
  const made = one(emit, 'BatchNormalization', operands, { epsilon: { float: 0 } })
  return reshaped(emit, made, runs, shape)
}

/** x * scale + shift with the same two numbers for every element. */
export function emitScaledShifted(
  emit: OnnxEmitter,
  x: string,
  type: TensorType,
  scale: number,
  shift: number,
): string {
  const [a, b] = [scale, shift].map((value) => emit.constant(type.dtype, [1], [value])) as [string, string]
  return emitAffine(emit, x, type, 1, { scale: a, shift: b })
}
