import { internalError } from '../../base/index.ts'
import type { GraphBuilder, ValueId } from '../../graph/index.ts'
import { axisSize } from '../mesh.ts'
import type { Redistribution } from '../redistribute.ts'
import type { Assignment } from '../rules/assignment.ts'
import type { OpPlan } from '../rules/choose.ts'
import type { CuttableOp } from '../rules/cuttable.ts'
import { addLocalOp, type StartValue } from '../rules/local.ts'
import type { Mesh } from '../types.ts'

/**
 * An index of an op that ranks go along panel by panel: the l-th panel of an operand is what the l-th rank along an axis has of
 * it, and is passed to the others when its turn comes; the l-th panel of the result is added up where the l-th rank along
 * an axis is to have it. No rank ever holds more of either than its own part and one panel.
 */
export interface Panels {
  readonly index: string
  readonly count: number
  /** By operand: the axis along which its panels lie; undefined where it has none. */
  readonly operands: readonly (string | undefined)[]
  /** The axis along which terms of the result are added up. */
  readonly result: string | undefined
}

/**
 * The panels in which a plan need not hold what it gathers and scatters along one index. With both axes of a square these are
 * the three products of SUMMA (van de Geijn and Watts 1997), as Xu et al. 2021 (Optimus), section 3, has them: A B, A Bᵀ and
 * Aᵀ B. In each, one matrix stays where it is, its dims cut by one axis each; the other two share the third index, by
 * panels. It moves as much as the plan says. A look-up in a table and its gradient are such products with rows of ones and
 * zeros, which need not move.
 */
export function panelsOf(
  op: CuttableOp,
  { assignment, operands, results, outputs }: OpPlan,
  mesh: Mesh,
  square: readonly string[],
): Panels | undefined {
  const { signature } = op
  const [made, ...others] = outputs
  if (made === undefined || others.length > 0 || signature.contraction === 'max') return undefined
  // All of the work is cut, so that what is gathered is an index that one axis cuts here and the other there.
  const cutting = Object.values(assignment.indices).flat()
  if (!square.every((axis) => cutting.includes(axis))) return undefined
  const found: { readonly index: string; readonly axis: string }[] = []
  const places = operands.map((moved, at) => panelled(moved, 'allGather', signature.inputs[at]!, found))
  const place = panelled(results[0], 'reduceScatter', signature.outputs[0]!, found)
  if (found.length === 0 || place === null || places.includes(null)) return undefined
  const axes = found.map(({ axis }) => axis)
  const [index] = found.map((panel) => panel.index)
  const counts = new Set(axes.map((axis) => axisSize(mesh, axis)))
  const names = [...signature.inputs, ...signature.outputs]
  const all = [...places, place]
  const isWhole =
    found.every((panel) => panel.index === index) &&
    new Set(axes).size === axes.length &&
    axes.every((axis) => square.includes(axis)) &&
    counts.size === 1 &&
    names.every((own, at) => own.includes(index!) === (all[at] !== undefined))
  if (!isWhole) return undefined
  const [count] = counts
  return { index: index!, count: count!, operands: places as (string | undefined)[], result: place }
}

/** The axis of the one step of a move that may be made by panels; undefined where nothing moves, null where something else does. */
function panelled(
  moved: Redistribution | undefined,
  kind: 'allGather' | 'reduceScatter',
  names: readonly string[],
  found: { readonly index: string; readonly axis: string }[],
): string | undefined | null {
  if (moved === undefined || moved.wireBytes === 0) return undefined
  const [step, ...others] = moved.steps
  if (step === undefined || others.length > 0 || step.kind !== kind || step.axes.length > 1) return null
  if (step.kind === 'reduceScatter' && step.reduce !== 'sum') return null
  const [axis] = step.axes as [string]
  const whole = kind === 'allGather' ? step.after : step.before
  const index = names[step.dim]!
  if (index === '' || whole.dims[step.dim]!.length > 0) return null
  found.push({ index, axis })
  return axis
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
  const along = [places.find((place) => place !== undefined) ?? result!]
  const cut: Assignment = { ...assignment, indices: { ...assignment.indices, [index]: along } }
  let sum: ValueId | undefined
  for (let root = 0; root < count; root++) {
    const pass = (value: ValueId, operation: 'broadcast' | 'reduce', axis: string | undefined): ValueId =>
      axis === undefined
        ? value
        : builder.one('communicate', [value], {
            operation,
            reduce: operation === 'reduce' ? 'sum' : null,
            axes: [axis],
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
