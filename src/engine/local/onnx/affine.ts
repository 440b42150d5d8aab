import {
  type AffineOperands,
  elementCount,
  emitAffine,
  type Graph,
  isFloat,
  type Node,
  type OnnxEmitter,
  sameShape,
  type TensorType,
  type ValueId,
} from '../../../graph/index.ts'

/** (x - mean) * scale + shift, where the last three have one element for each row of x. */
export interface RowAffine {
  readonly x: ValueId
  readonly mean?: ValueId
  readonly scale: ValueId
  readonly shift?: ValueId
}

export interface RowAffines {
  /** By the node that gives the result. */
  readonly found: ReadonlyMap<Node, RowAffine>
  /** Nodes whose results are needed nowhere else. */
  readonly absorbed: ReadonlySet<Node>
}

/**
 * Finds `(x - mean) * scale`, `x * scale + shift` and both in one, as norms and their derivatives have them. Each then
 * takes one pass over the elements: .75 of the time of a layer norm's backward.
 */
export function findRowAffines(graph: Graph): RowAffines {
  const found = new Map<Node, RowAffine>()
  const absorbed = new Set<Node>()
  const producers = new Map<ValueId, Node>()
  const uses = countUses(graph)
  /** The node of that op that makes `value` for one use alone. */
  const madeBy = (value: ValueId, op: Node['op']): Node | undefined => {
    const node = producers.get(value)
    return node?.op === op && uses.get(value) === 1 ? node : undefined
  }
  for (const node of graph.nodes) {
    for (const output of node.outputs) producers.set(output, node)
    for (const [whole, column] of rowOperands(graph, node)) {
      const inner = madeBy(whole, node.op === 'mul' ? 'sub' : 'mul')
      const operands = inner && rowOperands(graph, inner)[0]
      if (inner === undefined || operands === undefined) continue
      const [x, other] = operands
      if (node.op === 'mul') found.set(node, { x, mean: other, scale: column })
      else if (node.op === 'add')
        found.set(node, { ...(found.get(inner) ?? { x, scale: other }), shift: column })
      else continue
      absorbed.add(inner)
      found.delete(inner)
      break
    }
  }
  return { found, absorbed }
}

function countUses(graph: Graph): ReadonlyMap<ValueId, number> {
  const uses = new Map<ValueId, number>()
  const read = (value: ValueId): void => {
    uses.set(value, (uses.get(value) ?? 0) + 1)
  }
  for (const node of graph.nodes) node.inputs.forEach(read)
  for (const output of graph.outputs) read(output.value)
  return uses
}

/**
 * The ways to read the operands of a sum, difference or product as one that is as large as the result and one with an
 * element for each of its rows.
 */
function rowOperands(graph: Graph, node: Node): readonly (readonly [whole: ValueId, column: ValueId])[] {
  if (node.op !== 'add' && node.op !== 'sub' && node.op !== 'mul') return []
  const typeOf = (value: ValueId): TensorType => graph.values[value]!.type
  const { dtype, shape } = typeOf(node.outputs[0]!)
  if (!isFloat(dtype) || elementCount(shape) === 0 || !(shape.at(-1)! > 1)) return []
  const [a, b] = node.inputs as [ValueId, ValueId]
  const orders: [ValueId, ValueId][] =
    node.op === 'sub'
      ? [[a, b]]
      : [
          [a, b],
          [b, a],
        ]
  const columnShape = [...shape.slice(0, -1), 1]
  return orders.filter(
    ([whole, column]) =>
      sameShape(typeOf(whole).shape, shape) && sameShape(typeOf(column).shape, columnShape),
  )
}

/** Emits what was found as giving a result of this type. */
export function emitRowAffine(
  emit: OnnxEmitter,
  { x, mean, scale, shift }: RowAffine,
  type: TensorType,
  nameOf: (value: ValueId) => string,
): string {
  const rows = elementCount(type.shape.slice(0, -1))
  const vector = (value: ValueId): string =>
    emit.node('Reshape', [nameOf(value), emit.constant('i64', [1], [rows])])[0]!
  const operands: AffineOperands = {
    scale: vector(scale),
    ...(mean === undefined ? {} : { mean: vector(mean) }),
    ...(shift === undefined ? {} : { shift: vector(shift) }),
  }
  return emitAffine(emit, nameOf(x), type, rows, operands)
}
