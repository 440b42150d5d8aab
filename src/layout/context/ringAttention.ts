import { internalError, MeshwrightError } from '../../base/index.ts'
import {
  type Graph,
  type GraphBuilder,
  type RewriteContext,
  rewriteGraph,
  type TensorType,
  type ValueId,
} from '../../graph/index.ts'
import { visibleKeys } from '../../models/index.ts'
import { nearestDivisors } from '../check.ts'
import { fromBlocks, idsToBlocks, toBlocks } from './blocks.ts'
import { positionRows } from './positions.ts'
import { type BlockAttention, ringOfBlocks, ringOfChunks } from './ring.ts'
import { slotsInOrder } from './slotOrder.ts'
import { inOrder, plainPositions, zigzagPositions } from './zigzag.ts'

export interface RingOptions {
  /** Blocks of each sequence: the ranks of the ring. */
  readonly parts: number
  /** Whether block c holds chunks c and 2 parts - 1 - c of the sequence, or chunk c of `parts`. */
  readonly zigzag: boolean
}

/**
 * A forward model graph with the same loss and derivatives whose self-attention is over `parts` blocks of the sequence:
 * an explicit dim, along which keys and values are rolled. Where that dim is cut into single blocks, the roll is all that
 * ranks send each other. With `zigzag` data and positions are put into another order at the very start; a summed loss has
 * none. Learned positions become look-ups by row, so that the derivative of a part of them is a term of the table's.
 *
 * Throws MeshwrightError `LAYOUT_UNEVEN` where the sequence does not divide.
 */
export function ringAttention(graph: Graph, { parts, zigzag }: RingOptions): Graph {
  const sequence = sequenceOf(graph)
  if (sequence === undefined) return graph
  checkBlocks(sequence, parts, zigzag)
  if (parts === 1) return graph
  // Other ops that know positions by themselves are not among those of models.
  if (zigzag && graph.nodes.some(({ op }) => op === 'causalMask'))
    throw internalError('a causal mask of a sequence that is put into another order')
  const positions = (builder: GraphBuilder): ValueId =>
    zigzag ? zigzagPositions(builder, sequence, parts) : plainPositions(builder, sequence)
  let documents: ValueId | undefined
  return rewriteGraph(graph, {
    input: (builder, { name, kind }, value) => {
      const dim = builder.type(value).axes?.indexOf('sequence') ?? -1
      const stands =
        zigzag && kind === 'data' && dim >= 0 ? inOrder(builder, value, dim, positions(builder)) : value
      if (name === 'documents') documents = stands
      return stands
    },
    node: (context) => {
      const { builder, node, name } = context
      if (node.op === 'attention') {
        const type = graph.values[node.outputs[0]!]!.type
        const blocks = toBlockAttention(context, documents, parts)
        const ring = zigzag && blocks.causal ? ringOfChunks : ringOfBlocks
        return [fromBlocks(builder, ring(builder, blocks), type, name)]
      }
      const slots = zigzag ? slotsInOrder(context, parts) : undefined
      return slots ?? positionRows(context, positions, zigzag)
    },
  })
}

/** The length of the sequences that attend to themselves; undefined where none do. */
function sequenceOf({ nodes, values }: Graph): number | undefined {
  let found: number | undefined
  for (const { op, inputs } of nodes) {
    if (op !== 'attention') continue
    const [q, k] = inputs.map((input) => values[input]!.type) as [TensorType, TensorType]
    const own = q.shape[2]!
    if (q.shape.length !== 4 || k.shape[2] !== own || (found ?? own) !== own)
      throw internalError('ring attention is of sequences of one length over themselves')
    found = own
  }
  return found
}

function checkBlocks(sequence: number, parts: number, zigzag: boolean): void {
  if (!Number.isSafeInteger(parts) || parts < 1) throw internalError(`${parts} blocks of a sequence`)
  const each = zigzag && parts > 1 ? 2 : 1
  const count = each * parts
  if (sequence % count === 0) return
  const below = Math.floor(sequence / count) * count
  const lengths = below === 0 ? `${count}` : `${below} or ${below + count}`
  const degrees = sequence % each === 0 ? nearestDivisors(sequence / each, parts) : [1]
  const why =
    each === 2
      ? `2 x ${parts} equal chunks, of which zig-zag order gives each rank two`
      : `${parts} equal blocks`
  throw new MeshwrightError('LAYOUT_UNEVEN', `sequence ${sequence} cannot be cut into ${why}`, {
    hint: `nearest that work: sequence ${lengths}, or a context degree of ${degrees.join(' or ')}`,
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
