import type { GraphBuilder, ValueId } from '../../graph/index.ts'

/**
 * Positions of a sequence in the order in which zig-zag blocks have it: block c of `parts` holds chunks c and
 * 2 parts - 1 - c of 2 parts, so that causal attention is as much work for each; i32 [sequence], or of a `shape` with as many
 * elements along one dim. Those of two shapes have nothing in common, so that each can be cut where it is used.
 */
export function zigzagPositions(
  builder: GraphBuilder,
  sequence: number,
  parts: number,
  shape: readonly number[] = [sequence],
): ValueId {
  const size = sequence / (2 * parts)
  const at = Math.max(0, shape.indexOf(sequence))
  const constant = (value: number): ValueId => builder.one('fill', [], { shape: [], dtype: 'i32', value })
  const counted = (index: number): ValueId => {
    const along = [parts, 2, size].map((count, other) => (other === index ? count : 1))
    return builder.one('iota', [], { shape: shape.toSpliced(at, 1, ...along), dtype: 'i32', dim: at + index })
  }
  const block = counted(0)
  // From chunk c to chunk 2 parts - 1 - c.
  const twice = builder.one('mul', [block, constant(2)], {})
  const further = builder.one('sub', [constant(2 * parts - 1), twice], {})
  const chunk = builder.one('add', [block, builder.one('mul', [counted(1), further], {})], {})
  const first = builder.one('mul', [chunk, constant(size)], {})
  return builder.one('reshape', [builder.one('add', [first, counted(2)], {})], { shape })
}

/** The reverse of `zigzagPositions`: where in that order each position of a sequence is; i32 [sequence]. */
export function zigzagPlaces(builder: GraphBuilder, sequence: number, parts: number): ValueId {
  const size = sequence / (2 * parts)
  const constant = (value: number): ValueId => builder.one('fill', [], { shape: [], dtype: 'i32', value })
  const counted = (shape: readonly number[], dim: number): ValueId =>
    builder.one('iota', [], { shape, dtype: 'i32', dim })
  const chunk = counted([2 * parts, 1], 0)
  // Chunk c < parts is the first half of block c, chunk 2 parts - 1 - c the second.
  const isFirst = builder.one('less', [chunk, constant(parts)], {})
  const twice = builder.one('mul', [chunk, constant(2)], {})
  const second = builder.one('sub', [constant(4 * parts - 1), twice], {})
  const half = builder.one('where', [isFirst, twice, second], {})
  const first = builder.one('mul', [half, constant(size)], {})
  return builder.one('reshape', [builder.one('add', [first, counted([1, size], 1)], {})], {
    shape: [sequence],
  })
}

/** Positions in their order: i32 [sequence]. */
export function plainPositions(builder: GraphBuilder, sequence: number): ValueId {
  return builder.one('iota', [], { shape: [sequence], dtype: 'i32', dim: 0 })
}

/** `x` with its elements along a dim in the order of `positions`. */
export function inOrder(builder: GraphBuilder, x: ValueId, dim: number, positions: ValueId): ValueId {
  // Rows of a table are along its first dim.
  const rank = builder.type(x).shape.length
  const permutation = [dim, ...Array.from({ length: rank }, (_, other) => other).filter((at) => at !== dim)]
  const rows = dim === 0 ? x : builder.one('transpose', [x], { permutation })
  const ordered = builder.one('gather', [rows, positions], {})
  if (dim === 0) return ordered
  const inverse = permutation.map((_, other) => permutation.indexOf(other))
  return builder.one('transpose', [ordered], { permutation: inverse })
}
