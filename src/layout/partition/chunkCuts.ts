import type { GraphBuilder, Node, Value, ValueId } from '../../graph/index.ts'

/**
 * Where a value is cut into chunks: a dim is seen as `outer` x n x `inner` elements, of which a chunk has an equal run of the
 * n. Chunks of a reshaped value are then chunks of the value, in the same order of elements.
 */
export interface Cut {
  readonly dim: number
  readonly outer: number
  readonly inner: number
}

type Shape = readonly number[]

/** The whole of a dim. */
export function cutWhole(shape: Shape, dim: number): Cut {
  // Of equal cuts there is one form: runs begin as far out as they can.
  return { dim, outer: 1, inner: shape[dim] === 0 ? 0 : 1 }
}

/** How the result of a reshape, a transpose or a collective is cut where its operand is; undefined where no dim is. */
export function cutThrough(
  node: Node,
  operand: Shape,
  result: Shape,
  cut: Cut,
  chunks: number,
): Cut | undefined {
  if (node.op === 'reshape') return cutReshaped(operand, result, cut, chunks)
  if (node.op === 'transpose') return { ...cut, dim: node.attributes.permutation.indexOf(cut.dim) }
  if (node.op !== 'communicate') return undefined
  const { operation, members } = node.attributes
  if (operation === 'allReduce' || cut.dim > 0) return cut
  return operation === 'allGather' ? { ...cut, outer: cut.outer * members } : undefined
}

/** The cut of a product's rows where its first operand's are cut; undefined where the cut is not of rows that it alone has. */
export function cutOfRows(node: Extract<Node, { op: 'matmul' }>, operand: Shape, cut: Cut): Cut | undefined {
  const rank = operand.length
  const rows = node.attributes.transposeA ? rank - 1 : rank - 2
  return cut.dim === rows ? { ...cut, dim: rank - 2 } : undefined
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
    case 'add': {
      const dim = cut.dim - (result.length - own.length)
      return dim >= 0 && own[dim] === result[cut.dim] ? { ...cut, dim } : undefined
    }
    case 'matmul': {
      // Rows of products with leading dims as well, but those of one matrix for all of them.
      const rank = own.length
      if (at > 0 || rank !== result.length || cut.dim !== rank - 2) return undefined
      return { ...cut, dim: node.attributes.transposeA ? rank - 1 : rank - 2 }
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

/** The same elements, of a value of another shape. */
function cutReshaped(from: Shape, to: Shape, { dim, outer, inner }: Cut, chunks: number): Cut | undefined {
  const behind = inner * elements(from, dim + 1)
  /** Elements over which a cut goes once through its chunks. */
  const period = elements(from, dim) / outer
  for (const [at, size] of to.entries()) {
    const stride = elements(to, at + 1)
    if (stride >= period || period > stride * size) continue
    // A dim that has all of what is cut, or only its outermost part.
    const low = Math.max(1, behind / stride)
    const count = period / stride / low
    const fits = (stride * size) % period === 0 && Number.isInteger(low) && count % chunks === 0
    return fits ? { dim: at, outer: (stride * size) / period, inner: low } : undefined
  }
  return undefined
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
  const apart = divided(shape, cut)
  const size = apart[cut.dim + 1]! / chunks
  const at = { dim: cut.dim + 1, start: chunk * size, end: (chunk + 1) * size }
  if (cut.outer === 1) {
    const [start, end] = [at.start * cut.inner, at.end * cut.inner]
    return sliced(builder, value, { dim: cut.dim, start, end })
  }
  const part = sliced(builder, builder.one('reshape', [value], { shape: apart }), at)
  return builder.one('reshape', [part], { shape: shape.with(cut.dim, shape[cut.dim]! / chunks) })
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

/** The dim that is cut as three. */
function divided(shape: Shape, { dim, outer, inner }: Cut): number[] {
  return [...shape.slice(0, dim), outer, shape[dim]! / outer / inner, inner, ...shape.slice(dim + 1)]
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
