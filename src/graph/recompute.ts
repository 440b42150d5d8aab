import { elementCount } from './tensor.ts'
import type { Graph, Node, OpName } from './types.ts'

/**
 * What running an op a second time costs. Selective recomputation is a choice of classes; the default is what costs no
 * more than reading and writing the values would.
 */
export type RecomputeClass =
  | 'generator'
  | 'elementwise'
  | 'movement'
  | 'norm'
  | 'reduction'
  | 'table'
  | 'product'
  | 'attention'
  | 'loss'
  | 'communication'

export const defaultRecompute: readonly RecomputeClass[] = ['generator', 'elementwise', 'movement', 'norm']

/**
 * What a stage computes a second time, as a task of its own before the backward, so as not to hold it in between. This
 * is beyond the classes of ops that the backward repeats in passing.
 *
 * - `none`
 * - `attention`: the attention core, from queries, keys and values, and the passing of keys and values around a ring
 * - `full`: the blocks named, or those the predicate is true of (names are those of `Graph.blocks`): of each only what
 *   crosses its borders is held; its communication runs again too. Names that are no block of the stage mean nothing to it.
 */
export type RecomputeChoice =
  | { readonly kind: 'none' }
  | { readonly kind: 'attention' }
  | { readonly kind: 'full'; readonly blocks: ReadonlySet<string> | ((block: string) => boolean) }

const classOfOp: { readonly [K in OpName]: RecomputeClass } = {
  fill: 'generator',
  iota: 'generator',
  causalMask: 'generator',
  rotaryTable: 'generator',
  neg: 'elementwise',
  abs: 'elementwise',
  exp: 'elementwise',
  log: 'elementwise',
  sqrt: 'elementwise',
  reciprocal: 'elementwise',
  tanh: 'elementwise',
  sigmoid: 'elementwise',
  geluTanh: 'elementwise',
  not: 'elementwise',
  cast: 'elementwise',
  add: 'elementwise',
  sub: 'elementwise',
  mul: 'elementwise',
  div: 'elementwise',
  max: 'elementwise',
  min: 'elementwise',
  equal: 'elementwise',
  less: 'elementwise',
  and: 'elementwise',
  where: 'elementwise',
  geluTanhGradient: 'elementwise',
  reduceSum: 'reduction',
  reduceMax: 'reduction',
  reshape: 'movement',
  transpose: 'movement',
  broadcast: 'movement',
  slice: 'movement',
  dynamicSlice: 'movement',
  pad: 'movement',
  concat: 'movement',
  split: 'movement',
  roll: 'movement',
  matmul: 'product',
  gather: 'table',
  scatterRows: 'table',
  oneHot: 'elementwise',
  topK: 'reduction',
  gatherElements: 'table',
  scatterElements: 'table',
  assignSlots: 'table',
  // As much to read and write as a transposition.
  route: 'movement',
  softmax: 'reduction',
  layerNorm: 'norm',
  rmsNorm: 'norm',
  attention: 'attention',
  crossEntropy: 'loss',
  crossEntropyGradient: 'elementwise',
  communicate: 'communication',
}

/** Reductions and table look-ups over no more elements than this cost as little as moving them. */
const smallElements = 1 << 16

export function recomputeClass(graph: Graph, node: Node): RecomputeClass {
  const found = classOfOp[node.op]
  if (found !== 'reduction' && found !== 'table') return found
  const elements = Math.max(...node.inputs.map((input) => elementCount(graph.values[input]!.type.shape)))
  return elements <= smallElements ? 'movement' : found
}
