import type { TensorType } from '../../graph/index.ts'
import { axesSize } from '../mesh.ts'
import { type Redistribution, redistribute } from '../redistribute.ts'
import { printLayout } from '../text.ts'
import type { Layout, Mesh } from '../types.ts'
import { type Assignment, inputLayouts, outputLayouts } from './assignment.ts'
import type { CuttableOp } from './cuttable.ts'
import { assignmentsFor } from './enumerate.ts'
import type { WantedLayout } from './target.ts'
import { targetOf } from './target.ts'

/** One way to compute an op on a mesh, from operands as they lie. */
export interface OpPlan {
  readonly assignment: Assignment
  /** Of each operand, to what the op needs; without steps where it lies so already. */
  readonly operands: readonly Redistribution[]
  /** As the op leaves its results. */
  readonly outputs: readonly Layout[]
  /** Of each result that is wanted in a layout, to that. */
  readonly results: readonly (Redistribution | undefined)[]
  /** Of all redistributions. */
  readonly wireBytes: number
  /** Into how many parts the work is cut; other ranks repeat it. */
  readonly parts: number
}

export interface OpPlanRequest {
  readonly mesh: Mesh
  /** How the operands lie. */
  readonly layouts: readonly Layout[]
  /** How each result is wanted; undefined, or left out, where any layout will do. */
  readonly wanted?: readonly (WantedLayout | undefined)[]
}

/**
 * Ways to compute an op: each index cut as an operand has it, or as a wanted result has it, by all of those axes or the
 * outer ones only, or not at all; terms kept where the op passes them. The cheapest first, results included where they are
 * wanted in a layout; of equal ones that which cuts the work most.
 */
export function opPlans(op: CuttableOp, request: OpPlanRequest): OpPlan[] {
  const known = new Map<string, Redistribution>()
  const move = (type: TensorType, from: Layout, to: Layout): Redistribution => {
    const key = `${type.dtype} ${type.shape} ${printLayout(from)} ${printLayout(to)}`
    const found = known.get(key) ?? redistribute(type, request.mesh, from, to, { regular: true })
    known.set(key, found)
    return found
  }
  return assignmentsFor(op, request)
    .filter((assignment) => reaches(outputLayouts(op.signature, assignment), request.wanted))
    .map((assignment) => planOf(op, request, assignment, move))
    .sort((a, b) => a.wireBytes - b.wireBytes || b.parts - a.parts)
}

/** `opPlans` that finds the ways of ops that are alike, from operands that lie alike, once. */
export function rememberedPlans(): typeof opPlans {
  const known = new Map<string, OpPlan[]>()
  return (op, request) => {
    const shown = (layouts: readonly (WantedLayout | undefined)[]): string =>
      layouts
        .map((layout) => (layout === undefined ? '' : `${printLayout(layout)}${layout.keepsTerms ?? ''}`))
        .join(';')
    const key = `${op.key} ${shown(request.layouts)} to ${shown(request.wanted ?? [])}`
    const found = known.get(key) ?? opPlans(op, request)
    known.set(key, found)
    return found
  }
}

/** Whether results that vary are wanted so. */
function reaches(outputs: readonly Layout[], wanted: OpPlanRequest['wanted']): boolean {
  return outputs.every((layout, output) => {
    const target = wanted?.[output]
    return target === undefined || layout.varying.every((axis) => target.varying.includes(axis))
  })
}

function planOf(
  { signature, ...op }: CuttableOp,
  { mesh, layouts, wanted }: OpPlanRequest,
  assignment: Assignment,
  move: (type: TensorType, from: Layout, to: Layout) => Redistribution,
): OpPlan {
  const needed = inputLayouts(signature, assignment, (input, axis) => layouts[input]!.varying.includes(axis))
  const operands = needed.map((layout, input) => move(op.inputs[input]!, layouts[input]!, layout))
  const outputs = outputLayouts(signature, assignment)
  const results = outputs.map((layout, output) => {
    const target = wanted?.[output]
    return target === undefined ? undefined : move(op.outputs[output]!, layout, targetOf(target, layout))
  })
  return {
    assignment,
    operands,
    outputs,
    results,
    wireBytes: [...operands, ...results].reduce((sum, moved) => sum + (moved?.wireBytes ?? 0), 0),
    parts: axesSize(mesh, Object.values(assignment.indices).flat()),
  }
}
