import { internalError } from '../../base/index.ts'
import type { GraphBuilder, ValueId } from '../../graph/index.ts'
import { axisSize } from '../mesh.ts'
import type { Redistribution } from '../redistribute.ts'
import type { Assignment } from '../rules/assignment.ts'
import type { OpPlan } from '../rules/choose.ts'
import type { CuttableOp } from '../rules/cuttable.ts'
import { addLocalOp, type StartValue } from '../rules/local.ts'
import type { Layout, Mesh } from '../types.ts'

/**
 * An index of an op that ranks go along panel by panel: the l-th panel of an operand is what the l-th rank along an axis has of
 * it, and is passed to the others when its turn comes; the l-th panel of the result is added up where the l-th rank along
 * an axis is to have it. No rank ever holds more of either than its own part and one panel.
 */
export interface Panels {
  readonly index: string
  readonly count: number
  /** By operand; undefined where it has none. */
  readonly operands: readonly (PanelledValue | undefined)[]
  readonly result: PanelledValue | undefined
}

/** What goes around by panels. */
interface PanelledValue {
  /** Along which they lie. */
  readonly axis: string
  /** In which each rank has its own. */
  readonly layout: Layout
}

/**
 * The panels in which a plan need not hold what it gathers and scatters along one index. With both axes of a square these are
 * the three products of SUMMA (van de Geijn and Watts 1997), as Xu et al. 2021 (Optimus), section 3, has them: A B, A Bᵀ and
 * Aᵀ B. In each, one matrix stays where it is, its dims cut by one axis each; the other two share the third index, by
 * panels. It moves as much as the plan says. A look-up in a table and its gradient are such products with rows of ones and
 * zeros, which need not move.
 */
export function panelsOf(
  { signature }: CuttableOp,
  { assignment, operands, results, outputs }: OpPlan,
  mesh: Mesh,
  square: readonly string[],
): Panels | undefined {
  if (outputs.length !== 1 || signature.contraction === 'max') return undefined
  // All of the work is cut, so that what is gathered is an index that one axis cuts here and the other there.
  const cutting = Object.values(assignment.indices).flat()
  if (!square.every((axis) => cutting.includes(axis))) return undefined
  const taken = operands.map((moved, at) => lastGathered(moved, signature.inputs[at]!))
  const given = firstScattered(results[0], signature.outputs[0]!)
  const found = [...taken, given].find((panels) => panels !== undefined)
  if (found === undefined) return undefined
  const { index, axis } = found
  const names = [...signature.inputs, ...signature.outputs]
  const along = [...taken, given].map((panels) => (panels?.index === index ? panels : undefined))
  const axes = along.flatMap((panels) => (panels === undefined ? [] : [panels.axis]))
  const fits =
    names.every((own, at) => !own.includes(index) || along[at] !== undefined) &&
    new Set(axes).size === axes.length &&
    axes.every((own) => square.includes(own) && axisSize(mesh, own) === axisSize(mesh, axis))
  if (!fits) return undefined
  return { index, count: axisSize(mesh, axis), operands: along.slice(0, -1), result: along.at(-1) }
}

type IndexPanels = PanelledValue & { readonly index: string }

/** Of a move that ends with it: what is gathered of an index that nothing else cuts. */
function lastGathered({ steps }: Redistribution, names: readonly string[]): IndexPanels | undefined {
  const last = steps.at(-1)
  return last?.kind === 'allGather' ? panelsAlong(last, last.before, last.after, names) : undefined
}

/** Of a move that begins with it: terms of which each rank gets a part of an index that nothing else cuts. */
function firstScattered(
  moved: Redistribution | undefined,
  names: readonly string[],
): IndexPanels | undefined {
  const first = moved?.steps[0]
  return first?.kind === 'reduceScatter' && first.reduce === 'sum'
    ? panelsAlong(first, first.after, first.before, names)
    : undefined
}

function panelsAlong(
  { dim, axes }: { readonly dim: number; readonly axes: readonly string[] },
  layout: Layout,
  whole: Layout,
  names: readonly string[],
): IndexPanels | undefined {
  const [axis, ...others] = axes
  const index = names[dim]!
  const isAlone = others.length === 0 && index !== '' && whole.dims[dim]!.length === 0
  return isAlone ? { axis: axis!, layout, index } : undefined
}

/** What addPanels takes besides what every local op takes. */
export interface PanelContext {
  readonly builder: GraphBuilder
  readonly mesh: Mesh
  readonly start: StartValue
  /** Sets what is passed on for this op apart from the same panels, passed on for another. */
  readonly occasion: number
}

/** Adds an op that goes along an index by panels: the sum of as many products as there are panels, one after the other. */
export function addPanels(
  { builder, mesh, start, occasion }: PanelContext,
  op: CuttableOp,
  operands: readonly ValueId[],
  assignment: Assignment,
  { index, count, operands: places, result }: Panels,
): ValueId {
  const along = [(places.find((place) => place !== undefined) ?? result!).axis]
  const cut: Assignment = { ...assignment, indices: { ...assignment.indices, [index]: along } }
  let sum: ValueId | undefined
  for (let root = 0; root < count; root++) {
    const pass = (
      value: ValueId,
      operation: 'broadcast' | 'reduce',
      of: PanelledValue | undefined,
    ): ValueId =>
      of === undefined
        ? value
        : builder.one('communicate', [value], {
            operation,
            reduce: operation === 'reduce' ? 'sum' : null,
            axes: [of.axis],
            members: count,
            root,
            shift: 0,
            occasion,
          })
    // A panel begins where it does on every rank.
    const startOf: StartValue = (axes, step) =>
      axes === along
        ? builder.one('fill', [], { shape: [], dtype: 'i32', value: root * step })
        : start(axes, step)
    const panels = operands.map((value, at) => pass(value, 'broadcast', places[at]))
    const product = addLocalOp(builder, op, panels, mesh, cut, startOf)[0]!
    const own = pass(product, 'reduce', result)
    sum = sum === undefined ? own : builder.one('add', [sum, own], {})
  }
  if (sum === undefined) throw internalError('a product of no panels')
  return sum
}
