import type { Graph, OpAttributes, OpName, TensorType, ValueId } from '../../graph/index.ts'
import { blockShape } from '../blocks.ts'
import { layoutRuleOf } from './index.ts'
import { dimIndices, type LocalOperands, linear, type OpSignature } from './notation.ts'

/** An op, or several together, with the types of its whole operands and results. */
export interface CuttableOp {
  readonly signature: OpSignature
  readonly inputs: readonly TensorType[]
  readonly outputs: readonly TensorType[]
  /** On a rank's blocks. */
  readonly local: (context: LocalOperands) => readonly ValueId[]
}

export interface TypedOp {
  readonly op: OpName
  readonly attributes: OpAttributes[OpName]
  readonly inputs: readonly TensorType[]
  readonly outputs: readonly TensorType[]
}

export function cuttableOp({ op, attributes, inputs, outputs }: TypedOp): CuttableOp {
  const { signature, local } = layoutRuleOf(op)
  return {
    signature: signature({ attributes, inputs, outputs }),
    inputs,
    outputs,
    local: (context) =>
      local === undefined
        ? context.builder.op(op, context.operands, attributes)
        : local({ ...context, attributes, inputs, outputs }),
  }
}

/** A product that contracts all dims of its operands but the last: [..., k] and [..., n] to [k, n]. */
export interface FlattenedProduct {
  readonly operands: readonly [ValueId, ValueId]
  readonly op: CuttableOp
}

/**
 * Products over dims that reshapes have made one, as gradients of weights have them, by the index of their node. Rows of a
 * part of each sequence are no run of the flattened rows, so that by itself such a reshape needs sequences whole; a product
 * that contracts them does not mind, and takes what was reshaped instead.
 */
export function flattenedProducts(graph: Graph): ReadonlyMap<number, FlattenedProduct> {
  const reshaped = new Map<ValueId, ValueId>()
  for (const { op, inputs, outputs } of graph.nodes)
    if (op === 'reshape') reshaped.set(outputs[0]!, inputs[0]!)
  const typeOf = (value: ValueId): TensorType => graph.values[value]!.type
  const found = new Map<number, FlattenedProduct>()
  for (const [index, { op, attributes, inputs, outputs }] of graph.nodes.entries()) {
    if (op !== 'matmul' || !attributes.transposeA || attributes.transposeB) continue
    const operands = inputs.map((input) => reshaped.get(input)) as [ValueId, ValueId]
    if (operands.includes(undefined as never)) continue
    const [a, b] = operands.map(typeOf) as [TensorType, TensorType]
    const keepsLast = operands.every(
      (value, at) => typeOf(value).shape.at(-1) === typeOf(inputs[at]!).shape.at(-1),
    )
    const isFlat = inputs.every((input) => typeOf(input).shape.length === 2)
    if (!keepsLast || !isFlat || `${a.shape.slice(0, -1)}` !== `${b.shape.slice(0, -1)}`) continue
    found.set(index, { operands, op: flattenedProduct(a, b, typeOf(outputs[0]!), attributes) })
  }
  return found
}

function flattenedProduct(
  a: TensorType,
  b: TensorType,
  output: TensorType,
  attributes: OpAttributes['matmul'],
): CuttableOp {
  const inner = dimIndices(a.shape.length - 1, 'i')
  return {
    signature: {
      inputs: [
        [...inner, 'rows'],
        [...inner, 'columns'],
      ],
      outputs: [['rows', 'columns']],
      terms: [
        { inputs: [0], reductions: linear },
        { inputs: [1], reductions: linear },
      ],
    },
    inputs: [a, b],
    outputs: [output],
    local: ({ builder, operands, inputBlocks }) => {
      const flat = operands.map((operand, at) => {
        const shape = blockShape(inputBlocks[at]!)
        const rows = shape.slice(0, -1).reduce((product, size) => product * size, 1)
        return builder.one('reshape', [operand], { shape: [rows, shape.at(-1)!] })
      })
      return builder.op('matmul', flat, attributes)
    },
  }
}
