import type { Graph, TensorType, ValueId } from '../../src/graph/index.ts'

/** Products of two matrices; with a vector, as norms have them for weighted means, they cost as little as a pass. */
export function products(graph: Graph): number {
  const columns = (value: ValueId): number => graph.values[value]!.type.shape.at(-1)!
  return graph.nodes.filter((node) => node.op === 'matmul' && columns(node.outputs[0]!) > 1).length
}

/** Type of the output of that name. */
export function typeOf(graph: Graph, output: string): TensorType {
  return graph.values[graph.outputs.find(({ name }) => name === output)!.value]!.type
}
