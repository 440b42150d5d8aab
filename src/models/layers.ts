import { internalError } from '../base/index.ts'
import type { FloatDType, GraphBuilder, ValueId } from '../graph/index.ts'
import type { ParameterSpec } from './types.ts'

/**
 * Pieces that all families share. The residual stream is [batch, sequence, embed], so that what passes between
 * blocks keeps its logical axes; linear layers work on [tokens, features] with tokens = batch * sequence, so that
 * the gradient of a weight is one matrix product.
 */
export interface MicrobatchShape {
  readonly batch: number
  readonly sequence: number
}

/** Declares `tokens` and `labels` and returns them. */
export function declareData(
  builder: GraphBuilder,
  { batch, sequence }: MicrobatchShape,
): { readonly tokens: ValueId; readonly labels: ValueId } {
  const type = { dtype: 'i32', shape: [batch, sequence], axes: ['batch', 'sequence'] } as const
  return { tokens: builder.input('tokens', 'data', type), labels: builder.input('labels', 'data', type) }
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

/** Causal self-attention over [batch, heads, sequence, headDim], scores divided by √headDim. */
export function causalAttention(builder: GraphBuilder, q: ValueId, k: ValueId, v: ValueId): ValueId {
  const headDim = builder.type(q).shape[3]!
  return builder.one('attention', [q, k, v], { scale: 1 / Math.sqrt(headDim), causal: true })
}

/** Cross-entropy of logits [tokens, vocab], summed, as the graph's output `loss`. */
export function outputLoss(builder: GraphBuilder, logits: ValueId, labels: ValueId): void {
  const tokens = builder.type(logits).shape[0]!
  const flat = builder.one('reshape', [labels], { shape: [tokens], axes: ['tokens'] })
  builder.output('loss', builder.one('crossEntropy', [logits, flat], {}, 'loss'))
}
