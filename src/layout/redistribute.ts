import { MeshwrightError } from '../base/index.ts'
import { bytesPerElement, type TensorType } from '../graph/index.ts'
import { goalOf } from './candidates.ts'
import { checkLayout } from './check.ts'
import { withDim } from './layout.ts'
import { cheapestSteps } from './search.ts'
import { type Step, sentElements, stepElements } from './steps.ts'
import { printLayout } from './text.ts'
import type { Coordinates, Layout, Mesh } from './types.ts'

/** How a tensor gets from one layout to another of the same mesh. */
export interface Redistribution {
  readonly type: TensorType
  readonly mesh: Mesh
  readonly from: Layout
  readonly to: Layout
  readonly steps: readonly Step[]
  /** That all ranks together put on the wire. */
  readonly wireBytes: number
}

export interface RedistributeOptions {
  /** Only what all ranks do alike, in equal parts: no `permute` or `exchange`, no block that is uneven on the way. */
  readonly regular?: boolean
}

/**
 * The cheapest redistribution of a tensor of the whole type `type`. Both layouts must be valid for it (`checkLayout`).
 * Terms are reduced where the target has none, a whole becomes terms where the target has some. Values that vary may not
 * become anything else, and terms may not be taken for values: MeshwrightError `LAYOUT_VARYING`. Where the layouts agree
 * there are no steps.
 */
export function redistribute(
  type: TensorType,
  mesh: Mesh,
  from: Layout,
  to: Layout,
  options: RedistributeOptions = {},
): Redistribution {
  checkLayout(from, type.shape, mesh)
  checkLayout(to, type.shape, mesh)
  checkVarying(from, to)
  const steps = merged(cheapestSteps(from, goalOf(type.shape, mesh, from, to, options)))
  const elements = steps.reduce((sum, step) => sum + stepElements(step, type.shape, mesh), 0)
  return { type, mesh, from, to, steps, wireBytes: elements * bytesPerElement[type.dtype] }
}

/** Bytes that the rank at `own` puts on the wire in one step. */
export function sentBytes({ type, mesh }: Redistribution, step: Step, own: Coordinates): number {
  return sentElements(step, type.shape, mesh, own) * bytesPerElement[type.dtype]
}

function checkVarying(from: Layout, to: Layout): void {
  for (const axis of from.varying)
    if (!to.varying.includes(axis))
      throw new MeshwrightError(
        'LAYOUT_VARYING',
        `values vary along ${axis} in ${printLayout(from)}: ranks differ on purpose, so nothing says which of them ` +
          `${printLayout(to)} is to hold`,
        { hint: `if their mean is meant, the values are terms of it: partial mean ${axis}` },
      )
  for (const axis of to.varying)
    if (from.partial[axis] !== undefined || from.dims.some((axes) => axes.includes(axis)))
      throw new MeshwrightError(
        'LAYOUT_VARYING',
        `what ${printLayout(from)} holds along ${axis} cannot be read as values that vary, as ${printLayout(to)} has it`,
        {
          hint: 'reduce or gather it first; to leave a sum out on purpose is an op of the graph, not a layout',
        },
      )
}

/** Steps of one kind that follow each other, on one dim where it has one, are one over all their axes. */
function merged(steps: readonly Step[]): Step[] {
  const result: Step[] = []
  for (const step of gathersByDim(steps)) {
    const last = result.at(-1)
    const joined = last === undefined ? undefined : join(last, step)
    if (joined === undefined) result.push(step)
    else result[result.length - 1] = joined
  }
  return result
}

/** Of gathers that follow each other, those of one dim side by side: their order does not change what they move. */
function gathersByDim(steps: readonly Step[]): Step[] {
  const result: Step[] = []
  for (let at = 0; at < steps.length; ) {
    const run: Extract<Step, { kind: 'allGather' }>[] = []
    for (let step = steps[at]; step?.kind === 'allGather'; step = steps[++at]) run.push(step)
    let before = run[0]?.before
    for (const step of run.sort((left, right) => left.dim - right.dim)) {
      const gathered = before!.dims[step.dim]!.slice(0, -step.axes.length)
      const after = withDim(before!, step.dim, gathered)
      result.push({ ...step, before: before!, after })
      before = after
    }
    const other = steps[at]
    if (other !== undefined) result.push(other)
    at++
  }
  return result
}

function join(first: Step, second: Step): Step | undefined {
  const { before } = first
  const { after } = second
  const appended = [...first.axes, ...second.axes]
  if (first.kind === 'slice' && second.kind === 'slice') return { ...first, axes: appended, before, after }
  if (first.kind === 'allGather' && second.kind === 'allGather' && first.dim === second.dim)
    return { ...first, axes: [...second.axes, ...first.axes], before, after }
  const scatters = first.kind === 'reduceScatter' && second.kind === 'reduceScatter'
  if (scatters && first.dim === second.dim && first.reduce === second.reduce)
    return { ...first, axes: appended, before, after }
  if (first.kind === 'keepOne' && second.kind === 'keepOne' && first.reduce === second.reduce)
    return { ...first, axes: appended, before, after }
  return undefined
}
