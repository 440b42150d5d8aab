import {
  type FloatDType,
  type Graph,
  type GraphBuilder,
  type OpAttributes,
  type OpName,
  rewriteGraph,
  type TensorType,
  type ValueId,
} from '../../graph/index.ts'

/** Composite ops over a dim that their own rule wants whole. */
export type DecomposedName = 'softmax' | 'layerNorm' | 'rmsNorm' | 'crossEntropy'

interface DecompositionContext<K extends OpName> {
  readonly builder: GraphBuilder
  readonly attributes: OpAttributes[K]
  readonly inputs: readonly ValueId[]
}

type Decompositions = {
  readonly [K in DecomposedName]: (context: DecompositionContext<K>) => readonly ValueId[]
}

/**
 * The op as smaller ones, which can be cut along its last dim: what a rank sums or finds largest of its own part is a
 * term, reduced where the next op needs it whole. Same results, all of them, also with the dim whole.
 */
const decompositions: Decompositions = {
  softmax: ({ builder, inputs }) => {
    const { exponentials, sum } = exponentialsOf(builder, inputs[0]!)
    return builder.op('div', [exponentials, sum], {})
  },
  layerNorm: ({ builder, attributes: { epsilon }, inputs }) => {
    const [x, weight, bias] = inputs as [ValueId, ValueId, ValueId]
    const mean = lastMean(builder, x)
    const centred = builder.one('sub', [x, mean], {})
    const inverse = inverseRoot(builder, centred, epsilon)
    const scaled = builder.one('mul', [builder.one('mul', [centred, inverse], {}), weight], {})
    return [builder.one('add', [scaled, bias], {}), mean, inverse]
  },
  rmsNorm: ({ builder, attributes: { epsilon }, inputs }) => {
    const [x, weight] = inputs as [ValueId, ValueId]
    const inverse = inverseRoot(builder, x, epsilon)
    return [builder.one('mul', [builder.one('mul', [x, inverse], {}), weight], {}), inverse]
  },
  // As in Megatron-LM's vocabulary-parallel loss, but that the label's logit stays a term up to the sum over rows.
  crossEntropy: ({ builder, inputs }) => {
    const [logits, labels] = inputs as [ValueId, ValueId]
    const { shape, dtype } = builder.type(logits) as TensorType & { dtype: FloatDType }
    const rows = shape.slice(0, -1)
    const { shifted, exponentials, sum } = exponentialsOf(builder, logits)
    const ones = rows.map(() => 1)
    const counting = { shape: [...ones, shape.at(-1)!], dtype: 'i32', dim: rows.length } as const
    const column = builder.one('reshape', [labels], { shape: [...rows, 1] })
    const isLabel = builder.one('equal', [builder.one('iota', [], counting), column], {})
    const zero = builder.one('fill', [], { shape: [], dtype, value: 0 })
    const picked = builder.one('where', [isLabel, shifted, zero], {})
    const label = builder.one('reduceSum', [picked], { dims: [rows.length], keepDims: false })
    const denominator = builder.one('reshape', [builder.one('log', [sum], {})], { shape: rows })
    const losses = builder.one('sub', [denominator, label], {})
    const none = builder.one('fill', [], { shape: [], dtype: 'i32', value: 0 })
    const counted = builder.one('where', [builder.one('less', [labels, none], {}), zero, losses], {})
    const loss = builder.one('reduceSum', [counted], { dims: [...rows.keys()], keepDims: false })
    return [loss, builder.one('div', [exponentials, sum], {})]
  },
}

/** What `op` is in smaller ops; undefined where it is none of those that are cut so. */
export function decompose(
  builder: GraphBuilder,
  op: OpName,
  attributes: OpAttributes[OpName],
  inputs: readonly ValueId[],
): readonly ValueId[] | undefined {
  const found = (decompositions as unknown as Partial<Record<OpName, Decompositions['softmax']>>)[op]
  return found?.({ builder, attributes, inputs })
}

/** The graph with those of its nodes decomposed that `wants` names by index and that are of such an op. */
export function decomposeNodes(graph: Graph, wants: (node: number) => boolean): Graph {
  return rewriteGraph(graph, {
    node: ({ builder, node: { op, attributes }, index, operands }) =>
      wants(index) ? decompose(builder, op, attributes, operands) : undefined,
  })
}

function exponentialsOf(builder: GraphBuilder, x: ValueId) {
  const over = { dims: [lastDim(builder, x)], keepDims: true }
  const shifted = builder.one('sub', [x, builder.one('reduceMax', [x], over)], {})
  const exponentials = builder.one('exp', [shifted], {})
  return { shifted, exponentials, sum: builder.one('reduceSum', [exponentials], over) }
}

function lastDim(builder: GraphBuilder, x: ValueId): number {
  return builder.type(x).shape.length - 1
}

/** Mean over the last dim, kept with size 1. */
function lastMean(builder: GraphBuilder, x: ValueId): ValueId {
  const { shape, dtype } = builder.type(x)
  const sum = builder.one('reduceSum', [x], { dims: [lastDim(builder, x)], keepDims: true })
  const share = builder.one('fill', [], { shape: [], dtype, value: 1 / shape.at(-1)! })
  return builder.one('mul', [sum, share], {})
}

/** 1 / sqrt(mean square + epsilon) */
function inverseRoot(builder: GraphBuilder, x: ValueId, epsilon: number): ValueId {
  const square = lastMean(builder, builder.one('mul', [x, x], {}))
  const small = builder.one('fill', [], { shape: [], dtype: builder.type(x).dtype, value: epsilon })
  return builder.one('reciprocal', [builder.one('sqrt', [builder.one('add', [square, small], {})], {})], {})
}
