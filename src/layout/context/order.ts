import { internalError, MeshwrightError } from '../../base/index.ts'
import type { Graph, GraphBuilder, Rewriting, TensorType, ValueId } from '../../graph/index.ts'
import { nearestDivisors } from '../check.ts'
import { positionRows } from './positions.ts'
import { slotsInOrder } from './slotOrder.ts'
import { inOrder, plainPositions, zigzagPositions } from './zigzag.ts'

/** How the tokens of a sequence lie in equal blocks, one for each rank of a context. */
export interface SequenceBlocks {
  readonly parts: number
  /** Whether block c holds chunks c and 2 parts - 1 - c of 2 parts chunks of the sequence, or chunk c of `parts`. */
  readonly zigzag: boolean
}

/** The tokens of a graph's sequences in the order of their blocks. */
export interface SequenceOrder {
  /** What comes with the batch, in that order. */
  readonly input: NonNullable<Rewriting['input']>
  /** What knows positions by itself, in that order; undefined for other nodes, and for attention. */
  readonly node: NonNullable<Rewriting['node']>
  /** The ids of documents in that order, once there are any. */
  readonly documents: () => ValueId | undefined
}

/**
 * The order of the sequences of a forward graph; undefined where none attends to itself. Data is put into it at the very
 * start; a summed loss has none. Throws MeshwrightError `LAYOUT_UNEVEN` where the sequence does not divide.
 */
export function sequenceOrder(graph: Graph, { parts, zigzag }: SequenceBlocks): SequenceOrder | undefined {
  const sequence = sequenceOf(graph)
  if (sequence === undefined) return undefined
  checkBlocks(sequence, parts, zigzag)
  // Other ops that know positions by themselves are not among those of models.
  if (zigzag && graph.nodes.some(({ op }) => op === 'causalMask'))
    throw internalError('a causal mask of a sequence that is put into another order')
  const positions = (builder: GraphBuilder): ValueId =>
    zigzag ? zigzagPositions(builder, sequence, parts) : plainPositions(builder, sequence)
  let documents: ValueId | undefined
  return {
    node: (context) =>
      (zigzag ? slotsInOrder(context, parts) : undefined) ?? positionRows(context, positions, zigzag),
    input: (builder, { name, kind }, value) => {
      const dim = builder.type(value).axes?.indexOf('sequence') ?? -1
      const stands =
        zigzag && kind === 'data' && dim >= 0 ? inOrder(builder, value, dim, positions(builder)) : value
      if (name === 'documents') documents = stands
      return stands
    },
    documents: () => documents,
  }
}

/** The length of the sequences that attend to themselves; undefined where none do. */
function sequenceOf({ nodes, values }: Graph): number | undefined {
  let found: number | undefined
  for (const { op, inputs } of nodes) {
    if (op !== 'attention') continue
    const [q, k] = inputs.map((input) => values[input]!.type) as [TensorType, TensorType]
    const own = q.shape[2]!
    if (q.shape.length !== 4 || k.shape[2] !== own || (found ?? own) !== own)
      throw internalError('a context is of sequences of one length over themselves')
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
