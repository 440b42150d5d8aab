import type { Graph, ValueId } from '../../graph/index.ts'
import { replicatedLayout, sameLayout, shardingAxes } from '../layout.ts'
import { type OpPlan, opPlans } from '../rules/choose.ts'
import { type CuttableOp, flattenedProducts } from '../rules/cuttable.ts'
import type { Layout, Mesh } from '../types.ts'
import type { ComputeItem, MoveItem, PlacedValue, Wants } from './types.ts'
import { Versions } from './versions.ts'
import { layoutAlong, opOf, wantedResults } from './wanted.ts'

/** Combinations of layouts of operands that are looked at for one op. */
const mostCombinations = 16

export interface AssignedGraph {
  readonly items: readonly (ComputeItem | MoveItem)[]
  readonly values: ReadonlyMap<string, PlacedValue>
  readonly outputs: readonly { readonly name: string; readonly value: string }[]
  /** Nodes that gathered the last dim of their first operand for want of a form that is cut along it. */
  readonly wholeLast: ReadonlySet<number>
}

/**
 * Chooses layouts in order of the graph: of each op the way that moves the fewest bytes from where its operands lie, in
 * any of the layouts they have by then, to where its results are wanted. Terms of a value that several ops use are reduced
 * before the first of them, as each would reduce what follows from them otherwise; a sole use may pass them on. Where it
 * moves no more, an op is cut as its sole user is by another operand.
 */
export function assignLayouts(graph: Graph, mesh: Mesh, wants: Wants): AssignedGraph {
  const versions = new Versions(graph, mesh)
  for (const { name, kind, value } of graph.inputs) {
    const type = graph.values[value]!.type
    const layout = wants({ role: 'input', name, type, kind }) ?? replicatedLayout(type.shape.length)
    versions.place(value, layout, name)
  }
  const flattened = flattenedProducts(graph)
  const operandsOf = (index: number): readonly ValueId[] =>
    flattened.get(index)?.operands ?? graph.nodes[index]!.inputs
  const uses = countUses(graph, operandsOf)
  const wanted = wantedResults(graph, mesh, wants, uses)
  const wholeLast = new Set<number>()
  const soleUsers = new Map<ValueId, number>()
  for (const index of graph.nodes.keys())
    for (const id of operandsOf(index)) if (uses.get(id) === 1) soleUsers.set(id, index)
  /** How the one op that uses a value would cut it after another operand, of those that are there. */
  const hintOf = (user: number, value: ValueId): Layout | undefined => {
    const op = flattened.get(user)?.op ?? opOf(graph, graph.nodes[user]!)
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
    const op = flattened.get(index)?.op ?? opOf(graph, node)
    const ids = operandsOf(index)
    if (versions.repeats(name, ids)) {
      versions.addGenerator(outputs[0]!, { op, operands: ids, block })
      continue
    }
    const targets = outputs.map((output) => (uses.has(output) ? wanted.get(output) : undefined))
    const request = { op, mesh, versions, ids, uses }
    // Where values that vary are wanted whole there is none, and their redistribution says why.
    const asWanted = choosePlan(request, targets) ?? choosePlan(request, [])
    const user = targets[0] === undefined ? soleUsers.get(outputs[0]!) : undefined
    const hint = user === undefined ? undefined : hintOf(user, outputs[0]!)
    const asUsed = hint === undefined ? undefined : choosePlan(request, [hint])
    const { plan, layouts } = better(asWanted, asUsed)!
    if (isCutLast(layouts[0]!) && !isCutLast(plan.operands[0]!.to)) wholeLast.add(index)
    const operands = ids.map((id, at) => versions.require(id, layouts[at]!, plan.operands[at]!.to))
    const results = outputs.map((output, at) => versions.place(output, plan.outputs[at]!))
    versions.items.push({
      kind: 'compute',
      op,
      assignment: plan.assignment,
      operands,
      results,
      block,
      isFree: false,
    })
    outputs.forEach((output, at) => {
      const target = targets[at]
      if (target === undefined) return
      versions.require(output, plan.outputs[at]!, target)
      versions.settle(output, target)
    })
  }
  const outputs = graph.outputs.map(({ name, value }) => {
    const type = graph.values[value]!.type
    const [home] = versions.layouts(value)
    const layout = wants({ role: 'output', name, type }) ?? home!
    const has = versions.layouts(value).find((own) => sameLayout(own, layout)) ?? home!
    return { name, value: versions.require(value, has, layout) }
  })
  return { items: versions.items, values: versions.placed, outputs, wholeLast }
}

function isCutLast({ dims }: Layout): boolean {
  return (dims.at(-1)?.length ?? 0) > 0
}

/** How often each value is used by what is needed, as an output included; what is not needed is not among them. */
function countUses(
  graph: Graph,
  operandsOf: (node: number) => readonly ValueId[],
): ReadonlyMap<ValueId, number> {
  const uses = new Map<ValueId, number>()
  const use = (value: ValueId): void => {
    uses.set(value, (uses.get(value) ?? 0) + 1)
  }
  for (const { value } of graph.outputs) use(value)
  for (const [index, { outputs }] of [...graph.nodes.entries()].reverse())
    if (outputs.some((output) => uses.has(output))) operandsOf(index).forEach(use)
  return uses
}

interface ChoiceRequest {
  readonly op: CuttableOp
  readonly mesh: Mesh
  readonly versions: Versions
  readonly ids: readonly ValueId[]
  readonly uses: ReadonlyMap<ValueId, number>
}

interface Choice {
  readonly plan: OpPlan
  /** From which each operand is taken. */
  readonly layouts: readonly Layout[]
}

function choosePlan(
  { op, mesh, versions, ids, uses }: ChoiceRequest,
  wanted: readonly (Layout | undefined)[],
): Choice | undefined {
  const reduces = ({ operands }: OpPlan): boolean =>
    operands.every(
      ({ from, to }, at) =>
        uses.get(ids[at]!) === 1 || Object.keys(from.partial).every((axis) => !(axis in to.partial)),
    )
  let best: Choice | undefined
  for (const layouts of combinations(ids.map((id) => versions.layouts(id)))) {
    const plan = opPlans(op, { mesh, layouts, wanted }).find(reduces)
    best = better(best, plan === undefined ? undefined : { plan, layouts })
  }
  return best
}

/** The first, unless the second is cheaper. */
function better(first: Choice | undefined, second: Choice | undefined): Choice | undefined {
  if (first === undefined || second === undefined) return first ?? second
  return isCheaper(second.plan, first.plan) ? second : first
}

function isCheaper(left: OpPlan, right: OpPlan): boolean {
  return left.wireBytes === right.wireBytes ? left.parts > right.parts : left.wireBytes < right.wireBytes
}

function combinations(choices: readonly (readonly Layout[])[]): Layout[][] {
  let all: Layout[][] = [[]]
  for (const layouts of choices)
    all = layouts.flatMap((layout) => all.map((chosen) => [...chosen, layout])).slice(0, mostCombinations)
  return all
}
