import { MeshwrightError } from '../../base/index.ts'
import { formatType, type Graph, type Node, type OpName, type ValueId } from '../../graph/index.ts'
import { checkEven, checkLayout } from '../check.ts'
import type { FactoredGraph } from '../factors/factorGraph.ts'
import { makeLayout, shardingAxes } from '../layout.ts'
import { canCut } from '../rules/assignment.ts'
import type { CuttableOp } from '../rules/cuttable.ts'
import type { WantedLayout } from '../rules/target.ts'
import type { Layout, Mesh } from '../types.ts'
import type { WantedValue, Wants } from './types.ts'

/** The wants, which say of a layout that does not fit, or is not even, whose it is. */
export function checkedWants(wants: Wants, mesh: Mesh): Wants {
  const checked = (value: WantedValue): WantedLayout | undefined => {
    const layout = wants(value)
    if (layout === undefined) return undefined
    const what = `${value.role} ${value.name ?? formatType(value.type)}`
    try {
      checkLayout(layout, value.type.shape, mesh)
    } catch (error) {
      if (!(error instanceof MeshwrightError)) throw error
      const { code, message, hint, exitCode } = error
      throw new MeshwrightError(code, `${what}: ${message}`, {
        cause: error,
        exitCode,
        ...(hint === undefined ? {} : { hint }),
      })
    }
    value.type.shape.forEach((size, dim) => {
      checkEven(`${what}, ${value.type.axes?.[dim] || `dim ${dim}`}`, size, layout.dims[dim]!, mesh)
    })
    return layout
  }
  return wants.products === undefined ? checked : Object.assign(checked, { products: wants.products })
}

/**
 * Where results are wanted: by name or rule, else as the output that they are, else as what is made of them and of
 * nothing else by moving all of it.
 */
export function wantedResults(
  graph: Graph,
  factored: FactoredGraph,
  mesh: Mesh,
  wants: Wants,
  uses: ReadonlyMap<ValueId, number>,
): ReadonlyMap<ValueId, WantedLayout> {
  const wanted = new Map<ValueId, WantedLayout>()
  const outputs = new Map(graph.outputs.map(({ name, value }) => [value, name]))
  const users = new Map<ValueId, OpName[]>()
  for (const { op, inputs } of graph.nodes)
    for (const input of inputs) users.set(input, [...(users.get(input) ?? []), op])
  for (const [index, node] of [...graph.nodes.entries()].toReversed()) {
    for (const value of node.outputs) {
      const { name } = graph.values[value]!
      const type = factored.types[value]!
      const factors = factored.factors[value]!.map(({ length }) => length)
      const output = outputs.get(value)
      const layout =
        wants({ role: 'result', name, type, factors, madeBy: node.op, usedBy: users.get(value) ?? [] }) ??
        (output === undefined || uses.get(value) !== 1
          ? undefined
          : wants({ role: 'output', name: output, type, factors })) ??
        wanted.get(value)
      if (layout !== undefined) wanted.set(value, layout)
    }
    const [input] = node.inputs
    const before =
      input === undefined || uses.get(input) !== 1
        ? undefined
        : layoutBefore(factored.ops[index]!, mesh, node, wanted)
    if (before !== undefined) wanted.set(input!, before)
  }
  return wanted
}

/**
 * Where outputs are wanted that nothing else uses, and what they are sums of. How it is cut says nothing of what else it is
 * made of, so nothing is hinted at by it.
 */
export function earlyResults(
  { nodes, outputs }: Graph,
  uses: ReadonlyMap<ValueId, number>,
  outputWants: (output: string) => WantedLayout | undefined,
): ReadonlyMap<ValueId, WantedLayout> {
  const found = new Map<ValueId, WantedLayout>()
  const note = (value: ValueId, want: WantedLayout | undefined): void => {
    if (want !== undefined && uses.get(value) === 1) found.set(value, want)
  }
  for (const { name, value } of outputs) note(value, outputWants(name))
  for (const { op, inputs, outputs: results } of nodes.toReversed())
    if (op === 'add') for (const input of inputs) note(input, found.get(results[0]!))
  return found
}

/** Ops whose results lie as their operands do, along the dims that they have in common. */
const passingOn: readonly OpName[] = [
  'add',
  'sub',
  'mul',
  'div',
  'neg',
  'cast',
  'reshape',
  'transpose',
  'split',
  'concat',
  'slice',
  'pad',
  'matmul',
]

/**
 * How results that nothing is wanted of may as well be cut, for what is wanted of what follows from them element by
 * element. Terms of them may stay terms.
 */
export function hintedResults(
  graph: Graph,
  { ops }: FactoredGraph,
  mesh: Mesh,
  wanted: ReadonlyMap<ValueId, WantedLayout>,
): ReadonlyMap<ValueId, WantedLayout> {
  const hints = new Map<ValueId, WantedLayout>()
  for (const [index, { op, inputs, outputs }] of [...graph.nodes.entries()].toReversed()) {
    if (!passingOn.includes(op)) continue
    const result = outputs.find((output) => wanted.has(output) || hints.has(output))
    if (result === undefined) continue
    const after = wanted.get(result) ?? hints.get(result)!
    const { signature } = ops[index]!
    const made = signature.outputs[outputs.indexOf(result)]!
    for (const [at, input] of inputs.entries()) {
      if (wanted.has(input) || hints.has(input)) continue
      const names = signature.inputs[at]!
      const dims = layoutAlong(ops[index]!, mesh, made, after, names)?.dims
      if (dims !== undefined) hints.set(input, { ...makeLayout(dims), keepsTerms: true })
    }
  }
  return hints
}

/** The layout of what is moved that becomes the wanted one of the result, if there is one. */
function layoutBefore(
  op: CuttableOp,
  mesh: Mesh,
  node: Node,
  wanted: ReadonlyMap<ValueId, WantedLayout>,
): WantedLayout | undefined {
  const after = wanted.get(node.outputs[0]!)
  if (after === undefined || !['transpose', 'reshape', 'cast', 'neg'].includes(node.op)) return undefined
  const { inputs, outputs } = op.signature
  const before = layoutAlong(op, mesh, outputs[0]!, after, inputs[0]!)
  const { partial, varying } = after
  if (before === undefined) return undefined
  const layout = makeLayout(before.dims, { partial, varying })
  return after.keepsTerms === true ? { ...layout, keepsTerms: true } : layout
}

/** How dims of these indices are cut where dims of others of the op are cut as `layout` has them; undefined where they cannot be. */
export function layoutAlong(
  op: CuttableOp,
  mesh: Mesh,
  names: readonly string[],
  layout: Layout,
  others: readonly string[],
): Layout | undefined {
  const dims = others.map((index) => (index === '' ? [] : (layout.dims[names.indexOf(index)] ?? [])))
  const fits = others.every(
    (index, dim) => dims[dim]!.length === 0 || canCut(op.signature, op, mesh, index, dims[dim]!),
  )
  return fits && dims.flat().length === shardingAxes(layout).length ? makeLayout(dims) : undefined
}
