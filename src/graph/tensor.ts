import { internalError } from '../base/index.ts'
import type { DType, FloatDType, Tensor, TensorType } from './types.ts'

export type TensorData = Tensor['data']

/** Bytes that one element takes on a device (the reference interpreter holds more). */
export const bytesPerElement: Readonly<Record<DType, number>> = { f32: 4, f64: 8, i32: 4, bool: 1 }

export function isFloat(dtype: DType): dtype is FloatDType {
  return dtype === 'f32' || dtype === 'f64'
}

export function elementCount(shape: readonly number[]): number {
  let count = 1
  for (const size of shape) count *= size
  return count
}

/** Bytes of a tensor of this type on a device. */
export function byteSize(type: TensorType): number {
  return elementCount(type.shape) * bytesPerElement[type.dtype]
}

/** A type; `axes` that name nothing are left out, so that equal types look equal. */
export function tensorType(dtype: DType, shape: readonly number[], axes?: readonly string[]): TensorType {
  return axes?.some((axis) => axis !== '') ? { dtype, shape, axes } : { dtype, shape }
}

/** The axis name of each dim, '' where it has none. */
export function axesOf(type: TensorType): readonly string[] {
  return type.axes ?? type.shape.map(() => '')
}

export function sameShape(left: readonly number[], right: readonly number[]): boolean {
  return left.length === right.length && left.every((size, dim) => size === right[dim])
}

/** `f32[2, 3]` */
export function formatType(type: TensorType): string {
  return `${type.dtype}[${type.shape.join(', ')}]`
}

/** Zeros, in the array that a tensor of this dtype is held in. */
export function emptyData(dtype: DType, count: number): TensorData {
  return isFloat(dtype) ? new Float64Array(count) : new Int32Array(count)
}

/** A tensor over a copy of `data`, in row-major order. */
export function makeTensor(type: TensorType, data: ArrayLike<number>): Tensor {
  const count = elementCount(type.shape)
  if (data.length !== count) throw internalError(`${data.length} elements given for ${formatType(type)}`)
  const copy = emptyData(type.dtype, count)
  copy.set(data)
  return { type, data: copy }
}

export function filledTensor(type: TensorType, value: number): Tensor {
  return { type, data: emptyData(type.dtype, elementCount(type.shape)).fill(value) }
}

/** A tensor of shape []. */
export function scalarTensor(dtype: DType, value: number): Tensor {
  return filledTensor({ dtype, shape: [] }, value)
}
