import type { GraphBuilder } from '../builder.ts'
import type { OpRule, VjpContext } from '../rule.ts'
import { axesOf, tensorType } from '../tensor.ts'
import type { FloatDType, TensorType, ValueId } from '../types.ts'
import { costOf } from './cost.ts'
import { mul, onlyFirstCotangent, reshapeTo, sub } from './derivatives.ts'
import { zeros } from './elements.ts'
import { emitCausalMask } from './generators.ts'
import { one, reshaped } from './lowering.ts'
import { emitMatmul } from './matmulOnnx.ts'
import { commonDType, requireOperands, shapeError } from './shapes.ts'

/**
 * The query heads that share a kv head are handled as more queries of that head: [b, kvHeads, group * queries, ...].
 * Products with keys and values then need no repetition, and sums over a group are part of the products.
 */
function groupedShape(shape: readonly number[], kvHeads: number): number[] {
  const [batch, heads, queries, width] = shape as [number, number, number, number]
  return [batch, kvHeads, (heads / kvHeads) * queries, width]
}

function grouped(builder: GraphBuilder, value: ValueId, kvHeads: number): ValueId {
  const { dtype, shape } = builder.type(value)
  return reshapeTo(builder, value, tensorType(dtype, groupedShape(shape, kvHeads)))
}

function kvHeadsOf({ builder, inputs }: VjpContext<'attention'>): number {
  return builder.type(inputs[1]!).shape[1]!
}

const noTranspose = { transposeA: false, transposeB: false } as const

/** Cotangent of the scores over the scale, P * (dO V^T - rowsum(dO * O)), grouped: Dao, "FlashAttention-2", section 2.3. */
function scoreCotangent(context: VjpContext<'attention'>): ValueId {
  const { builder, inputs, outputs } = context
  const kvHeads = kvHeadsOf(context)
  const cotangent = grouped(builder, onlyFirstCotangent('attention', context), kvHeads)
  const output = grouped(builder, outputs[0]!, kvHeads)
  const probabilities = grouped(builder, outputs[1]!, kvHeads)
  const delta = builder.one('reduceSum', [mul(builder, cotangent, output)], { dims: [3], keepDims: true })
  const attributes = { transposeA: false, transposeB: true, scale: 1 }
  const products = builder.one('matmul', [cotangent, inputs[2]!], attributes)
  return mul(builder, probabilities, sub(builder, products, delta))
}

export const attention: OpRule<'attention'> = {
  summary: 'softmax(scale q k^T) v for each head, causal or not; query heads may share kv heads',
  infer: (inputs, { scale, causal }) => {
    requireOperands('attention', inputs, 3)
    const dtype = commonDType('attention', inputs, ['f32', 'f64'])
    const [q, k, v] = inputs as [TensorType, TensorType, TensorType]
    if (inputs.some((input) => input.shape.length !== 4))
      throw shapeError('attention', inputs, 'needs four dims')
    const [batch, heads, queries, width] = q.shape as [number, number, number, number]
    const [, kvHeads, keys] = k.shape as [number, number, number]
    if (!Number.isFinite(scale)) throw shapeError('attention', inputs, 'the scale must be finite')
    if (k.shape[0] !== batch || v.shape[0] !== batch)
      throw shapeError('attention', inputs, 'the batches differ')
    if (k.shape[3] !== width) throw shapeError('attention', inputs, 'queries and keys differ in width')
    if (v.shape[1] !== kvHeads || v.shape[2] !== keys)
      throw shapeError('attention', inputs, 'keys and values differ in heads or length')
    if (kvHeads === 0 || heads % kvHeads !== 0)
      throw shapeError('attention', inputs, `${heads} query heads do not divide among ${kvHeads} kv heads`)
    if (keys === 0 || (causal && keys < queries))
      throw shapeError('attention', inputs, 'a query would see no key')
    const axes = axesOf(q)
    return [
      tensorType(dtype, [batch, heads, queries, v.shape[3]!], [...axes.slice(0, 3), axesOf(v)[3]!]),
      tensorType(dtype, [batch, heads, queries, keys], [...axes.slice(0, 3), '']),
    ]
  },
  vjp: [
    (context) => {
      const { builder, attributes, inputs } = context
      const scores = scoreCotangent(context)
      const product = builder.one('matmul', [scores, inputs[1]!], { ...noTranspose, scale: attributes.scale })
      return reshapeTo(builder, product, builder.type(inputs[0]!))
    },
    (context) => {
      const { builder, attributes, inputs } = context
      const queries = grouped(builder, inputs[0]!, kvHeadsOf(context))
      const transposed = { transposeA: true, transposeB: false, scale: attributes.scale }
      return builder.one('matmul', [scoreCotangent(context), queries], transposed)
    },
    (context) => {
      const { builder, outputs } = context
      const kvHeads = kvHeadsOf(context)
      const probabilities = grouped(builder, outputs[1]!, kvHeads)
      const cotangent = grouped(builder, onlyFirstCotangent('attention', context), kvHeads)
      return builder.one('matmul', [probabilities, cotangent], {
        transposeA: true,
        transposeB: false,
        scale: 1,
      })
    },
  ],
  // All of the score matrix is computed, masked or not.
  cost: (inputs, outputs) => {
    const [batch, heads, queries, keys] = outputs[1]!.shape as [number, number, number, number]
    const width = inputs[0]!.shape[3]! + inputs[2]!.shape[3]!
    return costOf(batch * heads * queries * keys * (2 * width + 6), inputs, outputs)
  },
  reference: ([q, k, v], { scale, causal }, types) => {
    const [output, probabilities] = types.map(zeros)
    const [batch, heads, queries, width] = q!.type.shape as [number, number, number, number]
    const [, kvHeads, keys] = k!.type.shape as [number, number, number]
    const valueWidth = v!.type.shape[3]!
    for (let row = 0; row < batch * heads * queries; row++) {
      const query = row % queries
      const head = Math.floor(row / queries) % heads
      const sample = Math.floor(row / queries / heads)
      const firstKey = (sample * kvHeads + Math.floor(head / (heads / kvHeads))) * keys
      const seen = causal ? query + keys - queries + 1 : keys
      const weights = probabilities!.data.subarray(row * keys, row * keys + seen)
      let largest = Number.NEGATIVE_INFINITY
      for (let key = 0; key < seen; key++) {
        let score = 0
        for (let at = 0; at < width; at++)
          score += q!.data[row * width + at]! * k!.data[(firstKey + key) * width + at]!
        weights[key] = score * scale
        largest = Math.max(largest, score * scale)
      }
      let sum = 0
      for (let key = 0; key < seen; key++) {
        weights[key] = Math.exp(weights[key]! - largest)
        sum += weights[key]!
      }
      for (let key = 0; key < seen; key++) {
        weights[key]! /= sum
        for (let at = 0; at < valueWidth; at++)
          output!.data[row * valueWidth + at]! += weights[key]! * v!.data[(firstKey + key) * valueWidth + at]!
      }
    }
    return [output!, probabilities!]
  },
  onnx: (context) => {
    const { emit, attributes, inputs, inputTypes, outputTypes } = context
    const [q, k, v] = inputs as [string, string, string]
    const dtype = inputTypes[0]!.dtype as FloatDType
    const [, kvHeads, keys] = inputTypes[1]!.shape as [number, number, number]
    const queries = inputTypes[0]!.shape[2]!
    const groupedType = (type: TensorType): TensorType => tensorType(dtype, groupedShape(type.shape, kvHeads))
    const inGroups = (name: string, type: TensorType): string =>
      reshaped(emit, name, type.shape, groupedType(type).shape)
    const outOfGroups = (name: string, type: TensorType): string =>
      reshaped(emit, name, groupedType(type).shape, type.shape)
    const [qType, kType, vType] = inputTypes as [TensorType, TensorType, TensorType]
    const [outputType, scoresType] = outputTypes as [TensorType, TensorType]
    const scoreTypes = [groupedType(qType), kType, groupedType(scoresType)] as const
    const scored = { transposeA: false, transposeB: true, scale: attributes.scale }
    let scores = outOfGroups(emitMatmul(emit, inGroups(q, qType), k, scoreTypes, scored), scoresType)
    if (attributes.causal)
      scores = one(emit, 'Add', [
        scores,
        emitCausalMask(emit, { queries, keys, offset: keys - queries, dtype }),
      ])
    const probabilities = one(emit, 'Softmax', [scores], { axis: { int: -1 } })
    const mixTypes = [groupedType(scoresType), vType, groupedType(outputType)] as const
    const mixed = emitMatmul(emit, inGroups(probabilities, scoresType), v, mixTypes, {
      ...noTranspose,
      scale: 1,
    })
    return [outOfGroups(mixed, outputType), probabilities]
  },
}
