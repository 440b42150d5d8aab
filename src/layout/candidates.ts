import { reductionsCommute } from './check.ts'
import { commonPrefix, exchangeAxes, isPermutation } from './exchange.ts'
import { replicaAxes, sameDims, withDim, withoutPartial, withPartial } from './layout.ts'
import { axesSize } from './mesh.ts'
import type { Step, StepKind } from './steps.ts'
import type { Layout, Mesh, PartialReduction } from './types.ts'

export interface Goal {
  readonly shape: readonly number[]
  readonly mesh: Mesh
  readonly to: Layout
  /** How many outermost axes of each dim both ends have: those never move. */
  readonly fixed: readonly number[]
  readonly regular: boolean
}

export function goalOf(
  shape: readonly number[],
  mesh: Mesh,
  from: Layout,
  to: Layout,
  { regular = false }: { readonly regular?: boolean } = {},
): Goal {
  return { shape, mesh, to, regular, fixed: from.dims.map((axes, dim) => commonPrefix(axes, to.dims[dim]!)) }
}

/** Every single step from a layout that may lead on to the goal's. `last` is the kind of the step that led there. */
export function stepsFrom(before: Layout, goal: Goal, last: StepKind | undefined): Step[] {
  // What an exchange moves gets less only by a reduction.
  const mayExchange = last === undefined || last === 'reduceScatter' || last === 'allReduce'
  return [
    ...localSteps(before, goal),
    ...gathers(before, goal),
    ...reductions(before, goal),
    ...allToAlls(before, goal),
    ...(mayExchange ? exchanges(before, goal) : []),
  ]
}

function fits(layout: Layout, dim: number, { shape, mesh, regular }: Goal): boolean {
  const parts = axesSize(mesh, layout.dims[dim]!)
  return regular ? shape[dim]! % parts === 0 : parts <= shape[dim]!
}

function localSteps(before: Layout, goal: Goal): Step[] {
  const { to, mesh } = goal
  const steps: Step[] = []
  const wanted = to.dims.flat()
  for (const axis of replicaAxes(before, mesh)) {
    const reduce = to.partial[axis]
    if (reduce !== undefined && reductionsCommute([reduce, ...Object.values(before.partial)]))
      steps.push({
        kind: 'keepOne',
        axes: [axis],
        reduce,
        before,
        after: withPartial(before, [axis], reduce),
      })
    if (to.varying.includes(axis)) {
      const after = { ...before, varying: [...before.varying, axis].sort() }
      steps.push({ kind: 'vary', axes: [axis], before, after })
    }
    if (!wanted.includes(axis)) continue
    before.dims.forEach((axes, dim) => {
      const after = withDim(before, dim, [...axes, axis])
      if (fits(after, dim, goal)) steps.push({ kind: 'slice', axes: [axis], before, after })
    })
  }
  return steps
}

function gathers(before: Layout, { fixed }: Goal): Step[] {
  return before.dims.flatMap((axes, dim): Step[] => {
    if (axes.length <= fixed[dim]!) return []
    const after = withDim(before, dim, axes.slice(0, -1))
    return [{ kind: 'allGather', dim, axes: axes.slice(-1), before, after }]
  })
}

function reductions(before: Layout, goal: Goal): Step[] {
  const pending = Object.entries(before.partial).filter(([axis, reduce]) => goal.to.partial[axis] !== reduce)
  const steps: Step[] = pending.flatMap(([axis, reduce]) =>
    before.dims.flatMap((axes, dim): Step[] => {
      const after = withDim(withoutPartial(before, [axis]), dim, [...axes, axis])
      return fits(after, dim, goal)
        ? [{ kind: 'reduceScatter', dim, axes: [axis], reduce, before, after }]
        : []
    }),
  )
  // Together an all-reduce over several axes moves less than one after the other.
  for (const reduce of ['sum', 'max', 'mean'] satisfies PartialReduction[]) {
    const axes = pending.flatMap(([axis, own]) => (own === reduce ? [axis] : []))
    for (const chosen of subsets(inMeshOrder(axes, goal.mesh)))
      steps.push({ kind: 'allReduce', axes: chosen, reduce, before, after: withoutPartial(before, chosen) })
  }
  return steps
}

function allToAlls(before: Layout, goal: Goal): Step[] {
  const { fixed } = goal
  const steps: Step[] = []
  before.dims.forEach((axes, fromDim) => {
    const axis = axes.at(-1)
    if (axis === undefined || axes.length <= fixed[fromDim]!) return
    before.dims.forEach((others, toDim) => {
      if (toDim === fromDim) return
      const after = withDim(withDim(before, fromDim, axes.slice(0, -1)), toDim, [...others, axis])
      if (fits(after, toDim, goal))
        steps.push({ kind: 'allToAll', fromDim, toDim, axes: [axis], before, after })
    })
  })
  return steps
}

/** The dims become the goal's at once, where no axis of theirs has another use yet. */
function exchanges(before: Layout, { shape, mesh, to, regular }: Goal): Step[] {
  if (regular) return []
  const blocked = to.dims
    .flat()
    .some((axis) => before.partial[axis] !== undefined || before.varying.includes(axis))
  if (blocked || sameDims(before.dims, to.dims)) return []
  const kind = isPermutation(shape, mesh, before.dims, to.dims) ? 'permute' : 'exchange'
  const axes = exchangeAxes(before.dims, to.dims, mesh)
  return [{ kind, axes, before, after: { ...before, dims: to.dims } }]
}

export function inMeshOrder(axes: readonly string[], mesh: Mesh): string[] {
  return mesh.axes.map(({ name }) => name).filter((name) => axes.includes(name))
}

function subsets(items: readonly string[]): string[][] {
  let all: string[][] = [[]]
  for (const item of items) all = [...all, ...all.map((subset) => [...subset, item])]
  return all.slice(1)
}
