import { assertNever } from '../base/index.ts'
import { blockElements, heldBlock, partOf } from './blocks.ts'
import { fetchesOf } from './exchange.ts'
import { axesSize, groupAlong, placeAlong, placeAt } from './mesh.ts'
import { lackingElements, wantedElements } from './overlap.ts'
import type { Coordinates, Layout, Mesh, PartialReduction } from './types.ts'
import { gatherSent, ringTotal, scatterSent } from './wire.ts'

interface StepBase {
  readonly before: Layout
  readonly after: Layout
  /** Groups are the ranks that differ only along these, outermost first, the last fastest. */
  readonly axes: readonly string[]
}

/**
 * One change of a tensor's layout.
 *
 * - `slice`: local; each rank keeps its part of dims that are cut further
 * - `keepOne`: local; the whole becomes terms: coordinate 0 keeps it, the others take the identity of the reduction (for
 *   `mean` all keep it)
 * - `vary`: nothing moves; from here on replicas may differ
 * - `allGather`: the innermost axes of a dim are gathered
 * - `reduceScatter`: terms are reduced and dealt out, as the innermost cut of a dim
 * - `allReduce`: terms are reduced
 * - `allToAll`: the innermost axis of a dim becomes the innermost of another
 * - `permute`: every rank sends its block whole to one rank
 * - `exchange`: every rank takes what it lacks from ranks that hold it (`fetchesOf`)
 */
export type Step =
  | (StepBase & { readonly kind: 'allGather'; readonly dim: number })
  | (StepBase & { readonly kind: 'reduceScatter'; readonly dim: number; readonly reduce: PartialReduction })
  | (StepBase & { readonly kind: 'allReduce' | 'keepOne'; readonly reduce: PartialReduction })
  | (StepBase & { readonly kind: 'allToAll'; readonly fromDim: number; readonly toDim: number })
  | (StepBase & { readonly kind: 'slice' | 'permute' | 'exchange' | 'vary' })

export type StepKind = Step['kind']

/** Elements that all ranks of the mesh together put on the wire. */
export function stepElements(step: Step, shape: readonly number[], mesh: Mesh): number {
  const members = axesSize(mesh, step.axes)
  const held = ({ dims }: Layout): number => wantedElements(shape, mesh, dims)
  switch (step.kind) {
    case 'slice':
    case 'keepOne':
    case 'vary':
      return 0
    case 'allGather':
      return ringTotal(step.kind, held(step.after) / members, members)
    case 'reduceScatter':
    case 'allReduce':
      return ringTotal(step.kind, held(step.before) / members, members)
    case 'allToAll':
      // Where one of the two cuts is even every rank keeps one part of as many as members.
      if (isEven(step.before, step.fromDim, shape, mesh) || isEven(step.after, step.toDim, shape, mesh))
        return ringTotal(step.kind, held(step.before) / members, members)
      return lackingElements(shape, mesh, step.before.dims, step.after.dims)
    case 'permute':
    case 'exchange':
      return lackingElements(shape, mesh, step.before.dims, step.after.dims)
    default:
      return assertNever(step)
  }
}

function isEven({ dims }: Layout, dim: number, shape: readonly number[], mesh: Mesh): boolean {
  return shape[dim]! % axesSize(mesh, dims[dim]!) === 0
}

/** Elements that the rank at `own` puts on the wire. */
export function sentElements(step: Step, shape: readonly number[], mesh: Mesh, own: Coordinates): number {
  const elementsOf = (layout: Layout, rank: Coordinates): number =>
    blockElements(heldBlock(layout, shape, mesh, rank))
  const place = placeAlong(mesh, step.axes, own)
  switch (step.kind) {
    case 'slice':
    case 'keepOne':
    case 'vary':
      return 0
    case 'allGather': {
      const blocks = groupAlong(mesh, step.axes, own).map((member) => elementsOf(step.before, member))
      return gatherSent(blocks, place)
    }
    case 'reduceScatter': {
      const blocks = groupAlong(mesh, step.axes, own).map((member) => elementsOf(step.after, member))
      return scatterSent(blocks, place)
    }
    case 'allReduce': {
      const blocks = allReduceParts(elementsOf(step.before, own), axesSize(mesh, step.axes))
      return scatterSent(blocks, place) + gatherSent(blocks, place)
    }
    case 'allToAll':
    case 'permute':
    case 'exchange':
      return groupAlong(mesh, step.axes, own)
        .flatMap((member) => fetchesOf(shape, mesh, step.before.dims, step.after.dims, member))
        .filter(({ holder, local }) => !local && placeAt(mesh, holder) === placeAt(mesh, own))
        .reduce((sum, { block }) => sum + blockElements(block), 0)
    default:
      return assertNever(step)
  }
}

/** An all-reduce passes its payload around in as many parts as members, as even as they can be. */
function allReduceParts(elements: number, members: number): number[] {
  return Array.from({ length: members }, (_, index) => {
    const { start, end } = partOf({ start: 0, end: elements }, members, index)
    return end - start
  })
}
