import { internalError } from '../../base/index.ts'
import {
  type Graph,
  type GraphInput,
  type GraphOutput,
  type Node,
  prune,
  type Value,
  type ValueId,
} from '../../graph/index.ts'
import type { Flow } from './flow.ts'

/**
 * What makes `outputs` of values that are given. Only that part of the graph is looked at: a stage has as many pieces as it
 * has communications.
 */
export function pieceGraph(
  { graph, maker, order }: Flow,
  given: (value: ValueId) => GraphInput | undefined,
  outputs: readonly GraphOutput[],
): Graph {
  const inputs = new Map<ValueId, GraphInput>()
  const found = new Set<Node>()
  const open = outputs.map(({ value }) => value)
  const seen = new Set<ValueId>()
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (seen.has(value)) continue
    seen.add(value)
    const input = given(value)
    if (input !== undefined) {
      inputs.set(value, input)
      continue
    }
    const node = maker[value]
    if (node === undefined) throw internalError('a piece lacks an operand')
    if (found.has(node)) continue
    found.add(node)
    open.push(...node.inputs)
  }
  let values: readonly Value[] = graph.values
  const nodes = [...found]
    .sort((a, b) => order.get(a)! - order.get(b)!)
    .map((node): Node => {
      // One of its results may be needed though another is given: what is given is not made a second time.
      if (!node.outputs.some((output) => inputs.has(output))) return node
      const outputs = node.outputs.map((output) => {
        if (!inputs.has(output)) return output
        values = [...values, { type: values[output]!.type }]
        return values.length - 1
      })
      return { ...node, outputs }
    })
  return withOwnOutputs(
    prune(
      {
        values,
        inputs: [...inputs.values()].sort((a, b) => a.value - b.value),
        nodes,
        outputs,
        blocks: graph.blocks,
      },
      false,
    ),
  )
}

/** The graph with an op behind every output that is an input or another output: a task makes each of them. */
function withOwnOutputs(graph: Graph): Graph {
  const taken = new Set(graph.inputs.map(({ value }) => value))
  const values: Value[] = [...graph.values]
  const nodes: Node[] = [...graph.nodes]
  const outputs = graph.outputs.map((output): GraphOutput => {
    if (!taken.has(output.value)) {
      taken.add(output.value)
      return output
    }
    const { type } = values[output.value]!
    const value = values.push({ type }) - 1
    const { shape } = type
    nodes.push({ op: 'reshape', attributes: { shape }, inputs: [output.value], outputs: [value], block: -1 })
    return { ...output, value }
  })
  return nodes.length === graph.nodes.length ? graph : { ...graph, values, nodes, outputs }
}
