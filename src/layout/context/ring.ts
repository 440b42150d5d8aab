import { type GraphBuilder, maskedScore, type ValueId } from '../../graph/index.ts'
import { keysOfDocument, visibleKeys } from '../../models/index.ts'
import { comesFromEarlier, halves } from './blocks.ts'
import { chooseAttention, mergeAttention, type PartialAttention } from './merge.ts'

/** Self-attention over blocks of a sequence: q, k, v [batch, parts, heads, positions, width]. */
export interface BlockAttention {
  readonly q: ValueId
  readonly keys: BlockKeys
  readonly scale: number
  readonly causal: boolean
}

/** What goes around the ring; `documents` i32 [batch, parts, positions] where sequences are packed. */
export interface BlockKeys {
  readonly k: ValueId
  readonly v: ValueId
  readonly documents: ValueId | undefined
}

const blockDim = 1
const positionDim = 3

/**
 * Ring attention (Liu, Zaharia & Abbeel 2023): every block of queries meets every block of keys and values, which move
 * by one block in each of `parts` - 1 steps. Blocks are in order of position, so that of other blocks a causal query sees
 * all or nothing.
 */
export function ringOfBlocks(builder: GraphBuilder, blocks: BlockAttention): ValueId {
  const { q, keys: own, causal } = blocks
  const parts = builder.type(q).shape[blockDim]!
  let found = ownBlock(builder, blocks)
  let keys = own
  for (let step = 1; step < parts; step++) {
    keys = passOn(builder, keys)
    const { output, logSumExp } = attend(builder, blocks.scale, { q, documents: own.documents }, keys)
    const hidden = builder.one('fill', [], {
      shape: [],
      dtype: builder.type(logSumExp).dtype,
      value: maskedScore,
    })
    const seen = causal
      ? builder.one('where', [comesFromEarlier(builder, parts, step), logSumExp, hidden], {})
      : logSumExp
    found = mergeAttention(builder, found, { output, logSumExp: seen })
  }
  return found.output
}

/**
 * The same where block c holds chunks c and 2 parts - 1 - c of the sequence (zig-zag; Zhu, "ring-flash-attention"; Llama 3,
 * section 3.3.2), so that of another block a causal query sees one chunk or the other: in every step each block has two
 * products of chunks to make, and all of what it makes counts.
 */
export function ringOfChunks(builder: GraphBuilder, blocks: BlockAttention): ValueId {
  const { q, keys: own, scale } = blocks
  const parts = builder.type(q).shape[blockDim]!
  const [firstQueries, secondQueries] = chunksOf(builder, { q, documents: own.documents })
  let [first, second] = chunksOfPartial(builder, ownBlock(builder, blocks))
  let keys = own
  for (let step = 1; step < parts; step++) {
    keys = passOn(builder, keys)
    const [firstKeys, secondKeys] = chunksOfKeys(builder, keys)
    second = mergeAttention(builder, second, attend(builder, scale, secondQueries, firstKeys))

    // A block that holds earlier first chunks holds later second ones.
    const earlier = comesFromEarlier(builder, parts, step)
    const choose = (then: ValueId, otherwise: ValueId): ValueId => {
      const rank = builder.type(then).shape.length
      const shape = [parts, ...Array.from({ length: rank - blockDim - 1 }, () => 1)]
      const condition = builder.one('reshape', [earlier], { shape })
      return builder.one('where', [condition, then, otherwise], {})
    }
    const documents = (then: ValueId | undefined, otherwise: ValueId | undefined): ValueId | undefined =>
      then === undefined ? undefined : choose(then, otherwise!)
    const queries = {
      q: choose(firstQueries.q, secondQueries.q),
      documents: documents(firstQueries.documents, secondQueries.documents),
    }
    const chosen = {
      k: choose(firstKeys.k, secondKeys.k),
      v: choose(firstKeys.v, secondKeys.v),
      documents: documents(firstKeys.documents, secondKeys.documents),
    }
    const before = chooseAttention(builder, earlier, first, second)
    const after = mergeAttention(builder, before, attend(builder, scale, queries, chosen))
    first = chooseAttention(builder, earlier, after, first)
    second = chooseAttention(builder, earlier, second, after)
  }
  return builder.one('concat', [first.output, second.output], { dim: positionDim })
}

interface Queries {
  readonly q: ValueId
  readonly documents: ValueId | undefined
}

/** Of each block over itself: positions ascend in it. */
function ownBlock(builder: GraphBuilder, { q, keys, scale, causal }: BlockAttention): PartialAttention {
  const { k, v, documents } = keys
  const visible = documents === undefined ? undefined : visibleKeys(builder, documents, causal)
  return visible === undefined
    ? attention(builder, [q, k, v], { scale, causal })
    : attention(builder, [q, k, v, visible], { scale, causal: false })
}

/** Over keys that all come before, of the same document where these are given. */
function attend(
  builder: GraphBuilder,
  scale: number,
  { q, documents: ofQueries }: Queries,
  { k, v, documents: ofKeys }: BlockKeys,
): PartialAttention {
  const visible =
    ofQueries === undefined || ofKeys === undefined ? [] : [keysOfDocument(builder, ofQueries, ofKeys)]
  return attention(builder, [q, k, v, ...visible], { scale, causal: false })
}

function attention(
  builder: GraphBuilder,
  operands: readonly ValueId[],
  attributes: { readonly scale: number; readonly causal: boolean },
): PartialAttention {
  const [output, , logSumExp] = builder.op('attention', operands, attributes)
  return { output: output!, logSumExp: logSumExp! }
}

/** Each block from the one before it, around the end. */
function passOn(builder: GraphBuilder, { k, v, documents }: BlockKeys): BlockKeys {
  const roll = (value: ValueId): ValueId => builder.one('roll', [value], { dim: blockDim, shift: 1 })
  return { k: roll(k), v: roll(v), documents: documents === undefined ? undefined : roll(documents) }
}

function chunksOf(builder: GraphBuilder, { q, documents }: Queries): readonly [Queries, Queries] {
  const [first, second] = halves(builder, q, positionDim)
  const [firstIds, secondIds] = documents === undefined ? [] : halves(builder, documents, 2)
  return [
    { q: first, documents: firstIds },
    { q: second, documents: secondIds },
  ]
}

function chunksOfKeys(
  builder: GraphBuilder,
  { k, v, documents }: BlockKeys,
): readonly [BlockKeys, BlockKeys] {
  const [values, otherValues] = halves(builder, v, positionDim)
  const [first, second] = chunksOf(builder, { q: k, documents })
  return [
    { k: first.q, v: values, documents: first.documents },
    { k: second.q, v: otherValues, documents: second.documents },
  ]
}

function chunksOfPartial(
  builder: GraphBuilder,
  { output, logSumExp }: PartialAttention,
): [PartialAttention, PartialAttention] {
  const [first, second] = halves(builder, output, positionDim)
  const [firstSums, secondSums] = halves(builder, logSumExp, positionDim)
  return [
    { output: first, logSumExp: firstSums },
    { output: second, logSumExp: secondSums },
  ]
}
