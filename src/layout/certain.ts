import { type Goal, inMeshOrder } from './candidates.ts'
import { sameAxes, withDim, withoutPartial, withPartial } from './layout.ts'
import type { Step } from './steps.ts'
import type { Layout, PartialReduction } from './types.ts'

const reductions: readonly PartialReduction[] = ['sum', 'mean', 'max']

/**
 * Steps that lead to the goal whatever the layouts are: terms are reduced, all dims gathered but for what both layouts
 * cut alike, and cut anew. What a search finds is never worse.
 */
export function certainSteps(from: Layout, goal: Goal): Step[] {
  const { to, fixed, mesh } = goal
  const steps: Step[] = []
  let before = from
  const take = (step: Step): void => {
    steps.push(step)
    before = step.after
  }
  for (const reduce of reductions) {
    const axes = inMeshOrder(termsLost(before, to, reduce), mesh)
    if (axes.length > 0)
      take({ kind: 'allReduce', axes, reduce, before, after: withoutPartial(before, axes) })
  }
  from.dims.forEach((axes, dim) => {
    const kept = axes.slice(0, fixed[dim])
    if (kept.length < axes.length)
      take({
        kind: 'allGather',
        dim,
        axes: axes.slice(kept.length),
        before,
        after: withDim(before, dim, kept),
      })
  })
  const cutting = to.dims.flatMap((axes, dim) => axes.slice(fixed[dim]))
  if (cutting.length > 0) take({ kind: 'slice', axes: cutting, before, after: { ...before, dims: to.dims } })
  for (const reduce of reductions) {
    const axes = inMeshOrder(termsLost(to, before, reduce), mesh)
    if (axes.length > 0)
      take({ kind: 'keepOne', axes, reduce, before, after: withPartial(before, axes, reduce) })
  }
  if (!sameAxes(before.varying, to.varying)) {
    const axes = to.varying.filter((axis) => !before.varying.includes(axis))
    take({ kind: 'vary', axes, before, after: { ...before, varying: to.varying } })
  }
  return steps
}

/** Axes of this reduction in `of` that are not so in `other`. */
function termsLost(of: Layout, other: Layout, reduce: PartialReduction): string[] {
  return Object.keys(of.partial).filter(
    (axis) => of.partial[axis] === reduce && other.partial[axis] !== reduce,
  )
}
