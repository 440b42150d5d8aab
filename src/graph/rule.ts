import type { GraphBuilder } from './builder.ts'
import type { DType, OpAttributes, OpName, Tensor, TensorType, ValueId } from './types.ts'

/** Work of one op on one device, dtype aside. */
export interface OpCost {
  readonly flops: number
  /** Bytes read plus bytes written, each operand once. */
  readonly bytes: number
}

/**
 * A cotangent: dense, or for a gathered table the rows that were touched (`ids` i32 [n...], `values` [n..., ...row]).
 */
export type Cotangent = ValueId | { readonly rows: { readonly ids: ValueId; readonly values: ValueId } }

/** What a vjp may look at. Values are ids in `builder`'s graph, forward values included. */
export interface VjpContext<K extends OpName> {
  readonly builder: GraphBuilder
  readonly attributes: OpAttributes[K]
  readonly inputs: readonly ValueId[]
  readonly outputs: readonly ValueId[]
  /** One for each output, `undefined` where the loss does not depend on it. At least one is defined. */
  readonly cotangents: readonly (ValueId | undefined)[]
}

export type OnnxAttribute =
  | { readonly int: number }
  | { readonly ints: readonly number[] }
  | { readonly float: number }
  | { readonly string: string }

/** Writes ONNX nodes; names of tensors are strings. Implemented by the local engine, so that `graph/` needs no protobuf. */
export interface OnnxEmitter {
  /** Adds a node and returns the names of its `outputs` outputs (default 1). `domain` '' is ONNX's own. */
  node(
    opType: string,
    inputs: readonly string[],
    attributes?: Readonly<Record<string, OnnxAttribute>>,
    options?: { readonly outputs?: number; readonly domain?: string },
  ): readonly string[]
  /** An initializer, deduplicated by content. `i64` is for shapes and axes. */
  constant(dtype: DType | 'i64', shape: readonly number[], data: ArrayLike<number>): string
}

export interface OnnxContext<K extends OpName> {
  readonly emit: OnnxEmitter
  readonly attributes: OpAttributes[K]
  readonly inputs: readonly string[]
  readonly inputTypes: readonly TensorType[]
  readonly outputTypes: readonly TensorType[]
  /** Which outputs anything reads; the others need no name (return '' for them). */
  readonly used: readonly boolean[]
}

/** Everything that is to be known about one op, in one place. */
export interface OpRule<K extends OpName> {
  readonly summary: string
  /** Types of the outputs. Throws MeshwrightError code `GRAPH_SHAPE` naming op and shapes when operands do not fit. */
  readonly infer: (inputs: readonly TensorType[], attributes: OpAttributes[K]) => readonly TensorType[]
  /**
   * The cotangent of each operand, made only when asked for (the builder shares equal nodes, so operands may repeat
   * each other's work). `null` where an operand has no derivative.
   */
  readonly vjp: readonly (((context: VjpContext<K>) => Cotangent | undefined) | null)[] | 'variadic' | null
  /** For ops with any number of operands (`concat`): the cotangent of operand `index`. */
  readonly vjpVariadic?: (context: VjpContext<K>, index: number) => Cotangent | undefined
  readonly cost: (
    inputs: readonly TensorType[],
    outputs: readonly TensorType[],
    attributes: OpAttributes[K],
  ) => OpCost
  /** Slow and obvious, in float64, reductions in index order. */
  readonly reference: (
    inputs: readonly Tensor[],
    attributes: OpAttributes[K],
    outputTypes: readonly TensorType[],
  ) => readonly Tensor[]
  readonly onnx: (context: OnnxContext<K>) => readonly string[]
  /** Elementwise over broadcast operands: such ops may be fused into one loop and are cheap to recompute. */
  readonly elementwise?: true
}

export type OpTable = { readonly [K in OpName]: OpRule<K> }
