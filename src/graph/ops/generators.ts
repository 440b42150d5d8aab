import type { OnnxEmitter, OpRule } from '../rule.ts'
import { elementCount, filledTensor, isFloat, tensorType } from '../tensor.ts'
import type { OpAttributes, OpName, TensorType } from '../types.ts'
import { costOf } from './cost.ts'
import { rowMajorStrides, zeros } from './elements.ts'
import { constantElements, countingConstant, expandedTo, one, scalarConstant } from './lowering.ts'
import { requireDim, requireOperands, requireSizes, shapeError } from './shapes.ts'

/**
 * What masked attention scores are set to. Finite, so that adding it to a score neither overflows float32 nor makes
 * NaN of an infinity; far enough down that its exponential is zero.
 */
export const maskedScore: number = -1e30

export const fill: OpRule<'fill'> = {
  summary: 'a constant, repeated',
  infer: (inputs, { shape, dtype, value }) => {
    requireOperands('fill', inputs, 0)
    requireSizes('fill', inputs, shape)
    // JSON, which graphs are compared and stored by, has no infinity.
    const fits = isFloat(dtype)
      ? Number.isFinite(value)
      : dtype === 'bool'
        ? value === 0 || value === 1
        : (value | 0) === value
    if (!fits) throw shapeError('fill', inputs, `${value} is not a constant of dtype ${dtype}`)
    return [tensorType(dtype, shape)]
  },
  vjp: [],
  cost: (inputs, outputs) => costOf(0, inputs, outputs),
  reference: (_inputs, { value }, [type]) => [filledTensor(type!, value)],
  onnx: ({ emit, attributes: { shape, dtype, value } }) => {
    const rankOnes = shape.map(() => 1)
    return [expandedTo(emit, emit.constant(dtype, rankOnes, [value]), rankOnes, shape)]
  },
}

export const iota: OpRule<'iota'> = {
  summary: 'counts 0, 1, … along a dim',
  infer: (inputs, { shape, dtype, dim }) => {
    requireOperands('iota', inputs, 0)
    requireSizes('iota', inputs, shape)
    requireDim('iota', inputs, dim, shape.length)
    if (dtype === 'bool') throw shapeError('iota', inputs, 'is not defined on bool')
    return [tensorType(dtype, shape)]
  },
  vjp: [],
  cost: (inputs, outputs) => costOf(0, inputs, outputs),
  reference: (_inputs, { shape, dim }, [type]) => {
    const result = zeros(type!)
    const stride = rowMajorStrides(shape)[dim]!
    const size = shape[dim]!
    for (let index = 0; index < result.data.length; index++)
      result.data[index] = Math.floor(index / stride) % size
    return [result]
  },
  onnx: ({ emit, attributes: { shape, dtype, dim } }) => {
    const counted = shape.map((size, other) => (other === dim ? size : 1))
    return [expandedTo(emit, countingConstant(emit, dtype, counted), counted, shape)]
  },
}

/** The type of a float table with two dims made from nothing. */
function tableType(op: OpName, inputs: readonly TensorType[], type: TensorType): TensorType[] {
  requireOperands(op, inputs, 0)
  requireSizes(op, inputs, type.shape)
  if (!isFloat(type.dtype)) throw shapeError(op, inputs, `is not defined on ${type.dtype}`)
  return [type]
}

export const causalMask: OpRule<'causalMask'> = {
  summary: 'zero up to the diagonal, a very large negative number beyond it',
  infer: (inputs, { queries, keys, offset, dtype }) => {
    if (!Number.isSafeInteger(offset)) throw shapeError('causalMask', inputs, `${offset} is not an offset`)
    return tableType('causalMask', inputs, tensorType(dtype, [queries, keys]))
  },
  vjp: [],
  cost: (inputs, outputs) => costOf(0, inputs, outputs),
  reference: (_inputs, { queries, keys, offset }, [type]) => {
    const result = zeros(type!)
    for (let query = 0; query < queries; query++)
      for (let key = Math.max(0, query + offset + 1); key < keys; key++)
        result.data[query * keys + key] = maskedScore
    return [result]
  },
  onnx: ({ emit, attributes }) => [emitCausalMask(emit, attributes)],
}

/** The mask as a constant of the model, or computed from its rows and columns where it would be a large one. */
export function emitCausalMask(
  emit: OnnxEmitter,
  { queries, keys, offset, dtype }: OpAttributes['causalMask'],
): string {
  if (queries * keys <= constantElements) {
    const mask = new Float64Array(queries * keys)
    for (let index = 0; index < mask.length; index++)
      if (index % keys > Math.floor(index / keys) + offset) mask[index] = maskedScore
    return emit.constant(dtype, [queries, keys], mask)
  }
  const lastSeen = Array.from({ length: queries }, (_, query) => query + offset)
  const hidden = one(emit, 'Less', [
    emit.constant('i32', [queries, 1], lastSeen),
    countingConstant(emit, 'i32', [1, keys]),
  ])
  const values = [maskedScore, 0].map((value) => scalarConstant(emit, dtype, value))
  return one(emit, 'Where', [hidden, ...values])
}

export const rotaryTable: OpRule<'rotaryTable'> = {
  summary: 'cos or sin of position times frequency',
  infer: (inputs, { positions, offset, frequencies, dtype }) => {
    if (![offset, ...frequencies].every(Number.isFinite))
      throw shapeError('rotaryTable', inputs, 'offset and frequencies must be finite')
    return tableType('rotaryTable', inputs, tensorType(dtype, [positions, frequencies.length]))
  },
  vjp: [],
  cost: (inputs, outputs) => costOf(2 * elementCount(outputs[0]!.shape), inputs, outputs),
  reference: (_inputs, { part, offset, frequencies }, [type]) => {
    const result = zeros(type!)
    const wave = part === 'cos' ? Math.cos : Math.sin
    const columns = frequencies.length
    for (let index = 0; index < result.data.length; index++)
      result.data[index] = wave((offset + Math.floor(index / columns)) * frequencies[index % columns]!)
    return [result]
  },
  // Angles reach thousands of radians, where float32 has no digits left: computed here, in double, for both dtypes.
  onnx: ({ emit, attributes: { part, positions, offset, frequencies, dtype } }) => {
    const wave = part === 'cos' ? Math.cos : Math.sin
    const rows = Array.from({ length: positions }, (_, position) =>
      frequencies.map((frequency) => wave((offset + position) * frequency)),
    )
    return [emit.constant(dtype, [positions, frequencies.length], rows.flat())]
  },
}
