import { elementCount, emptyData, sameShape, type TensorData } from '../tensor.ts'
import type { Tensor, TensorType } from '../types.ts'

/** Elements between neighbours along each dim, in row-major order. */
export function rowMajorStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length)
  let step = 1
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    strides[dim] = step
    step *= shape[dim]!
  }
  return strides
}

/** Strides that read a tensor of shape `from` as if it had been broadcast to `to`. */
export function broadcastStrides(from: readonly number[], to: readonly number[]): number[] {
  const own = rowMajorStrides(from)
  return to.map((_, dim) => {
    const inner = dim - to.length + from.length
    return inner < 0 || from[inner] === 1 ? 0 : own[inner]!
  })
}

/** start + index . strides for each index of `shape`, in row-major order. */
export function offsetsOf(shape: readonly number[], strides: readonly number[], start = 0): Int32Array {
  const offsets = new Int32Array(elementCount(shape))
  if (offsets.length === 0) return offsets
  offsets[0] = start
  // Each dim, innermost first, repeats what is there once for each further index along it.
  let filled = 1
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    const stride = strides[dim]!
    const end = filled * shape[dim]!
    for (let position = filled; position < end; position++)
      offsets[position] = offsets[position - filled]! + stride
    filled = end
  }
  return offsets
}

/** The elements at `offsets`, as the data of a tensor of `type`. */
export function pick(type: TensorType, data: TensorData, offsets: Int32Array): Tensor {
  const picked = emptyData(type.dtype, offsets.length)
  for (let position = 0; position < offsets.length; position++) picked[position] = data[offsets[position]!]!
  return { type, data: picked }
}

/** The elements of `tensor` broadcast to `shape`; its own array where nothing is to be repeated. */
export function expanded(tensor: Tensor, shape: readonly number[]): TensorData {
  if (sameShape(tensor.type.shape, shape)) return tensor.data
  const offsets = offsetsOf(shape, broadcastStrides(tensor.type.shape, shape))
  return pick({ dtype: tensor.type.dtype, shape }, tensor.data, offsets).data
}

export function zeros(type: TensorType): Tensor {
  return { type, data: emptyData(type.dtype, elementCount(type.shape)) }
}
