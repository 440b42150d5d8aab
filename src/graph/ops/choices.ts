import { MeshwrightError } from '../../base/index.ts'
import type { OpRule } from '../rule.ts'
import { axesOf, elementCount, isFloat, sameShape, tensorType } from '../tensor.ts'
import type { DType, OpName, TensorType } from '../types.ts'
import { costOf } from './cost.ts'
import { zeros } from './elements.ts'
import { expandedTo, integers, one, onnxDataType } from './lowering.ts'
import { commonDType, requireOperands, requireSizes, sameLeading, shapeError } from './shapes.ts'

// Elements of each row by their place in it: which are largest, picking them, putting them back.

const floats: readonly DType[] = ['f32', 'f64']

/** Operands that have the same rows, ids of one and anything of the other. */
function checkRows(op: OpName, inputs: readonly TensorType[], ids: TensorType, other: TensorType): void {
  if (ids.dtype !== 'i32') throw shapeError(op, inputs, 'ids must be i32')
  if (!isFloat(other.dtype)) throw shapeError(op, inputs, `is not defined on ${other.dtype}`)
  const rows = ids.shape.slice(0, -1)
  if (ids.shape.length === 0 || other.shape.length !== ids.shape.length || !sameLeading(rows, other.shape))
    throw shapeError(op, inputs, 'needs as many rows of ids')
}

function checkedPlace(op: OpName, id: number, size: number): number {
  if (id < 0 || id >= size)
    throw new MeshwrightError('GRAPH_ID_RANGE', `${op}: id ${id} is outside a row of ${size} elements`)
  return id
}

export const topK: OpRule<'topK'> = {
  summary:
    'the k largest elements of each row, largest first, and their places; the lower place of equal ones',
  infer: (inputs, { k }) => {
    requireOperands('topK', inputs, 1)
    commonDType('topK', inputs, floats)
    requireSizes('topK', inputs, [k])
    const { dtype, shape } = inputs[0]!
    const size = shape.at(-1) ?? 0
    if (k < 1 || k > size) throw shapeError('topK', inputs, `a row has no ${k} largest of ${size} elements`)
    const axes = [...axesOf(inputs[0]!).slice(0, -1), '']
    const chosen = [...shape.slice(0, -1), k]
    return [tensorType(dtype, chosen, axes), tensorType('i32', chosen, axes)]
  },
  vjp: [
    ({ builder, inputs, outputs, cotangents }) => {
      const size = builder.type(inputs[0]!).shape.at(-1)!
      return builder.one('scatterElements', [outputs[1]!, cotangents[0]!], { size })
    },
  ],
  // One comparison for each element and each that is found.
  cost: (inputs, outputs, { k }) => costOf(k * elementCount(inputs[0]!.shape), inputs, outputs),
  reference: ([x], { k }, types) => {
    const [values, ids] = types.map(zeros)
    const size = x!.type.shape.at(-1)!
    for (let row = 0; row < values!.data.length / k; row++) {
      const elements = x!.data.subarray(row * size, (row + 1) * size)
      const places = Array.from(elements.keys()).sort((a, b) => elements[b]! - elements[a]! || a - b)
      for (let rank = 0; rank < k; rank++) {
        ids!.data[row * k + rank] = places[rank]!
        values!.data[row * k + rank] = elements[places[rank]!]!
      }
    }
    return [values!, ids!]
  },
  onnx: ({ emit, attributes: { k }, inputs }) => {
    const [values, ids] = emit.node(
      'TopK',
      [inputs[0]!, integers(emit, [k])],
      { axis: { int: -1 }, largest: { int: 1 }, sorted: { int: 1 } },
      { outputs: 2 },
    )
    return [values!, one(emit, 'Cast', [ids!], { to: { int: onnxDataType.i32 } })]
  },
}

export const gatherElements: OpRule<'gatherElements'> = {
  summary: 'elements of each row by their places',
  infer: (inputs) => {
    requireOperands('gatherElements', inputs, 2)
    const [x, ids] = inputs as [TensorType, TensorType]
    checkRows('gatherElements', inputs, ids, x)
    return [tensorType(x.dtype, ids.shape, [...axesOf(x).slice(0, -1), axesOf(ids).at(-1)!])]
  },
  vjp: [
    ({ builder, inputs, cotangents }) => {
      const size = builder.type(inputs[0]!).shape.at(-1)!
      return builder.one('scatterElements', [inputs[1]!, cotangents[0]!], { size })
    },
    null,
  ],
  cost: (inputs, outputs) => costOf(0, [inputs[1]!, outputs[0]!], outputs),
  reference: ([x, ids], _attributes, [type]) => {
    const result = zeros(type!)
    const size = x!.type.shape.at(-1)!
    const count = type!.shape.at(-1)!
    ids!.data.forEach((id, index) => {
      const start = Math.floor(index / count) * size
      result.data[index] = x!.data[start + checkedPlace('gatherElements', id, size)]!
    })
    return [result]
  },
  onnx: ({ emit, inputs }) => emit.node('GatherElements', inputs, { axis: { int: -1 } }),
}

export const scatterElements: OpRule<'scatterElements'> = {
  summary: 'rows of zeros to which elements are added by their places',
  infer: (inputs, { size }) => {
    requireOperands('scatterElements', inputs, 2)
    requireSizes('scatterElements', inputs, [size])
    const [ids, values] = inputs as [TensorType, TensorType]
    checkRows('scatterElements', inputs, ids, values)
    if (!sameShape(ids.shape, values.shape))
      throw shapeError('scatterElements', inputs, 'needs one value for each id')
    return [tensorType(values.dtype, [...ids.shape.slice(0, -1), size], [...axesOf(values).slice(0, -1), ''])]
  },
  vjp: [
    null,
    ({ builder, inputs, cotangents }) => builder.one('gatherElements', [cotangents[0]!, inputs[0]!], {}),
  ],
  cost: (inputs, outputs) => costOf(elementCount(inputs[1]!.shape), inputs, outputs),
  reference: ([ids, values], { size }, [type]) => {
    const result = zeros(type!)
    const count = ids!.type.shape.at(-1)!
    ids!.data.forEach((id, index) => {
      const start = Math.floor(index / count) * size
      result.data[start + checkedPlace('scatterElements', id, size)]! += values!.data[index]!
    })
    return [result]
  },
  onnx: ({ emit, inputs, outputTypes }) => {
    const { dtype, shape } = outputTypes[0]!
    const ones = shape.map(() => 1)
    const zero = expandedTo(emit, emit.constant(dtype, ones, [0]), ones, shape)
    const attributes = { axis: { int: shape.length - 1 }, reduction: { string: 'add' } }
    return emit.node('ScatterElements', [zero, inputs[0]!, inputs[1]!], attributes)
  },
}
