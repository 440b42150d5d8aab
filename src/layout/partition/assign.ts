import type { Graph, ValueId } from '../../graph/index.ts'
import type { FactoredGraph } from '../factors/factorGraph.ts'
import { replicatedLayout, shardingAxes } from '../layout.ts'
import { opPlans } from '../rules/choose.ts'
import type { CuttableOp } from '../rules/cuttable.ts'
import type { WantedLayout } from '../rules/target.ts'
import { targetOf } from '../rules/target.ts'
import type { Layout, Mesh } from '../types.ts'
import type { ComputeItem, MoveItem, PlacedValue, Wants } from './types.ts'
import { Versions } from './versions.ts'
import { earlyResults, hintedResults, layoutAlong, wantedResults } from './wanted.ts'
import { better, choosePlan, waysOf } from './ways.ts'

export interface AssignedGraph {
  readonly items: readonly (ComputeItem | MoveItem)[]
  readonly values: ReadonlyMap<string, PlacedValue>
  /** Outputs of the graph, and the placed value that each is. */
  readonly outputs: readonly { readonly name: string; readonly value: string }[]
  /** Placed values that are wanted to be held. */
  readonly kept: ReadonlySet<string>
  /** Nodes that gathered the last dim of their first operand for want of a form that is cut along it. */
  readonly wholeLast: ReadonlySet<number>
}

/**
 * How an output is wanted, by its name, how it comes and how inputs lie; asked before the wants. How it comes is not known yet
 * where the op that makes it is to be chosen: what depends on it has no answer then.
 */
export type OutputWants = (
  output: string,
  made: Layout | undefined,
  inputLayout: (input: string) => Layout,
) => WantedLayout | undefined

/**
 * Chooses layouts in order of the graph: of each op the way that moves the fewest bytes from where its operands lie, in
 * any of the layouts they have by then, to where its results are wanted. Terms of a value that several ops use are reduced
 * before the first of them, as each would reduce what follows from them otherwise, unless all are linear in it and other
 * terms along the axis, of products with parameters that it cuts, are to be reduced later anyway. Where it
 * moves no more, an op is cut as its sole user is by another operand. Products in the style of the wants come first.
 */
export function assignLayouts(
  graph: Graph,
  factored: FactoredGraph,
  mesh: Mesh,
  wants: Wants,
  outputWants: OutputWants = () => undefined,
  plansOf: typeof opPlans = opPlans,
): AssignedGraph {
  const versions = new Versions(factored, mesh, plansOf)
  const factorsOf = (value: ValueId): number[] => factored.factors[value]!.map(({ length }) => length)
  for (const { name, kind, value } of graph.inputs) {
    const type = versions.type(value)
    const factors = factorsOf(value)
    const layout = wants({ role: 'input', name, type, factors, kind }) ?? replicatedLayout(type.shape.length)
    versions.place(value, layout, name)
  }
  const blocks = new Map(
    graph.nodes.flatMap(({ outputs, block }) => outputs.map((output) => [output, block])),
  )
  const blockOf = (value: ValueId): number => blocks.get(value) ?? -1
  const operandsOf = (index: number): readonly ValueId[] => graph.nodes[index]!.inputs
  const uses = countUses(graph)
  const inputLayout = (name: string): Layout => versions.placed.get(name)!.layout
  const early = earlyResults(graph, uses, (output) => outputWants(output, undefined, inputLayout))
  const wanted = wantedResults(graph, factored, mesh, wants, uses)
  const hints = hintedResults(graph, factored, mesh, wanted)
  const ways = waysOf(graph, factored, { mesh, versions, plansOf, uses, products: wants.products })
  const givenOut = new Set(graph.outputs.map(({ value }) => value))
  const wholeLast = new Set<number>()
  const kept = new Set<string>()
  const soleUsers = new Map<ValueId, number>()
  for (const index of graph.nodes.keys())
    for (const id of operandsOf(index)) if (uses.get(id) === 1) soleUsers.set(id, index)
  /** How the one op that uses a value would cut it after another operand, of those that are there. */
  const hintOf = (user: number, value: ValueId): Layout | undefined => {
    const op = factored.ops[user]!
    const ids = operandsOf(user)
    const { inputs } = op.signature
    for (const [at, id] of ids.entries()) {
      const layout = id === value || !versions.has(id) ? undefined : versions.layouts(id)[0]
      if (layout === undefined || shardingAxes(layout).length === 0) continue
      const found = layoutAlong(op, mesh, inputs[at]!, layout, inputs[ids.indexOf(value)]!)
      if (found !== undefined) return found
    }
    return undefined
  }
  for (const [index, node] of graph.nodes.entries()) {
    const { op: name, outputs, block } = node
    if (!outputs.some((output) => uses.has(output))) continue
    const op = factored.ops[index]!
    const ids = operandsOf(index)
    if (versions.repeats(name, ids)) {
      versions.addGenerator(outputs[0]!, { op, operands: ids, block })
      continue
    }
    const targets = outputs.map((output) =>
      uses.has(output) ? (wanted.get(output) ?? early.get(output)) : undefined,
    )
    const isOpen = outputs.map((output, at) => targets[at] === undefined && !givenOut.has(output))
    const request = { op, ids, isOpen }
    // Where values that vary are wanted whole there is none, and their redistribution says why.
    const asWanted = choosePlan(ways, request, targets) ?? choosePlan(ways, request, [])
    const user = targets[0] === undefined ? soleUsers.get(outputs[0]!) : undefined
    const hint = user === undefined ? undefined : hintOf(user, outputs[0]!)
    const asUsed = hint === undefined ? undefined : choosePlan(ways, request, [hint])
    const later = targets[0] === undefined ? hints.get(outputs[0]!) : undefined
    const asFollows = later === undefined ? undefined : choosePlan(ways, request, [later])
    const { plan, layouts, panels } = better(better(asWanted, asUsed), asFollows)!
    if (isCutLast(op, layouts[0]!) && !isCutLast(op, plan.operands[0]!.to)) wholeLast.add(index)
    const operands = ids.map((id, at) =>
      versions.require(id, layouts[at]!, panels?.operands[at]?.layout ?? plan.operands[at]!.to, block),
    )
    const made = panels?.result === undefined ? plan.outputs : [panels.result.layout]
    const results = outputs.map((output, at) => versions.place(output, made[at]!))
    versions.items.push({
      kind: 'compute',
      op,
      assignment: plan.assignment,
      operands,
      results,
      block,
      ...(panels === undefined ? {} : { panels }),
    })
    outputs.forEach((output, at) => {
      const want = targets[at]
      if (want === undefined) return
      const target = targetOf(want, made[at]!)
      const name = versions.require(output, made[at]!, target, block)
      versions.settle(output, target)
      if (want.keep === true) kept.add(name)
    })
  }
  const outputs = graph.outputs.map(({ name, value }) => {
    const [home] = versions.layouts(value)
    const want =
      outputWants(name, home!, inputLayout) ??
      wants({ role: 'output', name, type: versions.type(value), factors: factorsOf(value) })
    const target = want === undefined ? home! : targetOf(want, home!)
    return { name, value: versions.require(value, home!, target, blockOf(value)) }
  })
  return { items: versions.items, values: versions.placed, outputs, kept, wholeLast }
}

/** Whether any factor of the last dim of the first operand is cut. */
function isCutLast({ factors }: CuttableOp, { dims }: Layout): boolean {
  const count = factors.inputs[0]?.at(-1) ?? 0
  return count > 0 && dims.slice(-count).some((axes) => axes.length > 0)
}

/** How often each value is used by what is needed, as an output included; what is not needed is not among them. */
function countUses(graph: Graph): ReadonlyMap<ValueId, number> {
  const uses = new Map<ValueId, number>()
  const use = (value: ValueId): void => {
    uses.set(value, (uses.get(value) ?? 0) + 1)
  }
  for (const { value } of graph.outputs) use(value)
  for (const { inputs, outputs } of graph.nodes.toReversed())
    if (outputs.some((output) => uses.has(output))) inputs.forEach(use)
  return uses
}
