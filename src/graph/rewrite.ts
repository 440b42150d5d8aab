import { internalError } from '../base/index.ts'
import { GraphBuilder } from './builder.ts'
import type { Graph, GraphInput, Node, TensorType, ValueId } from './types.ts'

export interface RewriteContext {
  /** Of the new graph; what it makes now belongs to the block of the node. */
  readonly builder: GraphBuilder
  readonly node: Node
  /** Of the node in the graph. */
  readonly index: number
  /** Of the node, in the new graph. */
  readonly operands: readonly ValueId[]
  /** Of the node's first result. */
  readonly name: string | undefined
}

export interface Rewriting {
  /** What stands in for the results of a node; undefined: the same node. Results that nothing uses may be left out. */
  readonly node?: (context: RewriteContext) => readonly ValueId[] | undefined
  /** Another type of an input; undefined: the same. */
  readonly type?: (input: GraphInput, type: TensorType) => TensorType | undefined
  /** What stands in for an input, wherever it is used; `value` is the input in the new graph. */
  readonly input?: (builder: GraphBuilder, input: GraphInput, value: ValueId) => ValueId
}

/** The graph with some of its nodes replaced. Inputs, outputs and blocks keep their names and order. */
export function rewriteGraph(graph: Graph, { node: replace, input: stand, type: retype }: Rewriting): Graph {
  const builder = new GraphBuilder()
  for (const block of graph.blocks) builder.startBlock(block)
  builder.setBlock(-1)
  const values = new Map<ValueId, ValueId>()
  const standIn = (old: ValueId): ValueId => {
    const found = values.get(old)
    if (found === undefined) throw internalError(`nothing stands in for value ${old}`)
    return found
  }
  const declared = graph.inputs.map((input) => {
    const { name, kind, value } = input
    const { type } = graph.values[value]!
    return { input, value: builder.input(name, kind, retype?.(input, type) ?? type) }
  })
  for (const { input, value } of declared) values.set(input.value, stand?.(builder, input, value) ?? value)
  for (const [index, node] of graph.nodes.entries()) {
    builder.setBlock(node.block)
    const operands = node.inputs.map(standIn)
    const { name } = graph.values[node.outputs[0]!]!
    const made =
      replace?.({ builder, node, index, operands, name }) ??
      builder.op(node.op, operands, node.attributes, name)
    for (const [output, value] of made.entries()) values.set(node.outputs[output]!, value)
  }
  for (const { name, value } of graph.outputs) builder.output(name, standIn(value))
  return builder.build({ keepInputs: true })
}
