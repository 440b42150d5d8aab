import type { GraphBuilder, ValueId } from '../../graph/index.ts'

/** Attention of some queries over some of their keys: output [...rows, width], logSumExp of the scores [...rows]. */
export interface PartialAttention {
  readonly output: ValueId
  readonly logSumExp: ValueId
}

/**
 * Attention over the keys of both, which are others: outputs weighted by their shares of the sum of exponentials (Liu,
 * Zaharia & Abbeel 2023, "Ring Attention with Blockwise Transformers", after Milakov & Gimelshein 2018). Exponents are
 * not positive and one of them is zero, so that nothing overflows or is divided by zero; a part that sees no key has a
 * weight of exactly zero beside one that does.
 */
export function mergeAttention(
  builder: GraphBuilder,
  left: PartialAttention,
  right: PartialAttention,
): PartialAttention {
  const largest = builder.one('max', [left.logSumExp, right.logSumExp], {})
  const [ofLeft, ofRight] = [left, right].map(({ logSumExp }) =>
    builder.one('exp', [builder.one('sub', [logSumExp, largest], {})], {}),
  ) as [ValueId, ValueId]
  const sum = builder.one('add', [ofLeft, ofRight], {})
  const weight = builder.one('div', [ofRight, sum], {})
  const { shape } = builder.type(weight)
  const column = builder.one('reshape', [weight], { shape: [...shape, 1] })
  const difference = builder.one('sub', [right.output, left.output], {})
  return {
    output: builder.one('add', [left.output, builder.one('mul', [column, difference], {})], {}),
    logSumExp: builder.one('add', [largest, builder.one('log', [sum], {})], {}),
  }
}

/** Row by row the one or the other: `condition` bool [blocks, 1, 1] broadcasts to rows of [...batch, blocks, heads, queries]. */
export function chooseAttention(
  builder: GraphBuilder,
  condition: ValueId,
  then: PartialAttention,
  otherwise: PartialAttention,
): PartialAttention {
  const { shape } = builder.type(condition)
  const column = builder.one('reshape', [condition], { shape: [...shape, 1] })
  return {
    output: builder.one('where', [column, then.output, otherwise.output], {}),
    logSumExp: builder.one('where', [condition, then.logSumExp, otherwise.logSumExp], {}),
  }
}
