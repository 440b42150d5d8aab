import { ruleOf } from './ops/index.ts'
import type { OpCost } from './rule.ts'
import type { Graph, Node } from './types.ts'

/** Work of one node: flops, and bytes read plus written. */
export function nodeCost(graph: Graph, node: Node): OpCost {
  return ruleOf(node.op).cost(
    node.inputs.map((input) => graph.values[input]!.type),
    node.outputs.map((output) => graph.values[output]!.type),
    node.attributes,
  )
}

/** Work of all nodes together. */
export function graphCost(graph: Graph): OpCost {
  return graph.nodes.map((node) => nodeCost(graph, node)).reduce(sum, none)
}

export interface BlockCosts {
  /** One for each of `graph.blocks`. */
  readonly blocks: readonly OpCost[]
  /** Of nodes that belong to no block. */
  readonly unassigned: OpCost
}

/** Work by block. The sum over blocks and `unassigned` is `graphCost`. */
export function blockCosts(graph: Graph): BlockCosts {
  const blocks = graph.blocks.map(() => none)
  let unassigned = none
  for (const node of graph.nodes) {
    const cost = nodeCost(graph, node)
    if (node.block < 0) unassigned = sum(unassigned, cost)
    else blocks[node.block] = sum(blocks[node.block]!, cost)
  }
  return { blocks, unassigned }
}

const none: OpCost = { flops: 0, bytes: 0 }

function sum(left: OpCost, right: OpCost): OpCost {
  return { flops: left.flops + right.flops, bytes: left.bytes + right.bytes }
}
