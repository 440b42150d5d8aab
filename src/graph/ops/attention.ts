import { internalError } from '../../base/index.ts'
import type { GraphBuilder } from '../builder.ts'
import type { OnnxContext, OpRule, VjpContext } from '../rule.ts'
import { axesOf, elementCount, sameShape, tensorType } from '../tensor.ts'
import type { FloatDType, TensorType, ValueId } from '../types.ts'
import { attentionReference } from './attentionReference.ts'
import { costOf } from './cost.ts'
import { mul, reshapeTo, sub } from './derivatives.ts'
import { emitCausalMask, maskedScore } from './generators.ts'
import { integers, one, reshaped, scalarConstant } from './lowering.ts'
import { emitMatmul } from './matmulOnnx.ts'
import { broadcastShapes, commonDType, shapeError } from './shapes.ts'

/**
 * The query heads that share a kv head are handled as more queries of that head: [...batch, kvHeads, group * queries, ...].
 * Products with keys and values then need no repetition, and sums over a group are part of the products.
 */
function groupedShape(shape: readonly number[], kvHeads: number): number[] {
  const [heads, queries, width] = shape.slice(-3) as [number, number, number]
  return [...shape.slice(0, -3), kvHeads, (heads / kvHeads) * queries, width]
}

function grouped(builder: GraphBuilder, value: ValueId, kvHeads: number): ValueId {
  const { dtype, shape } = builder.type(value)
  return reshapeTo(builder, value, tensorType(dtype, groupedShape(shape, kvHeads)))
}

function kvHeadsOf({ builder, inputs }: VjpContext<'attention'>): number {
  return builder.type(inputs[1]!).shape.at(-3)!
}

const noTranspose = { transposeA: false, transposeB: false } as const

/** Cotangents of the output and of the logSumExp; the probabilities are there for these derivatives alone. */
function cotangentsOf({ cotangents }: VjpContext<'attention'>): readonly (ValueId | undefined)[] {
  const [output, probabilities, logSumExp] = cotangents
  if (probabilities !== undefined) throw internalError('attention: its probabilities have no derivative')
  return [output, logSumExp]
}

/**
 * Cotangent of the scores over the scale, P * (dO V^T - rowsum(dO * O) + dL), grouped: Dao, "FlashAttention-2", section 2.3,
 * and the derivative of a logSumExp L, which is P.
 */
function scoreCotangent(context: VjpContext<'attention'>): ValueId {
  const { builder, inputs, outputs } = context
  const kvHeads = kvHeadsOf(context)
  const [ofOutput, ofLogSumExp] = cotangentsOf(context)
  const probabilities = grouped(builder, outputs[1]!, kvHeads)
  const rows = (value: ValueId): ValueId => {
    const { dtype, shape } = builder.type(value)
    return grouped(builder, reshapeTo(builder, value, { dtype, shape: [...shape, 1] }), kvHeads)
  }
  if (ofOutput === undefined) return mul(builder, probabilities, rows(ofLogSumExp!))
  const cotangent = grouped(builder, ofOutput, kvHeads)
  const output = grouped(builder, outputs[0]!, kvHeads)
  const last = builder.type(output).shape.length - 1
  const delta = builder.one('reduceSum', [mul(builder, cotangent, output)], { dims: [last], keepDims: true })
  const attributes = { transposeA: false, transposeB: true, scale: 1 }
  const products = builder.one('matmul', [cotangent, inputs[2]!], attributes)
  const added = ofLogSumExp === undefined ? delta : sub(builder, delta, rows(ofLogSumExp))
  return mul(builder, probabilities, sub(builder, products, added))
}

/** Types of what `infer` has found to fit. */
function outputTypes([q, k, v]: readonly TensorType[]): TensorType[] {
  const rows = q!.shape.slice(0, -1)
  const axes = axesOf(q!).slice(0, -1)
  return [
    tensorType(q!.dtype, [...rows, v!.shape.at(-1)!], [...axes, axesOf(v!).at(-1)!]),
    tensorType(q!.dtype, [...rows, k!.shape.at(-2)!], [...axes, '']),
    tensorType(q!.dtype, rows, axes),
  ]
}

export const attention: OpRule<'attention'> = {
  summary: 'softmax(scale q k^T) v for each head over the keys that are seen; query heads may share kv heads',
  infer: (inputs, { scale, causal }) => {
    const refuse = (reason: string): never => {
      throw shapeError('attention', inputs, reason)
    }
    if (inputs.length !== 3 && inputs.length !== 4)
      refuse(`needs 3 or 4 operands, was given ${inputs.length}`)
    commonDType('attention', inputs.slice(0, 3), ['f32', 'f64'])
    const [q, k, v, visible] = inputs as [TensorType, TensorType, TensorType, TensorType?]
    const rank = q.shape.length
    if (rank < 4 || k.shape.length !== rank || v.shape.length !== rank) refuse('needs four dims or more')
    const batch = q.shape.slice(0, -3)
    const [heads, queries, width] = q.shape.slice(-3) as [number, number, number]
    const [kvHeads, keys] = k.shape.slice(-3) as [number, number]
    if (!Number.isFinite(scale)) refuse('the scale must be finite')
    if ([k, v].some(({ shape }) => !sameShape(shape.slice(0, -3), batch))) refuse('the batches differ')
    if (k.shape.at(-1) !== width) refuse('queries and keys differ in width')
    if (v.shape.at(-3) !== kvHeads || v.shape.at(-2) !== keys)
      refuse('keys and values differ in heads or length')
    if (kvHeads === 0 || heads % kvHeads !== 0)
      refuse(`${heads} query heads do not divide among ${kvHeads} kv heads`)
    if (keys === 0 || (causal && keys < queries)) refuse('a query would see no key')
    if (visible !== undefined) {
      if (visible.dtype !== 'bool') refuse('what is visible must be bool')
      if (causal) refuse('which keys are visible is said twice')
      const common = broadcastShapes([visible.shape.slice(0, -2), batch])
      if (
        !sameShape(visible.shape.slice(-2), [queries, keys]) ||
        common === undefined ||
        !sameShape(common, batch)
      )
        refuse(`what is visible does not fit [${[...batch, queries, keys].join(', ')}]`)
    }
    return outputTypes(inputs)
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
      const [ofOutput] = cotangentsOf(context)
      if (ofOutput === undefined) return undefined
      const probabilities = grouped(builder, outputs[1]!, kvHeads)
      const cotangent = grouped(builder, ofOutput, kvHeads)
      return builder.one('matmul', [probabilities, cotangent], {
        transposeA: true,
        transposeB: false,
        scale: 1,
      })
    },
    null,
  ],
  // All of the score matrix is computed, masked or not. A number for each row is too little to count.
  cost: (inputs, outputs) => {
    const width = inputs[0]!.shape.at(-1)! + inputs[2]!.shape.at(-1)!
    return costOf(elementCount(outputs[1]!.shape) * (2 * width + 6), inputs, outputs.slice(0, 2))
  },
  reference: attentionReference,
  onnx: (context) => {
    const { emit, inputs, inputTypes } = context
    const v = inputs[2]!
    const [outputType, scoresType] = context.outputTypes as [TensorType, TensorType]
    const { inGroups, outOfGroups, groupedType } = groupsOf(context)
    const scores = emitScores(context)
    const probabilities = one(emit, 'Softmax', [scores], { axis: { int: -1 } })
    const seen = emitVisible(context)
    // Where nothing is seen, all keys have equal shares.
    const shares =
      seen === undefined
        ? probabilities
        : one(emit, 'Where', [seen, probabilities, scalarConstant(emit, scoresType.dtype, 0)])
    const mixTypes = [groupedType(scoresType), inputTypes[2]!, groupedType(outputType)] as const
    const mixed = emitMatmul(emit, inGroups(shares, scoresType), v, mixTypes, { ...noTranspose, scale: 1 })
    const output = outOfGroups(mixed, outputType)
    return [output, shares, context.used[2] ? emitLogSumExp(context, scores, probabilities) : '']
  },
}

function groupsOf({ emit, inputTypes }: OnnxContext<'attention'>) {
  const kvHeads = inputTypes[1]!.shape.at(-3)!
  const groupedType = (type: TensorType): TensorType =>
    tensorType(type.dtype, groupedShape(type.shape, kvHeads))
  return {
    groupedType,
    inGroups: (name: string, type: TensorType): string =>
      reshaped(emit, name, type.shape, groupedType(type).shape),
    outOfGroups: (name: string, type: TensorType): string =>
      reshaped(emit, name, groupedType(type).shape, type.shape),
  }
}

/** Scaled products, far below where a key is not seen. */
function emitScores(context: OnnxContext<'attention'>): string {
  const { emit, attributes, inputs, inputTypes, outputTypes: types } = context
  const [qType, kType] = inputTypes as [TensorType, TensorType]
  const scoresType = types[1]!
  const dtype = scoresType.dtype as FloatDType
  const [queries, keys] = scoresType.shape.slice(-2) as [number, number]
  const { inGroups, outOfGroups, groupedType } = groupsOf(context)
  const operandTypes = [groupedType(qType), kType, groupedType(scoresType)] as const
  const scored = { transposeA: false, transposeB: true, scale: attributes.scale }
  const products = emitMatmul(emit, inGroups(inputs[0]!, qType), inputs[1]!, operandTypes, scored)
  const scores = outOfGroups(products, scoresType)
  if (attributes.causal)
    return one(emit, 'Add', [scores, emitCausalMask(emit, { queries, keys, offset: keys - queries, dtype })])
  const seen = emitVisible(context)
  if (seen === undefined) return scores
  return one(emit, 'Where', [seen, scores, scalarConstant(emit, dtype, maskedScore)])
}

/** `visible` with a dim of heads, so that it broadcasts to the scores. */
function emitVisible({ emit, inputs, inputTypes }: OnnxContext<'attention'>): string | undefined {
  const shape = inputTypes[3]?.shape
  if (shape === undefined) return undefined
  return reshaped(emit, inputs[3]!, shape, shape.length === 2 ? shape : shape.toSpliced(-2, 0, 1))
}

/** Largest score less the logarithm of its probability, which needs no second pass of exponentials. */
function emitLogSumExp({ emit }: OnnxContext<'attention'>, scores: string, probabilities: string): string {
  const largest = (of: string): string =>
    one(emit, 'ReduceMax', [of, integers(emit, [-1])], { keepdims: { int: 0 } })
  return one(emit, 'Sub', [largest(scores), one(emit, 'Log', [largest(probabilities)])])
}
