import { prune } from './builder.ts'
import type { Graph, GraphInput, GraphOutput, Node, Value, ValueId } from './types.ts'

/**
 * The part of `graph` that makes `outputs` from `inputs`. Each of `inputs` names a value that is given from outside, be
 * it an input or something a node would make; inputs that turn out not to be needed are dropped. Ids are the graph's;
 * those of the result are new.
 */
export function sliceGraph(
  graph: Graph,
  inputs: readonly GraphInput[],
  outputs: readonly GraphOutput[],
): Graph {
  const given = new Set(inputs.map((input) => input.value))
  const values: Value[] = [...graph.values]
  const nodes: Node[] = []
  for (const node of graph.nodes) {
    if (node.outputs.every((output) => given.has(output))) continue
    // Another output of the node may still be needed; what is given must not be made a second time.
    const made = node.outputs.map((output) =>
      given.has(output) ? values.push({ type: values[output]!.type }) - 1 : output,
    )
    nodes.push({ ...node, outputs: made })
  }
  return prune({ values, inputs, nodes, outputs, blocks: graph.blocks }, false)
}

/** What a task that makes `outputs` must run: the nodes behind them, as far as `given` values. */
export function nodesBehind(
  graph: Graph,
  outputs: Iterable<ValueId>,
  given: ReadonlySet<ValueId> = new Set(),
): ReadonlySet<Node> {
  const needed = new Set(outputs)
  const found = new Set<Node>()
  for (let index = graph.nodes.length - 1; index >= 0; index--) {
    const node = graph.nodes[index]!
    if (!node.outputs.some((output) => needed.has(output) && !given.has(output))) continue
    found.add(node)
    for (const input of node.inputs) needed.add(input)
  }
  return found
}
