import { type Graph, rewriteGraph } from '../../graph/index.ts'
import { causalKeys } from '../../models/index.ts'

/**
 * The graph with what causal attention sees as an operand of its own, made of positions. Queries of such attention may be
 * cut while keys and values are gathered, as in Llama 3's context parallelism (Grattafiori et al. 2024, section 3.3.2).
 */
export function maskedAttention(graph: Graph): Graph {
  return rewriteGraph(graph, {
    node: ({ builder, node, operands, name }) => {
      if (node.op !== 'attention' || !node.attributes.causal) return undefined
      const [queries, keys] = [operands[0]!, operands[1]!].map((value) => builder.type(value).shape.at(-2)!)
      builder.setBlock(-1)
      const visible = causalKeys(builder, queries!, keys!)
      builder.setBlock(node.block)
      return builder.op('attention', [...operands, visible], { ...node.attributes, causal: false }, name)
    },
  })
}
