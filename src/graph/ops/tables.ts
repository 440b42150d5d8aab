import { MeshwrightError } from '../../base/index.ts'
import type { OpRule } from '../rule.ts'
import { axesOf, elementCount, isFloat, tensorType } from '../tensor.ts'
import type { OpName, Tensor } from '../types.ts'
import { costOf } from './cost.ts'
import { zeros } from './elements.ts'
import { countingConstant, expandedTo, integers, one, onnxDataType } from './lowering.ts'
import { requireOperands, requireSizes, sameLeading, shapeError } from './shapes.ts'

function checkedId(op: OpName, id: number, rows: number): number {
  if (id < 0 || id >= rows)
    throw new MeshwrightError('GRAPH_ID_RANGE', `${op}: id ${id} is outside a table of ${rows} rows`)
  return id
}

export const gather: OpRule<'gather'> = {
  summary: 'rows of a table by id',
  infer: (inputs) => {
    requireOperands('gather', inputs, 2)
    const [table, ids] = inputs
    if (ids!.dtype !== 'i32') throw shapeError('gather', inputs, 'ids must be i32')
    if (table!.shape.length === 0) throw shapeError('gather', inputs, 'the table needs a dim of rows')
    const shape = [...ids!.shape, ...table!.shape.slice(1)]
    return [tensorType(table!.dtype, shape, [...axesOf(ids!), ...axesOf(table!).slice(1)])]
  },
  vjp: [({ inputs, cotangents }) => ({ rows: { ids: inputs[1]!, values: cotangents[0]! } }), null],
  // Only the rows asked for are read.
  cost: (inputs, outputs) => costOf(0, [inputs[1]!, outputs[0]!], outputs),
  reference: ([table, ids], _attributes, [type]) => {
    const result = zeros(type!)
    const rows = table!.type.shape[0]!
    const width = elementCount(table!.type.shape.slice(1))
    ids!.data.forEach((id, index) => {
      const start = checkedId('gather', id, rows) * width
      result.data.set(table!.data.subarray(start, start + width), index * width)
    })
    return [result]
  },
  onnx: ({ emit, inputs }) => emit.node('Gather', inputs, { axis: { int: 0 } }),
}

export const scatterRows: OpRule<'scatterRows'> = {
  summary: 'a table of zeros to which rows are added by id',
  infer: (inputs, { rows }) => {
    requireOperands('scatterRows', inputs, 2)
    requireSizes('scatterRows', inputs, [rows])
    const [ids, values] = inputs
    if (ids!.dtype !== 'i32') throw shapeError('scatterRows', inputs, 'ids must be i32')
    if (!isFloat(values!.dtype)) throw shapeError('scatterRows', inputs, 'values must be floats')
    if (!sameLeading(ids!.shape, values!.shape))
      throw shapeError('scatterRows', inputs, 'needs one row of values for each id')
    const rank = ids!.shape.length
    const axes = ['', ...axesOf(values!).slice(rank)]
    return [tensorType(values!.dtype, [rows, ...values!.shape.slice(rank)], axes)]
  },
  vjp: [null, ({ builder, inputs, cotangents }) => builder.one('gather', [cotangents[0]!, inputs[0]!], {})],
  cost: (inputs, outputs) => costOf(elementCount(inputs[1]!.shape), inputs, outputs),
  reference: ([ids, values], { rows }, [type]) => {
    const result = zeros(type!)
    const width = elementCount(type!.shape.slice(1))
    ids!.data.forEach((id, index) => {
      const start = checkedId('scatterRows', id, rows) * width
      for (let column = 0; column < width; column++)
        result.data[start + column]! += values!.data[index * width + column]!
    })
    return [result]
  },
  onnx: ({ emit, inputs, inputTypes, outputTypes }) => {
    const { dtype, shape } = outputTypes[0]!
    const ones = shape.map(() => 1)
    const zero = expandedTo(emit, emit.constant(dtype, ones, [0]), ones, shape)
    const wide = one(emit, 'Cast', [inputs[0]!], { to: { int: onnxDataType.i64 } })
    const indices = one(emit, 'Unsqueeze', [wide, integers(emit, [inputTypes[0]!.shape.length])])
    return emit.node('ScatterND', [zero, indices, inputs[1]!], { reduction: { string: 'add' } })
  },
}

export const oneHot: OpRule<'oneHot'> = {
  summary: 'a row with 1 at the id and 0 elsewhere; all zeros for an id outside',
  infer: (inputs, { depth, dtype }) => {
    requireOperands('oneHot', inputs, 1)
    requireSizes('oneHot', inputs, [depth])
    if (inputs[0]!.dtype !== 'i32') throw shapeError('oneHot', inputs, 'ids must be i32')
    if (!isFloat(dtype)) throw shapeError('oneHot', inputs, `is not defined as ${dtype}`)
    return [tensorType(dtype, [...inputs[0]!.shape, depth], [...axesOf(inputs[0]!), ''])]
  },
  vjp: [null],
  cost: (inputs, outputs) => costOf(0, inputs, outputs),
  reference: ([ids], { depth }, [type]) => {
    const result: Tensor = zeros(type!)
    ids!.data.forEach((id, index) => {
      if (id >= 0 && id < depth) result.data[index * depth + id] = 1
    })
    return [result]
  },
  // ONNX Runtime's OneHot has no float64 kernel.
  onnx: ({ emit, attributes: { depth, dtype }, inputs, inputTypes }) => {
    const columns = countingConstant(emit, 'i32', [depth])
    const ids = one(emit, 'Unsqueeze', [inputs[0]!, integers(emit, [inputTypes[0]!.shape.length])])
    return emit.node('Cast', [one(emit, 'Equal', [ids, columns])], { to: { int: onnxDataType[dtype] } })
  },
}
