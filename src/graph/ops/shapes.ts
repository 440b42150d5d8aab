import { MeshwrightError } from '../../base/index.ts'
import { axesOf, formatType, tensorType } from '../tensor.ts'
import type { DType, OpName, TensorType } from '../types.ts'

/** The error of operands or attributes that do not fit an op: says what is wrong and shows every operand. */
export function shapeError(op: OpName, inputs: readonly TensorType[], reason: string): MeshwrightError {
  const operands = inputs.length === 0 ? '' : ` (operands ${inputs.map(formatType).join(', ')})`
  return new MeshwrightError('GRAPH_SHAPE', `${op}: ${reason}${operands}`)
}

export function requireOperands(op: OpName, inputs: readonly TensorType[], count: number): void {
  if (inputs.length !== count)
    throw shapeError(op, inputs, `needs ${count} operands, was given ${inputs.length}`)
}

/** All operands must have one dtype, which must be among `allowed`; returns it. */
export function commonDType(op: OpName, inputs: readonly TensorType[], allowed: readonly DType[]): DType {
  const dtype = inputs[0]!.dtype
  if (!allowed.includes(dtype)) throw shapeError(op, inputs, `is not defined on ${dtype}`)
  if (inputs.some((input) => input.dtype !== dtype)) throw shapeError(op, inputs, 'the dtypes differ')
  return dtype
}

export function requireDim(op: OpName, inputs: readonly TensorType[], dim: number, rank: number): void {
  if (!Number.isInteger(dim) || dim < 0 || dim >= rank)
    throw shapeError(op, inputs, `there is no dim ${dim} among ${rank}`)
}

/** Every size a whole number that is not negative. */
export function requireSizes(op: OpName, inputs: readonly TensorType[], sizes: readonly number[]): void {
  for (const size of sizes)
    if (!Number.isSafeInteger(size) || size < 0) throw shapeError(op, inputs, `${size} is not a size`)
}

/** The shape that all of `shapes` broadcast to by numpy's rule, or undefined where they do not. */
export function broadcastShapes(shapes: readonly (readonly number[])[]): number[] | undefined {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length))
  const result: number[] = []
  for (let dim = 0; dim < rank; dim++) {
    let size = 1
    for (const shape of shapes) {
      const own = shape[dim - rank + shape.length] ?? 1
      if (own === 1 || own === size) continue
      if (size !== 1) return undefined
      size = own
    }
    result.push(size)
  }
  return result
}

/** For each dim of `shape`, the first name that an operand has there without being repeated along it. */
export function broadcastAxes(inputs: readonly TensorType[], shape: readonly number[]): string[] {
  return shape.map((size, dim) => {
    for (const input of inputs) {
      const own = dim - shape.length + input.shape.length
      const axis = own >= 0 && input.shape[own] === size ? input.axes?.[own] : undefined
      if (axis !== undefined && axis !== '') return axis
    }
    return ''
  })
}

/** The type of an elementwise result over broadcast operands. */
export function elementwiseType(op: OpName, inputs: readonly TensorType[], dtype: DType): TensorType {
  const shape = broadcastShapes(inputs.map((input) => input.shape))
  if (shape === undefined) throw shapeError(op, inputs, 'the shapes do not broadcast')
  return tensorType(dtype, shape, broadcastAxes(inputs, shape))
}

/** `type` with its last dim of another size; a size of 1 loses the axis name. */
export function withLastSize(type: TensorType, size: number): TensorType {
  const last = type.shape.length - 1
  const axes = axesOf(type).map((axis, dim) => (dim === last && size !== type.shape[last] ? '' : axis))
  return tensorType(type.dtype, [...type.shape.slice(0, last), size], axes)
}

/** Whether the first dims of `longer` are `shorter`. */
export function sameLeading(shorter: readonly number[], longer: readonly number[]): boolean {
  return shorter.length <= longer.length && shorter.every((size, dim) => size === longer[dim])
}
