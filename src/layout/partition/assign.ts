import type { Graph, ValueId } from '../../graph/index.ts'
import { largestBytes } from '../blocks.ts'
import type { FactoredGraph } from '../factors/factorGraph.ts'
import { replicatedLayout, shardingAxes } from '../layout.ts'
import { axesSize, meshSize } from '../mesh.ts'
import type { Assignment } from '../rules/assignment.ts'
import { type OpPlan, opPlans } from '../rules/choose.ts'
import type { CuttableOp } from '../rules/cuttable.ts'
import type { Layout, Mesh } from '../types.ts'
import { ringTotal } from '../wire.ts'
import { type Panels, panelsOf } from './panels.ts'
import type { ComputeItem, MoveItem, PlacedValue, ProductStyle, WantedLayout, Wants } from './types.ts'
import { Versions } from './versions.ts'
import { earlyResults, hintedResults, layoutAlong, targetOf, wantedResults } from './wanted.ts'

/** Combinations of layouts of operands that are looked at for one op. */
const mostCombinations = 16

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
  const ways: Ways = {
    mesh,
    versions,
    plansOf,
    products: wants.products,
    ofParameters: movedParameters(graph),
    sole: new Set([...uses].flatMap(([value, count]) => (count === 1 ? [value] : []))),
    linear: linearValues(graph, factored, uses),
    summing: parameterAxes(graph, versions),
  }
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

/** Values of which every use is linear in them alone, as the products that make gradients of a weight and an input are. */
function linearValues(
  graph: Graph,
  { ops }: FactoredGraph,
  uses: ReadonlyMap<ValueId, number>,
): ReadonlySet<ValueId> {
  const linear = new Map<ValueId, number>()
  for (const [index, { inputs, outputs }] of graph.nodes.entries()) {
    if (!outputs.some((output) => uses.has(output))) continue
    const { terms = [] } = ops[index]!.signature
    for (const [at, input] of inputs.entries())
      if (terms.some((rule) => rule.inputs.length === 1 && rule.inputs[0] === at))
        linear.set(input, (linear.get(input) ?? 0) + 1)
  }
  return new Set([...uses].flatMap(([value, count]) => (linear.get(value) === count ? [value] : [])))
}

/** Axes that cut some parameter: what follows from a product with it is terms along them, and reduced some time anyway. */
function parameterAxes({ inputs }: Graph, versions: Versions): ReadonlySet<string> {
  const parameters = inputs.filter(({ kind }) => kind === 'parameter')
  return new Set(parameters.flatMap(({ value }) => shardingAxes(versions.layouts(value)[0]!)))
}

/** Parameters, and what ops that only move elements make of one. */
function movedParameters({ inputs, nodes }: Graph): ReadonlySet<ValueId> {
  const found = new Set(inputs.flatMap(({ kind, value }) => (kind === 'parameter' ? [value] : [])))
  for (const { op, inputs: operands, outputs } of nodes)
    if (['reshape', 'transpose', 'cast', 'slice', 'split'].includes(op) && found.has(operands[0]!))
      for (const output of outputs) found.add(output)
  return found
}

interface Ways {
  readonly mesh: Mesh
  readonly versions: Versions
  readonly plansOf: typeof opPlans
  readonly products: ProductStyle | undefined
  /** Parameters, and what only moves their elements. */
  readonly ofParameters: ReadonlySet<ValueId>
  /** Values of one use. */
  readonly sole: ReadonlySet<ValueId>
  /** Values of which every use is linear in them. */
  readonly linear: ReadonlySet<ValueId>
  /** Axes along which it costs nothing to leave terms to ops that follow. */
  readonly summing: ReadonlySet<string>
}

interface ChoiceRequest {
  readonly op: CuttableOp
  readonly ids: readonly ValueId[]
  /** Of each result: whether nothing says yet how it will be wanted. */
  readonly isOpen: readonly boolean[]
}

interface Choice {
  readonly plan: OpPlan
  /** From which each operand is taken. */
  readonly layouts: readonly Layout[]
  /** Bytes of its redistributions, and of those that it leaves to others. */
  readonly bytes: number
  /** Whether it is in the style in which products are wanted. */
  readonly isInStyle: boolean
  /** Where it goes along an index by panels. */
  readonly panels: Panels | undefined
}

function choosePlan(
  { mesh, versions, plansOf, products, ofParameters, sole, linear, summing }: Ways,
  { op, ids, isOpen }: ChoiceRequest,
  wanted: readonly (WantedLayout | undefined)[],
): Choice | undefined {
  const mayPass = (id: ValueId, axis: string): boolean =>
    sole.has(id) ||
    (linear.has(id) &&
      summing.has(axis) &&
      // What one op reduced is there for the others.
      versions.layouts(id).every((layout) => axis in layout.partial))
  const reduces = ({ operands }: OpPlan): boolean =>
    operands.every(({ from, to }, at) =>
      Object.keys(from.partial).every((axis) => mayPass(ids[at]!, axis) || !(axis in to.partial)),
    )
  /** What it would move to reduce terms of a result along other axes than those. */
  const left = ({ outputs }: OpPlan): number =>
    outputs.reduce((sum, layout, at) => {
      if (isOpen[at] !== true) return sum
      const axes = Object.keys(layout.partial).filter((axis) => !summing.has(axis))
      const type = op.outputs[at]!
      const bytes = largestBytes(layout, type, mesh)
      const members = axesSize(mesh, axes)
      return sum + (ringTotal('reduceScatter', bytes, members) * meshSize(mesh)) / members
    }, 0)
  const leavesStill = ({ operands }: OpPlan): boolean =>
    operands.every(({ wireBytes }, at) => wireBytes === 0 || !ofParameters.has(ids[at]!))
  let best: Choice | undefined
  for (const layouts of combinations(ids.map((id) => versions.layouts(id))))
    for (const plan of plansOf(op, { mesh, layouts, wanted })) {
      if (!reduces(plan)) continue
      const bytes = plan.wireBytes + left(plan)
      const panels = products?.kind === 'panels' ? panelsOf(op, plan, mesh, products.axes) : undefined
      const isInStyle =
        panels !== undefined ||
        (products?.kind === 'blocks' && cutsEach(op, plan.assignment, products.axes)) ||
        (products?.kind === 'still' && leavesStill(plan))
      best = better(best, { plan, layouts, bytes, isInStyle, panels })
    }
  return best
}

/** Whether each of the axes alone cuts an index of a product, and one of them that over which it sums. */
function cutsEach({ signature }: CuttableOp, { indices }: Assignment, axes: readonly string[]): boolean {
  const cut = axes.map((axis) =>
    Object.entries(indices).find(([, own]) => `${own.filter((other) => axes.includes(other))}` === axis),
  )
  const isSummed = ([index]: readonly [string, unknown]): boolean =>
    signature.outputs.every((names) => !names.includes(index))
  return cut.every((found) => found !== undefined) && cut.some((found) => isSummed(found!))
}

/** The first, unless the second is cheaper. */
function better(first: Choice | undefined, second: Choice | undefined): Choice | undefined {
  if (first === undefined || second === undefined) return first ?? second
  return isCheaper(second, first) ? second : first
}

function isCheaper(left: Choice, right: Choice): boolean {
  if (left.isInStyle !== right.isInStyle) return left.isInStyle
  return left.bytes === right.bytes ? left.plan.parts > right.plan.parts : left.bytes < right.bytes
}

function combinations(choices: readonly (readonly Layout[])[]): Layout[][] {
  let all: Layout[][] = [[]]
  for (const layouts of choices)
    all = layouts.flatMap((layout) => all.map((chosen) => [...chosen, layout])).slice(0, mostCombinations)
  return all
}
