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
  /** (x, start i32 []) -> the `size` elements of x from `start` on along `dim`. */
  dynamicSlice: { readonly dim: number; readonly size: number }
  /** Zeros around. */
  pad: { readonly before: readonly number[]; readonly after: readonly number[] }
  concat: { readonly dim: number }
  /** One output for each size. */
  split: { readonly dim: number; readonly sizes: readonly number[] }
  /** Element i along `dim` comes from i - shift, around the end. */
  roll: { readonly dim: number; readonly shift: number }

  // 6. Products and tables.
  /** Last two dims, leading dims broadcast; result times `scale`. */
  matmul: { readonly transposeA: boolean; readonly transposeB: boolean; readonly scale: number }
  /** (table [rows, ...], ids i32 [...]) -> [...ids, ...row] */
  gather: Empty
  /** (ids i32 [n...], values [n..., ...row]) -> dense [rows, ...row], repeated ids added in order. */
  scatterRows: { readonly rows: number }
  /** ids i32 [...] -> [..., depth] of 0 and 1; an id outside gives zeros. */
  oneHot: { readonly depth: number; readonly dtype: FloatDType }
  /** [..., n] -> the k largest of each row, largest first, and their places i32, both [..., k]; of equal ones the first. */
  topK: { readonly k: number }
  /** (x [..., n], ids i32 [..., k]) -> [..., k], elements of each row by their places. */
  gatherElements: Empty
  /** (ids i32 [..., k], values [..., k]) -> [..., size], zeros to which values are added by place. */
  scatterElements: { readonly size: number }
  /**
   * experts i32 [batch, tokens, k], the experts that each token of a sample chose, best first; one outside 0 … experts - 1
   * is no choice. Each sample has `capacity` slots for every expert, which its choices take in order of tokens and, of one
   * token, of its choices; once an expert's are taken, further choices of it get none. Gives i32
   *
   * - [batch, tokens, k]: the slot, expert * capacity + position, of each choice; -1 for one without
   * - [batch, experts, capacity]: the choice, token * k + rank, in each slot; -1 in an empty one
   * - [batch, experts, capacity]: the token, likewise
   */
  assignSlots: { readonly experts: number; readonly capacity: number }
  /**
   * (x [batch, rows, width], sources i32 [batch, places...], targets i32 [batch, rows, k]) -> [batch, places..., width]:
   * in each place the sample's row that `sources` says, zeros where that is negative. `targets` says the same from the
   * rows' side, for the derivative: the places, counted in row-major order, that each row goes to, negative where fewer
   * than k. Nothing but the derivative depends on it.
   */
  route: Empty

  // 7. Composites that every backend has a fast form of.
  /** Over the last dim. */
  softmax: Empty
  /** (x, weight, bias) -> y, mean [..., 1], inverse standard deviation [..., 1]; over the last dim. */
  layerNorm: { readonly epsilon: number }
  /** (x, weight) -> y, inverse root mean square [..., 1]; over the last dim. */
  rmsNorm: { readonly epsilon: number }
  /**
   * (q [...batch, heads, queries, d], k [...batch, kvHeads, keys, d], v [...batch, kvHeads, keys, dv][, visible bool])
   * -> output [...batch, heads, queries, dv], probabilities [...batch, heads, queries, keys], logSumExp of the scores
   * [...batch, heads, queries]. Query head h uses kv head floor(h / (heads / kvHeads)). With `causal`, query i sees keys
   * 0 .. i + keys - queries. `visible` [queries, keys], with batch dims before them that broadcast, says which keys a query
   * sees; `causal` must then be false. A query that sees no key has an output of zeros and a logSumExp of `maskedScore`.
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

  // 8. Between devices.
  /**
   * A collective among the `members` ranks along `axes` of a mesh, outermost first, on blocks of the first dim: `allGather`
   * makes [members * n, ...] of [n, ...], `reduceScatter` the reverse, all else keeps the shape. Only in graphs of what
   * one rank does; they are cut into tasks here.
   */
  communicate: {
    readonly operation: CommunicateOperation
    /** How terms are made one; null where the operation reduces nothing. */
    readonly reduce: 'sum' | 'max' | 'mean' | null
    readonly axes: readonly string[]
    readonly members: number
    /** Place among the members of the source of `broadcast` and the target of `reduce`; 0 elsewhere. */
    readonly root: number
    /** How many members further `permute` moves a value, below `members`; 0 elsewhere. */
    readonly shift: number
    /** Sets collectives apart that are alike: equal ones are one, and what it gives is then held from first use to last. */
    readonly occasion?: number
    /** Of collectives of one occasion that are one in chunks: which, from 0 on, so that work between them can hide them. */
    readonly chunk?: number
  }
}

/** As the program room's operations of these names. */
export type CommunicateOperation =
  | 'allReduce'
  | 'reduceScatter'
  | 'allGather'
  | 'allToAll'
  | 'broadcast'
  | 'reduce'
  | 'permute'

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
