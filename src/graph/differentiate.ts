import { internalError } from '../base/index.ts'
import type { GraphBuilder } from './builder.ts'
import { opTable, ruleOf } from './ops/index.ts'
import type { Cotangent, VjpContext } from './rule.ts'
import { formatType, isFloat, sameShape } from './tensor.ts'
import type { Node, OpName, ValueId } from './types.ts'

export interface DifferentiateRequest {
  /** Values that the loss follows from, each with its cotangent (a value of the same type). */
  readonly outputs: readonly { readonly value: ValueId; readonly cotangent: ValueId }[]
  /** Values whose cotangents are asked for: graph inputs, or results of nodes. */
  readonly wanted: readonly ValueId[]
}

/** A derivative of the loss: the sum of `dense` and of every entry of `rows`. All absent: it is zero. */
export interface Gradient {
  readonly dense: ValueId | undefined
  /** From tables that rows were gathered from: `ids` i32 [n...], `values` [n..., ...row]. Graph inputs only. */
  readonly rows: readonly { readonly ids: ValueId; readonly values: ValueId }[]
}

type Rows = Gradient['rows'][number]

/**
 * Reverse accumulation (Linnainmaa 1970; as vector-Jacobian products of each operand). Adds the nodes that compute the
 * cotangents of `wanted` to the builder and makes nothing that these do not need. New nodes carry the block of the
 * forward node whose derivative they are.
 */
export function differentiate(
  builder: GraphBuilder,
  request: DifferentiateRequest,
): ReadonlyMap<ValueId, Gradient> {
  const nodes = nodesInOrder(
    builder,
    request.outputs.map((output) => output.value),
  )
  const active = dependents(builder, nodes, request.wanted)
  const contributions = new Map<ValueId, Cotangent[]>()
  const contribute = (value: ValueId, cotangent: Cotangent): void => {
    const known = contributions.get(value)
    if (known === undefined) contributions.set(value, [cotangent])
    else known.push(cotangent)
  }
  /** The whole cotangent of a node's result, once every use of it has contributed. */
  const collect = (value: ValueId): ValueId | undefined => {
    const dense = densify(builder, value, combine(builder, contributions.get(value) ?? []))
    if (dense !== undefined) contributions.set(value, [dense])
    return dense
  }

  for (const { value, cotangent } of request.outputs) {
    requireType(builder, value, cotangent, 'output')
    contribute(value, cotangent)
  }
  for (const node of nodes.toReversed()) {
    if (!node.outputs.some((output) => contributions.has(output) && active.has(output))) continue
    builder.setBlock(node.block)
    const cotangents = node.outputs.map(collect)
    node.inputs.forEach((input, operand) => {
      if (!active.has(input)) return
      const cotangent = operandCotangent(builder, node, operand, cotangents)
      if (cotangent === undefined) return
      if (typeof cotangent === 'number') requireType(builder, input, cotangent, node.op)
      contribute(input, cotangent)
    })
  }
  builder.setBlock(-1)
  return new Map(
    request.wanted.map((value) => [value, combine(builder, contributions.get(value) ?? [])] as const),
  )
}

/** The gradient as one dense value, rows scattered into it; undefined where it is zero. */
export function densify(builder: GraphBuilder, of: ValueId, gradient: Gradient): ValueId | undefined {
  const rows = builder.type(of).shape[0]
  return gradient.rows
    .map(({ ids, values }) => builder.one('scatterRows', [ids, values], { rows: rows! }))
    .reduce<ValueId | undefined>(
      (sum, part) => (sum === undefined ? part : builder.one('add', [sum, part], {})),
      gradient.dense,
    )
}

/** The sum of the dense contributions, in the order in which they came, and the rows as they are. */
function combine(builder: GraphBuilder, contributions: readonly Cotangent[]): Gradient {
  let dense: ValueId | undefined
  const rows: Rows[] = []
  for (const part of contributions) {
    if (typeof part !== 'number') rows.push(part.rows)
    else dense = dense === undefined ? part : builder.one('add', [dense, part], {})
  }
  return { dense, rows }
}

function operandCotangent(
  builder: GraphBuilder,
  node: Node,
  operand: number,
  cotangents: readonly (ValueId | undefined)[],
): Cotangent | undefined {
  const rule = ruleOf(node.op)
  const context = {
    builder,
    attributes: node.attributes,
    inputs: node.inputs,
    outputs: node.outputs,
    cotangents,
  } as VjpContext<OpName>
  if (rule.vjp === 'variadic') return rule.vjpVariadic!(context, operand)
  return rule.vjp?.[operand]?.(context)
}

function hasDerivative(node: Node, operand: number): boolean {
  const { vjp } = opTable[node.op]
  if (vjp === 'variadic') return true
  return vjp?.[operand] !== null && vjp?.[operand] !== undefined
}

/** The float values through which the loss may depend on `wanted`. */
function dependents(
  builder: GraphBuilder,
  nodes: readonly Node[],
  wanted: readonly ValueId[],
): ReadonlySet<ValueId> {
  const active = new Set(wanted)
  for (const node of nodes) {
    if (!node.inputs.some((input, operand) => active.has(input) && hasDerivative(node, operand))) continue
    for (const output of node.outputs) if (isFloat(builder.type(output).dtype)) active.add(output)
  }
  return active
}

/** The nodes behind `values`, operands first. Walks with a stack, since graphs may be deep. */
function nodesInOrder(builder: GraphBuilder, values: readonly ValueId[]): Node[] {
  const done = new Set<Node>()
  const open: { readonly node: Node; next: number }[] = []
  const visit = (value: ValueId): void => {
    const node = builder.producer(value)
    if (node !== undefined && !done.has(node)) open.push({ node, next: 0 })
  }
  for (const value of values) {
    visit(value)
    while (open.length > 0) {
      const top = open.at(-1)!
      const input = top.node.inputs[top.next++]
      if (input !== undefined) {
        visit(input)
      } else {
        open.pop()
        done.add(top.node)
      }
    }
  }
  return [...done]
}

function requireType(builder: GraphBuilder, value: ValueId, cotangent: ValueId, where: string): void {
  const [expected, actual] = [builder.type(value), builder.type(cotangent)]
  if (expected.dtype !== actual.dtype || !sameShape(expected.shape, actual.shape))
    throw internalError(`${where}: cotangent ${formatType(actual)} of a value ${formatType(expected)}`)
}
