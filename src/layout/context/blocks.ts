import type { GraphBuilder, TensorType, ValueId } from '../../graph/index.ts'

/** [batch, heads, sequence, width] -> [batch, parts, heads, sequence / parts, width] */
export function toBlocks(builder: GraphBuilder, x: ValueId, parts: number): ValueId {
  const [batch, heads, sequence, width] = builder.type(x).shape as [number, number, number, number]
  const apart = builder.one('reshape', [x], { shape: [batch, heads, parts, sequence / parts, width] })
  return builder.one('transpose', [apart], { permutation: [0, 2, 1, 3, 4] })
}

/** The reverse of `toBlocks`, as a value of that type. */
export function fromBlocks(
  builder: GraphBuilder,
  x: ValueId,
  { shape, axes }: TensorType,
  name: string | undefined,
): ValueId {
  const together = builder.one('transpose', [x], { permutation: [0, 2, 1, 3, 4] })
  return builder.op('reshape', [together], axes === undefined ? { shape } : { shape, axes }, name)[0]!
}

/** [batch, sequence] -> [batch, parts, sequence / parts] */
export function idsToBlocks(builder: GraphBuilder, ids: ValueId, parts: number): ValueId {
  const [batch, sequence] = builder.type(ids).shape as [number, number]
  return builder.one('reshape', [ids], { shape: [batch, parts, sequence / parts] })
}

/**
 * For each block whether the one `steps` before it around a ring comes before it in the sequence too, and not around the
 * end: bool [parts, 1, 1]. Made of the number of the block alone, which a rank knows.
 */
export function comesFromEarlier(builder: GraphBuilder, parts: number, steps: number): ValueId {
  const block = builder.one('iota', [], { shape: [parts, 1, 1], dtype: 'i32', dim: 0 })
  const wrapped = builder.one('fill', [], { shape: [], dtype: 'i32', value: steps })
  return builder.one('not', [builder.one('less', [block, wrapped], {})], {})
}

/** First and second half of each block along a dim. */
export function halves(builder: GraphBuilder, x: ValueId, dim: number): readonly [ValueId, ValueId] {
  const half = builder.type(x).shape[dim]! / 2
  const [first, second] = builder.op('split', [x], { dim, sizes: [half, half] })
  return [first!, second!]
}
