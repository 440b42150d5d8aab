import type { Graph, ValueId } from '../../graph/index.ts'
import { largestBytes } from '../blocks.ts'
import type { FactoredGraph } from '../factors/factorGraph.ts'
import { shardingAxes } from '../layout.ts'
import { axesSize, meshSize } from '../mesh.ts'
import type { Assignment } from '../rules/assignment.ts'
import type { OpPlan, opPlans } from '../rules/choose.ts'
import type { CuttableOp } from '../rules/cuttable.ts'
import type { WantedLayout } from '../rules/target.ts'
import type { Layout, Mesh } from '../types.ts'
import { ringTotal } from '../wire.ts'
import { type Panels, panelsOf } from './panels.ts'
import type { ProductStyle } from './types.ts'
import type { Versions } from './versions.ts'

/** Combinations of layouts of operands that are looked at for one op. */
const mostCombinations = 16

export function waysOf(
  graph: Graph,
  factored: FactoredGraph,
  given: Pick<Ways, 'mesh' | 'versions' | 'plansOf' | 'products'> & {
    /** How often each value is used. */
    readonly uses: ReadonlyMap<ValueId, number>
  },
): Ways {
  const { uses, ...rest } = given
  return {
    ...rest,
    ofParameters: movedParameters(graph),
    sole: new Set([...uses].flatMap(([value, count]) => (count === 1 ? [value] : []))),
    linear: linearValues(graph, factored, uses),
    summing: parameterAxes(graph, rest.versions),
  }
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

/** What every choice looks at. */
export interface Ways {
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

export interface ChoiceRequest {
  readonly op: CuttableOp
  readonly ids: readonly ValueId[]
  /** Of each result: whether nothing says yet how it will be wanted. */
  readonly isOpen: readonly boolean[]
}

/** A way to compute an op, from operands as they lie in one of their layouts. */
export interface Choice {
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

/** The cheapest way of those in the style in which products are wanted, or else of all. */
export function choosePlan(
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
export function better(first: Choice | undefined, second: Choice | undefined): Choice | undefined {
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
