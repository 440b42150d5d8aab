import { MeshwrightError } from '../../base/index.ts'
import { formatType, type Graph, type Node, type TensorType, type ValueId } from '../../graph/index.ts'
import { checkLayout } from '../check.ts'
import { makeLayout, shardingAxes } from '../layout.ts'
import { canCut } from '../rules/assignment.ts'
import { type CuttableOp, cuttableOp } from '../rules/cuttable.ts'
import type { Layout, Mesh } from '../types.ts'
import type { Wants } from './types.ts'

/** The wants, which say of a layout that does not fit whose it is. */
export function checkedWants(wants: Wants, mesh: Mesh): Wants {
  return (value) => {
    const layout = wants(value)
    if (layout === undefined) return undefined
    try {
      checkLayout(layout, value.type.shape, mesh)
    } catch (error) {
      if (!(error instanceof MeshwrightError)) throw error
      const { code, message, hint, exitCode } = error
      throw new MeshwrightError(code, `${value.role} ${value.name ?? formatType(value.type)}: ${message}`, {
        cause: error,
        exitCode,
        ...(hint === undefined ? {} : { hint }),
      })
    }
    return layout
  }
}

/**
 * Where results are wanted: by name or rule, else as the output that they are, else as what is made of them and of
 * nothing else by moving all of it.
 */
export function wantedResults(
  graph: Graph,
  mesh: Mesh,
  wants: Wants,
  uses: ReadonlyMap<ValueId, number>,
): ReadonlyMap<ValueId, Layout> {
  const wanted = new Map<ValueId, Layout>()
  const outputs = new Map(graph.outputs.map(({ name, value }) => [value, name]))
  for (const node of graph.nodes.toReversed()) {
    for (const value of node.outputs) {
      const { type, name } = graph.values[value]!
      const output = outputs.get(value)
      const layout =
        wants({ role: 'result', name, type }) ??
        (output === undefined || uses.get(value) !== 1
          ? undefined
          : wants({ role: 'output', name: output, type })) ??
        wanted.get(value)
      if (layout !== undefined) wanted.set(value, layout)
    }
    const [input] = node.inputs
    const before =
      input === undefined || uses.get(input) !== 1 ? undefined : layoutBefore(graph, mesh, node, wanted)
    if (before !== undefined) wanted.set(input!, before)
  }
  return wanted
}

/** The layout of what is moved that becomes the wanted one of the result, if there is one. */
function layoutBefore(
  graph: Graph,
  mesh: Mesh,
  node: Node,
  wanted: ReadonlyMap<ValueId, Layout>,
): Layout | undefined {
  const after = wanted.get(node.outputs[0]!)
  if (after === undefined || !['transpose', 'reshape', 'cast', 'neg'].includes(node.op)) return undefined
  const op = opOf(graph, node)
  const { inputs, outputs } = op.signature
  const before = layoutAlong(op, mesh, outputs[0]!, after, inputs[0]!)
  const { partial, varying } = after
  return before === undefined ? undefined : makeLayout(before.dims, { partial, varying })
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

export function opOf(graph: Graph, { op, attributes, inputs, outputs }: Node): CuttableOp {
  const typesOf = (ids: readonly ValueId[]): TensorType[] => ids.map((id) => graph.values[id]!.type)
  return cuttableOp({ op, attributes, inputs: typesOf(inputs), outputs: typesOf(outputs) })
}
