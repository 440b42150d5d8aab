import { internalError } from '../../base/index.ts'
import { type Graph, type GraphBuilder, rewriteGraph, type ValueId } from '../../graph/index.ts'
import { causalKeys, keysOfDocument, visibleKeys } from '../../models/index.ts'
import { type SequenceBlocks, type SequenceOrder, sequenceOrder } from './order.ts'
import { zigzagPositions } from './zigzag.ts'

/**
 * A forward model graph with the same loss and derivatives that has what causal attention sees as an operand of its own, made
 * of positions. Queries of such attention may be cut while keys and values are gathered, as in Llama 3's context
 * parallelism (Grattafiori et al. 2024, section 3.3.2); with `zigzag` as there, each part has as much to do. Learned
 * positions become look-ups by row, so that the derivative of a part of them is a term of the table's.
 *
 * Throws MeshwrightError `LAYOUT_UNEVEN` where the sequence does not divide.
 */
export function maskedAttention(graph: Graph, blocks: SequenceBlocks): Graph {
  const { parts } = blocks
  const zigzag = blocks.zigzag && parts > 1
  const order = sequenceOrder(graph, { ...blocks, zigzag })
  if (order === undefined) return graph
  return rewriteGraph(graph, {
    input: order.input,
    node: (context) => {
      const { builder, node, operands, name } = context
      if (node.op !== 'attention') return order.node(context)
      const [q, k, v, given] = operands as [ValueId, ValueId, ValueId, ValueId?]
      if (given === undefined ? !node.attributes.causal : !zigzag) return undefined
      builder.setBlock(-1)
      const sequence = builder.type(q).shape[2]!
      const before = zigzag ? byPosition(builder, sequence, parts) : causalKeys(builder, sequence, sequence)
      const visible = given === undefined ? before : ofDocuments(builder, order, given, before)
      builder.setBlock(node.block)
      return builder.op('attention', [q, k, v, visible], { ...node.attributes, causal: false }, name)
    },
  })
}

/** Whether a query sees a key at its own position or before it, in zig-zag order: bool [queries, keys]. */
function byPosition(builder: GraphBuilder, sequence: number, parts: number): ValueId {
  const queries = zigzagPositions(builder, sequence, parts, [sequence, 1])
  const keys = zigzagPositions(builder, sequence, parts, [1, sequence])
  return builder.one('not', [builder.one('less', [queries, keys], {})], {})
}

/** What a mask of documents is where their tokens lie in another order. */
function ofDocuments(builder: GraphBuilder, order: SequenceOrder, given: ValueId, before: ValueId): ValueId {
  const documents = order.documents()
  // Equal nodes are made once: a mask is known by being what its definition gives.
  if (documents !== undefined && given === visibleKeys(builder, documents, true))
    return builder.one('and', [keysOfDocument(builder, documents, documents), before], {})
  if (documents !== undefined && given === visibleKeys(builder, documents, false)) return given
  throw internalError('attention over keys that no documents tell')
}
