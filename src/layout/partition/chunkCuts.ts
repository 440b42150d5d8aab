import type { GraphBuilder, Node, Value, ValueId } from '../../graph/index.ts'

/**
 * Where a value is cut into chunks: a dim is seen as `outer` runs, and of each of them every chunk has an equal part.
 * What is a chunk of a value is then a chunk of it reshaped as well, elements in the same order.
 */
export interface Cut {
  readonly dim: number
  readonly outer: number
}

type Shape = readonly number[]

/**
 * How the result is cut where the first operand is: of what moves elements, and of products of rows. Not of a weight's
 * gradient, which sums over rows.
 */
export function cutThrough(
  node: Node,
  operands: readonly Shape[],
  result: Shape,
  cut: Cut,
  chunks: number,
): Cut | undefined {
  const [own] = operands as [Shape]
  switch (node.op) {
    case 'reshape':
      return cutReshaped(own, result, cut, chunks)
    case 'transpose':
      return { ...cut, dim: node.attributes.permutation.indexOf(cut.dim) }
    case 'matmul':
      return !node.attributes.transposeA && isRow(operands, result, cut.dim) ? cut : undefined
    case 'communicate': {
      const { operation, members } = node.attributes
      if (operation === 'allReduce' || cut.dim > 0) return cut
      return operation === 'allGather' ? { ...cut, outer: cut.outer * members } : undefined
    }
    default:
      return undefined
  }
}

/** How an operand is cut where the result is; undefined where all chunks take the whole of it, or cannot be made. */
export function cutOfOperand(
  node: Node,
  operands: readonly Shape[],
  result: Shape,
  at: number,
  cut: Cut,
  chunks: number,
): Cut | undefined {
  const own = operands[at]!
  switch (node.op) {
    case 'reshape':
      return cutReshaped(result, own, cut, chunks)
    case 'transpose':
      return { ...cut, dim: node.attributes.permutation[cut.dim]! }
    case 'add':
    case 'mul': {
      const dim = cut.dim - (result.length - own.length)
      return dim >= 0 && own[dim] === result[cut.dim] ? { ...cut, dim } : undefined
    }
    case 'matmul': {
      if (at > 0 || !isRow(operands, result, cut.dim)) return undefined
      const isTurned = node.attributes.transposeA && cut.dim === own.length - 2
      return isTurned ? { ...cut, dim: own.length - 1 } : cut
    }
    case 'communicate': {
      const { operation, members } = node.attributes
      if (operation === 'allReduce' || cut.dim > 0) return cut
      return operation === 'reduceScatter' ? { ...cut, outer: cut.outer * members } : undefined
    }
    default:
      return undefined
  }
}

/** Whether a dim of a product is one that the first operand alone has. */
function isRow([first, second]: readonly Shape[], result: Shape, dim: number): boolean {
  const rank = result.length
  if (first!.length < rank || dim > rank - 2) return false
  return dim === rank - 2 || (second!.at(dim - rank) ?? 1) === 1
}

/** The same elements, of a value of another shape. */
function cutReshaped(from: Shape, to: Shape, { dim, outer }: Cut, chunks: number): Cut | undefined {
  const run = elements(from, dim) / outer
  const at = to.findIndex((size, own) => {
    const stride = elements(to, own + 1)
    return stride < run && run <= stride * size
  })
  if (at < 0) return undefined
  const stride = elements(to, at + 1)
  const all = stride * to[at]!
  return all % run === 0 && run % (stride * chunks) === 0 ? { dim: at, outer: all / run } : undefined
}

/** Elements of the dims from one on. */
function elements(shape: Shape, from: number): number {
  return shape.slice(from).reduce((product, size) => product * size, 1)
}

/** One of the chunks of a value. */
export function takeChunk(
  builder: GraphBuilder,
  value: ValueId,
  cut: Cut,
  { chunk, chunks }: { readonly chunk: number; readonly chunks: number },
): ValueId {
  const { shape } = builder.type(value)
  const { dim, outer } = cut
  const size = shape[dim]! / outer / chunks
  const [start, end] = [chunk * size, (chunk + 1) * size]
  if (outer === 1) return sliced(builder, value, { dim, start, end })
  const apart = builder.one('reshape', [value], { shape: divided(shape, cut) })
  const part = sliced(builder, apart, { dim: dim + 1, start, end })
  return builder.one('reshape', [part], { shape: shape.with(dim, outer * size) })
}

/** The value that has these chunks. */
export function joinChunks(
  builder: GraphBuilder,
  { type, name }: Value,
  cut: Cut,
  parts: readonly ValueId[],
): ValueId {
  const { shape, axes } = type
  if (cut.outer === 1) return builder.one('concat', parts, { dim: cut.dim }, name)
  const apart = divided(shape, cut)
  const own = apart.with(cut.dim + 1, apart[cut.dim + 1]! / parts.length)
  const all = builder.one(
    'concat',
    parts.map((part) => builder.one('reshape', [part], { shape: own })),
    { dim: cut.dim + 1 },
  )
  return builder.one('reshape', [all], axes === undefined ? { shape } : { shape, axes }, name)
}

/** The dim that is cut as two. */
function divided(shape: Shape, { dim, outer }: Cut): number[] {
  return [...shape.slice(0, dim), outer, shape[dim]! / outer, ...shape.slice(dim + 1)]
}

function sliced(
  builder: GraphBuilder,
  value: ValueId,
  range: { readonly dim: number; readonly start: number; readonly end: number },
): ValueId {
  const { shape } = builder.type(value)
  return builder.one('slice', [value], {
    starts: shape.map((_, dim) => (dim === range.dim ? range.start : 0)),
    ends: shape.map((size, dim) => (dim === range.dim ? range.end : size)),
  })
}
