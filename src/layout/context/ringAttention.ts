import { internalError } from '../../base/index.ts'
import { type Graph, type RewriteContext, rewriteGraph, type ValueId } from '../../graph/index.ts'
import { visibleKeys } from '../../models/index.ts'
import { fromBlocks, idsToBlocks, toBlocks } from './blocks.ts'
import { type SequenceBlocks, sequenceOrder } from './order.ts'
import { type BlockAttention, ringOfBlocks, ringOfChunks } from './ring.ts'

/**
 * A forward model graph with the same loss and derivatives whose self-attention is over `parts` blocks of the sequence:
 * an explicit dim, along which keys and values are rolled. Where that dim is cut into single blocks, the roll is all that
 * ranks send each other. With `zigzag` data and positions are put into another order at the very start; a summed loss has
 * none. Learned positions become look-ups by row, so that the derivative of a part of them is a term of the table's.
 *
 * Throws MeshwrightError `LAYOUT_UNEVEN` where the sequence does not divide.
 */
export function ringAttention(graph: Graph, blocks: SequenceBlocks): Graph {
  const { parts, zigzag } = blocks
  const order = sequenceOrder(graph, blocks)
  if (order === undefined || parts === 1) return graph
  return rewriteGraph(graph, {
    input: order.input,
    node: (context) => {
      const { builder, node, name } = context
      if (node.op !== 'attention') return order.node(context)
      const type = graph.values[node.outputs[0]!]!.type
      const operands = toBlockAttention(context, order.documents(), parts)
      const ring = zigzag && operands.causal ? ringOfChunks : ringOfBlocks
      return [fromBlocks(builder, ring(builder, operands), type, name)]
    },
  })
}

function toBlockAttention(
  { builder, node, operands }: RewriteContext,
  documents: ValueId | undefined,
  parts: number,
): BlockAttention {
  if (node.op !== 'attention') throw internalError(`blocks of ${node.op}`)
  const { scale } = node.attributes
  const [q, k, v] = operands.slice(0, 3).map((operand) => toBlocks(builder, operand, parts)) as [
    ValueId,
    ValueId,
    ValueId,
  ]
  const visible = operands[3]
  if (visible === undefined)
    return { q, keys: { k, v, documents: undefined }, scale, causal: node.attributes.causal }
  // Equal nodes are made once: a mask is known by being what its definition gives.
  const causal = [true, false].find(
    (choice) => documents !== undefined && visibleKeys(builder, documents, choice) === visible,
  )
  if (causal === undefined) throw internalError('attention over keys that no documents tell')
  return { q, keys: { k, v, documents: idsToBlocks(builder, documents!, parts) }, scale, causal }
}
