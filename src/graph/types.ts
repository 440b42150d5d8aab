/**
 * The mathematics of one micro-batch: typed values, ops from a closed set, named inputs and outputs. A graph knows
 * nothing of devices; block marks on nodes say where a task *may* be cut.
 */

export type DType = 'f32' | 'f64' | 'i32' | 'bool'
export type FloatDType = 'f32' | 'f64'

export interface TensorType {
  readonly dtype: DType
  readonly shape: readonly number[]
  /** Logical axis name of each dim (`batch`, `sequence`, `embed`, `heads`, `mlp`, `vocab`, …), '' where it has none. */
  readonly axes?: readonly string[]
}

/** Index into `Graph.values`. */
export type ValueId = number

export interface Value {
  readonly type: TensorType
  /** A hint for reading and for names of residuals; never part of a graph's identity. */
  readonly name?: string
}

/** Attributes of every op. The op tables are mapped types over this, so a new op is a compile error until it is complete. */
export interface OpAttributes {
  // 1. Made from nothing. `shape` is the output's.
  fill: { readonly shape: readonly number[]; readonly dtype: DType; readonly value: number }
  /** Counts 0, 1, … along `dim`. */
  iota: { readonly shape: readonly number[]; readonly dtype: DType; readonly dim: number }
  /** [queries, keys]: 0 where key position <= query position + offset, a very large negative number elsewhere. */
  causalMask: {
    readonly queries: number
    readonly keys: number
    readonly offset: number
    readonly dtype: FloatDType
  }
  /** [positions, frequencies] table of cos or sin of (offset + position) * frequency, as rotary embeddings use. */
  rotaryTable: {
    readonly part: 'cos' | 'sin'
    readonly positions: number
    readonly offset: number
    readonly frequencies: readonly number[]
    readonly dtype: FloatDType
  }

  // 2. Elementwise, one operand.
  neg: Empty
  abs: Empty
  exp: Empty
  log: Empty
  sqrt: Empty
  reciprocal: Empty
  tanh: Empty
  sigmoid: Empty
  /** GELU in its tanh form, as GPT-2 has it. */
  geluTanh: Empty
  not: Empty
  cast: { readonly dtype: DType }

  // 3. Elementwise, numpy broadcasting.
  add: Empty
  sub: Empty
  mul: Empty
  div: Empty
  max: Empty
  min: Empty
  /** Comparisons give bool. */
  equal: Empty
  less: Empty
  and: Empty
  /** (condition bool, then, otherwise) */
  where: Empty
  /** (x, gelu(x), cotangent) -> cotangent * gelu'(x) */
  geluTanhGradient: Empty

  // 4. Reductions. Dims ascending, not negative.
  reduceSum: { readonly dims: readonly number[]; readonly keepDims: boolean }
  reduceMax: { readonly dims: readonly number[]; readonly keepDims: boolean }

  // 5. Movement of elements.
  reshape: { readonly shape: readonly number[]; readonly axes?: readonly string[] }
  transpose: { readonly permutation: readonly number[] }
  broadcast: { readonly shape: readonly number[] }
  /** Half-open ranges, one a dim. */
  slice: { readonly starts: readonly number[]; readonly ends: readonly number[] }
  /** Zeros around. */
  pad: { readonly before: readonly number[]; readonly after: readonly number[] }
  concat: { readonly dim: number }
  /** One output for each size. */
  split: { readonly dim: number; readonly sizes: readonly number[] }

  // 6. Products and tables.
  /** Last two dims, leading dims broadcast; result times `scale`. */
  matmul: { readonly transposeA: boolean; readonly transposeB: boolean; readonly scale: number }
  /** (table [rows, ...], ids i32 [...]) -> [...ids, ...row] */
  gather: Empty
  /** (ids i32 [n...], values [n..., ...row]) -> dense [rows, ...row], repeated ids added in order. */
  scatterRows: { readonly rows: number }
  /** ids i32 [...] -> [..., depth] of 0 and 1; an id outside gives zeros. */
  oneHot: { readonly depth: number; readonly dtype: FloatDType }

  // 7. Composites that every backend has a fast form of.
  /** Over the last dim. */
  softmax: Empty
  /** (x, weight, bias) -> y, mean [..., 1], inverse standard deviation [..., 1]; over the last dim. */
  layerNorm: { readonly epsilon: number }
  /** (x, weight) -> y, inverse root mean square [..., 1]; over the last dim. */
  rmsNorm: { readonly epsilon: number }
  /**
   * (q [b, heads, queries, d], k [b, kvHeads, keys, d], v [b, kvHeads, keys, dv]) -> output [b, heads, queries, dv],
   * probabilities [b, heads, queries, keys]. Query head h uses kv head floor(h / (heads / kvHeads)). With `causal`,
   * query i sees keys 0 .. i + keys - queries.
   */
  attention: { readonly scale: number; readonly causal: boolean }
  /**
   * (logits [..., vocab], labels i32 [...]) -> *summed* loss as a scalar, probabilities [..., vocab]. A negative label
   * is not counted.
   */
  crossEntropy: Empty
  /**
   * (probabilities [..., vocab], labels i32 [...]) -> probabilities, less 1 at each label that is not negative: the
   * derivative of a row's loss, before it is known which rows count.
   */
  crossEntropyGradient: Empty
}

// biome-ignore lint/complexity/noBannedTypes: exactly "no attributes"
export type Empty = {}

export type OpName = keyof OpAttributes

interface NodeOf<K extends OpName> {
  readonly op: K
  readonly attributes: OpAttributes[K]
  readonly inputs: readonly ValueId[]
  readonly outputs: readonly ValueId[]
  /** Index into `Graph.blocks`; -1 where it belongs to none (may be cloned to wherever it is used). */
  readonly block: number
}

export type Node = { [K in OpName]: NodeOf<K> }[OpName]

/**
 * - `data`: comes with the batch (tokens, labels), integers
 * - `parameter`: a trained tensor, by its full dotted name
 * - `activation`: a float value from another stage, or a residual of the forward
 * - `cotangent`: the derivative of the loss with respect to the value it is named after
 * - `state`: an optimizer's buffer
 * - `scalar`: a value of shape [] given for each step (learning rate, loss scale, …)
 */
export type InputKind = 'data' | 'parameter' | 'activation' | 'cotangent' | 'state' | 'scalar'

export interface GraphInput {
  readonly name: string
  readonly kind: InputKind
  readonly value: ValueId
}

export interface GraphOutput {
  readonly name: string
  readonly value: ValueId
}

export interface Graph {
  readonly values: readonly Value[]
  readonly inputs: readonly GraphInput[]
  /** In topological order. */
  readonly nodes: readonly Node[]
  readonly outputs: readonly GraphOutput[]
  /** Names of the blocks, in model order (`wte`, `h.0`, …, `head`). */
  readonly blocks: readonly string[]
}

/** A tensor of the reference interpreter: floats of any dtype are held in float64, i32 and bool in int32. */
export interface Tensor {
  readonly type: TensorType
  readonly data: Float64Array | Int32Array
}
