import type { OnnxContext, OpRule } from '../rule.ts'
import { axesOf, elementCount, isFloat, tensorType } from '../tensor.ts'
import type { DType, OpAttributes, Tensor, TensorType } from '../types.ts'
import { perInputElement } from './cost.ts'
import { broadcastTo, mul, reshapeTo } from './derivatives.ts'
import { offsetsOf, rowMajorStrides, zeros } from './elements.ts'
import { integers, one, reshaped } from './lowering.ts'
import { commonDType, requireDim, requireOperands, shapeError } from './shapes.ts'

type ReductionName = 'reduceSum' | 'reduceMax'
type Attributes = OpAttributes[ReductionName]

const numbers: readonly DType[] = ['f32', 'f64', 'i32']

function reducedType(op: ReductionName, inputs: readonly TensorType[], attributes: Attributes): TensorType {
  requireOperands(op, inputs, 1)
  const { dims, keepDims } = attributes
  const { shape } = inputs[0]!
  commonDType(op, inputs, numbers)
  dims.forEach((dim, position) => {
    requireDim(op, inputs, dim, shape.length)
    if (position > 0 && dims[position - 1]! >= dim)
      throw shapeError(op, inputs, `dims ${dims.join(', ')} must ascend`)
  })
  const axes = axesOf(inputs[0]!)
  const kept = shape.map((_, dim) => dim).filter((dim) => keepDims || !dims.includes(dim))
  return tensorType(
    inputs[0]!.dtype,
    kept.map((dim) => (dims.includes(dim) ? 1 : shape[dim]!)),
    kept.map((dim) => (dims.includes(dim) ? '' : axes[dim]!)),
  )
}

/** Folds the reduced elements of each output in index order, from `start`. */
function fold(
  input: Tensor,
  dims: readonly number[],
  type: TensorType,
  start: number,
  step: (accumulated: number, value: number) => number,
): Tensor {
  const { shape } = input.type
  const strides = rowMajorStrides(shape)
  // Offsets with the reduced dims innermost: the elements of one output are neighbours.
  const order = [...shape.keys()].filter((dim) => !dims.includes(dim)).concat(dims)
  const offsets = offsetsOf(
    order.map((dim) => shape[dim]!),
    order.map((dim) => strides[dim]!),
  )
  const count = elementCount(dims.map((dim) => shape[dim]!))
  const result = zeros(type)
  for (let index = 0, position = 0; index < result.data.length; index++) {
    let accumulated = start
    for (const end = position + count; position < end; position++)
      accumulated = step(accumulated, input.data[offsets[position]!]!)
    result.data[index] = accumulated
  }
  return result
}

/** The type of the result as if the reduced dims had been kept with size 1. */
function keptType(input: TensorType, dims: readonly number[]): TensorType {
  return tensorType(
    input.dtype,
    input.shape.map((size, dim) => (dims.includes(dim) ? 1 : size)),
  )
}

function lowerReduction(opType: string, context: OnnxContext<ReductionName>): readonly string[] {
  const { emit, attributes, inputs } = context
  // Without axes ONNX would reduce all of them.
  if (attributes.dims.length === 0) return inputs
  return emit.node(opType, [inputs[0]!, integers(emit, attributes.dims)], {
    keepdims: { int: attributes.keepDims ? 1 : 0 },
  })
}

export const reduceSum: OpRule<'reduceSum'> = {
  summary: 'sum over dims',
  infer: (inputs, attributes) => [reducedType('reduceSum', inputs, attributes)],
  vjp: [
    ({ builder, attributes, inputs, cotangents }) => {
      const type = builder.type(inputs[0]!)
      const kept = reshapeTo(builder, cotangents[0]!, keptType(type, attributes.dims))
      return broadcastTo(builder, kept, type.shape)
    },
  ],
  cost: perInputElement(1),
  reference: ([x], { dims }, [type]) => [fold(x!, dims, type!, 0, (sum, value) => sum + value)],
  onnx: (context) => {
    const { emit, attributes, inputs, inputTypes, outputTypes } = context
    const { dtype, shape } = inputTypes[0]!
    const leading = attributes.dims.length
    const isLeading = attributes.dims.every((dim, position) => dim === position)
    const rows = elementCount(shape.slice(0, leading))
    if (!isFloat(dtype) || !isLeading || leading === 0 || leading === shape.length || rows < 2)
      return lowerReduction('ReduceSum', context)
    // Sums over rows, as of a bias gradient, are faster as a product with a row of ones.
    const columns = elementCount(shape.slice(leading))
    const ones = emit.constant(dtype, [1, rows], new Float64Array(rows).fill(1))
    const matrix = reshaped(emit, inputs[0]!, shape, [rows, columns])
    return [reshaped(emit, one(emit, 'MatMul', [ones, matrix]), [1, columns], outputTypes[0]!.shape)]
  },
}

export const reduceMax: OpRule<'reduceMax'> = {
  summary: 'largest over dims; equal elements share the derivative',
  infer: (inputs, attributes) => {
    const type = reducedType('reduceMax', inputs, attributes)
    if (attributes.dims.some((dim) => inputs[0]!.shape[dim] === 0))
      throw shapeError('reduceMax', inputs, 'nothing has no largest element')
    return [type]
  },
  vjp: [
    ({ builder, attributes: { dims }, inputs, outputs, cotangents }) => {
      const x = inputs[0]!
      const type = builder.type(x)
      const kept = keptType(type, dims)
      const largest = reshapeTo(builder, outputs[0]!, kept)
      const share = builder.one('cast', [builder.one('equal', [x, largest], {})], { dtype: type.dtype })
      const sharers = builder.one('reduceSum', [share], { dims, keepDims: true })
      const each = builder.one('div', [reshapeTo(builder, cotangents[0]!, kept), sharers], {})
      return mul(builder, share, each)
    },
  ],
  cost: perInputElement(1),
  reference: ([x], { dims }, [type]) => [fold(x!, dims, type!, Number.NEGATIVE_INFINITY, Math.max)],
  onnx: (context) => lowerReduction('ReduceMax', context),
}
