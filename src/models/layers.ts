import { internalError } from '../base/index.ts'
import type { FloatDType, GraphBuilder, ValueId } from '../graph/index.ts'
import type { BuildOptions, ParameterSpec } from './types.ts'
import { visibleKeys } from './visibility.ts'

/**
 * Pieces that all families share. The residual stream is [batch, sequence, embed], so that what passes between
 * blocks keeps its logical axes; linear layers work on [tokens, features] with tokens = batch * sequence, so that
 * the gradient of a weight is one matrix product.
 */
export interface MicrobatchShape {
  readonly batch: number
  readonly sequence: number
}

/**
 * Declares `tokens` and `labels` and returns them; with `documents` that too, and which keys a query then sees
 * [batch, sequence, sequence].
 */
export function declareData(
  builder: GraphBuilder,
  { batch, sequence, documents = false }: BuildOptions,
): { readonly tokens: ValueId; readonly labels: ValueId; readonly visible: ValueId | undefined } {
  const type = { dtype: 'i32', shape: [batch, sequence], axes: ['batch', 'sequence'] } as const
  const [tokens, labels] = [builder.input('tokens', 'data', type), builder.input('labels', 'data', type)]
  const visible = documents ? visibleKeys(builder, builder.input('documents', 'data', type), true) : undefined
  return { tokens, labels, visible }
}

/** Declares every parameter and returns how to find one by its full name. */
export function declareParameters(
  builder: GraphBuilder,
  parameters: readonly ParameterSpec[],
  dtype: FloatDType,
): (name: string) => ValueId {
  const values = new Map(
    parameters.map(({ name, shape, axes }) => [
      name,
      builder.input(name, 'parameter', { dtype, shape, axes }),
    ]),
  )
  return (name) => {
    const value = values.get(name)
    if (value === undefined) throw internalError(`no parameter ${name}`)
    return value
  }
}

/** [batch, sequence, features] -> [tokens, features] */
export function flattenTokens(builder: GraphBuilder, x: ValueId): ValueId {
  const { shape, axes } = builder.type(x)
  const [batch, sequence, features] = shape
  return builder.one('reshape', [x], {
    shape: [batch! * sequence!, features!],
    axes: ['tokens', axes?.[2] ?? ''],
  })
}

/** [tokens, features] -> [batch, sequence, features] */
export function unflattenTokens(
  builder: GraphBuilder,
  x: ValueId,
  { batch, sequence }: MicrobatchShape,
  axis: string,
): ValueId {
  const features = builder.type(x).shape[1]!
  return builder.one('reshape', [x], {
    shape: [batch, sequence, features],
    axes: ['batch', 'sequence', axis],
  })
}

/** [tokens, heads * headDim] -> [batch, heads, sequence, headDim] */
export function splitHeads(
  builder: GraphBuilder,
  x: ValueId,
  { batch, sequence }: MicrobatchShape,
  heads: number,
  axis: 'heads' | 'kvHeads',
): ValueId {
  const headDim = builder.type(x).shape[1]! / heads
  const apart = builder.one('reshape', [x], {
    shape: [batch, sequence, heads, headDim],
    axes: ['batch', 'sequence', axis, 'headDim'],
  })
  return builder.one('transpose', [apart], { permutation: [0, 2, 1, 3] })
}

/** [batch, heads, sequence, headDim] -> [tokens, heads * headDim] */
export function mergeHeads(builder: GraphBuilder, x: ValueId): ValueId {
  const [batch, heads, sequence, headDim] = builder.type(x).shape
  const together = builder.one('transpose', [x], { permutation: [0, 2, 1, 3] })
  return builder.one('reshape', [together], {
    shape: [batch! * sequence!, heads! * headDim!],
    axes: ['tokens', 'heads'],
  })
}

/** x [tokens, in] times a weight held as [in, out], or [out, in] where `transposed`; plus a bias [out] if given. */
export function linear(
  builder: GraphBuilder,
  x: ValueId,
  weight: ValueId,
  options: { readonly transposed: boolean; readonly bias?: ValueId; readonly name?: string },
): ValueId {
  const product = builder.one(
    'matmul',
    [x, weight],
    { transposeA: false, transposeB: options.transposed, scale: 1 },
    options.name,
  )
  return options.bias === undefined ? product : builder.one('add', [product, options.bias], {})
}

/**
 * Self-attention over [batch, heads, sequence, headDim], scores divided by √headDim and times `scoreFactor`: causal,
 * unless `visible` says which keys each query sees.
 */
export function selfAttention(
  builder: GraphBuilder,
  operands: readonly (ValueId | undefined)[],
  visible: ValueId | undefined,
  scoreFactor = 1,
): ValueId {
  const [q, k, v] = operands as [ValueId, ValueId, ValueId]
  const scale = scoreFactor / Math.sqrt(builder.type(q).shape[3]!)
  return visible === undefined
    ? builder.one('attention', [q, k, v], { scale, causal: true })
    : builder.one('attention', [q, k, v, visible], { scale, causal: false })
}

/**
 * Cross-entropy of logits [tokens, vocab], summed, as the graph's output `loss`; plus an auxiliary loss of each sample
 * [batch] if given.
 */
export function outputLoss(
  builder: GraphBuilder,
  logits: ValueId,
  labels: ValueId,
  auxiliary?: ValueId,
): void {
  const tokens = builder.type(logits).shape[0]!
  const flat = builder.one('reshape', [labels], { shape: [tokens], axes: ['tokens'] })
  if (auxiliary === undefined) {
    builder.output('loss', builder.one('crossEntropy', [logits, flat], {}, 'loss'))
    return
  }
  const predicted = builder.one('crossEntropy', [logits, flat], {}, 'crossEntropy')
  const added = builder.one('reduceSum', [auxiliary], { dims: [0], keepDims: false })
  builder.output('loss', builder.one('add', [predicted, added], {}, 'loss'))
}
