import type { OpRule } from '../rule.ts'
import { axesOf, elementCount, sameShape, tensorType } from '../tensor.ts'
import { costOf } from './cost.ts'
import { reshapeTo, sumTo } from './derivatives.ts'
import { broadcastStrides, offsetsOf, pick, rowMajorStrides } from './elements.ts'
import { expandedTo, reshaped } from './lowering.ts'
import { broadcastAxes, broadcastShapes, requireOperands, requireSizes, shapeError } from './shapes.ts'

export const reshape: OpRule<'reshape'> = {
  summary: 'the same elements in row-major order under another shape',
  infer: (inputs, { shape, axes }) => {
    requireOperands('reshape', inputs, 1)
    requireSizes('reshape', inputs, shape)
    if (elementCount(shape) !== elementCount(inputs[0]!.shape))
      throw shapeError('reshape', inputs, `[${shape.join(', ')}] holds another number of elements`)
    if (axes !== undefined && axes.length !== shape.length)
      throw shapeError('reshape', inputs, `${axes.length} axis names for ${shape.length} dims`)
    return [tensorType(inputs[0]!.dtype, shape, axes)]
  },
  vjp: [({ builder, inputs, cotangents }) => reshapeTo(builder, cotangents[0]!, builder.type(inputs[0]!))],
  // A view on every backend.
  cost: () => ({ flops: 0, bytes: 0 }),
  reference: ([x], _attributes, [type]) => [{ type: type!, data: x!.data }],
  onnx: ({ emit, inputs, inputTypes, outputTypes }) => [
    reshaped(emit, inputs[0]!, inputTypes[0]!.shape, outputTypes[0]!.shape),
  ],
}

export const transpose: OpRule<'transpose'> = {
  summary: 'dims in another order: dim i of the result is dim permutation[i] of the operand',
  infer: (inputs, { permutation }) => {
    requireOperands('transpose', inputs, 1)
    const { dtype, shape } = inputs[0]!
    const sorted = [...permutation].sort((left, right) => left - right)
    if (!sameShape(sorted, [...shape.keys()]))
      throw shapeError('transpose', inputs, `[${permutation.join(', ')}] is not an order of its dims`)
    const axes = axesOf(inputs[0]!)
    return [
      tensorType(
        dtype,
        permutation.map((dim) => shape[dim]!),
        permutation.map((dim) => axes[dim]!),
      ),
    ]
  },
  vjp: [
    ({ builder, attributes: { permutation }, cotangents }) => {
      const inverse = permutation.map((_, dim) => permutation.indexOf(dim))
      return builder.one('transpose', [cotangents[0]!], { permutation: inverse })
    },
  ],
  cost: (inputs, outputs) => costOf(0, inputs, outputs),
  reference: ([x], { permutation }, [type]) => {
    const strides = rowMajorStrides(x!.type.shape)
    const order = permutation.map((dim) => strides[dim]!)
    return [pick(type!, x!.data, offsetsOf(type!.shape, order))]
  },
  // Where only dims of size 1 change places, elements keep their order: a view, not a copy.
  onnx: ({ emit, attributes: { permutation }, inputs, inputTypes, outputTypes }) => {
    const { shape } = inputTypes[0]!
    const long = permutation.filter((dim) => shape[dim] !== 1)
    return long.every((dim, at) => at === 0 || dim > long[at - 1]!)
      ? [reshaped(emit, inputs[0]!, shape, outputTypes[0]!.shape)]
      : emit.node('Transpose', inputs, { perm: { ints: permutation } })
  },
}

export const broadcast: OpRule<'broadcast'> = {
  summary: 'repeated to a shape by the rule of elementwise ops',
  infer: (inputs, { shape }) => {
    requireOperands('broadcast', inputs, 1)
    requireSizes('broadcast', inputs, shape)
    const common = broadcastShapes([inputs[0]!.shape, shape])
    if (common === undefined || !sameShape(common, shape))
      throw shapeError('broadcast', inputs, `does not broadcast to [${shape.join(', ')}]`)
    return [tensorType(inputs[0]!.dtype, shape, broadcastAxes(inputs, shape))]
  },
  vjp: [({ builder, inputs, cotangents }) => sumTo(builder, cotangents[0]!, builder.type(inputs[0]!))],
  cost: (inputs, outputs) => costOf(0, inputs, outputs),
  reference: ([x], { shape }, [type]) => [
    pick(type!, x!.data, offsetsOf(shape, broadcastStrides(x!.type.shape, shape))),
  ],
  onnx: ({ emit, attributes: { shape }, inputs, inputTypes }) => [
    expandedTo(emit, inputs[0]!, inputTypes[0]!.shape, shape),
  ],
}
