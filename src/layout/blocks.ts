import { bytesPerElement, type TensorType } from '../graph/index.ts'
import { replicaAxes } from './layout.ts'
import { axesSize, axisSize, groupAlong, placeAt } from './mesh.ts'
import type { Block, Coordinates, Layout, Mesh } from './types.ts'

export interface Range {
  readonly start: number
  readonly end: number
}

/** Part `index` of `parts` of a range, as even as whole numbers allow: the first ones are one larger. */
export function partOf({ start, end }: Range, parts: number, index: number): Range {
  const size = Math.floor((end - start) / parts)
  const larger = (end - start) % parts
  const from = start + index * size + Math.min(index, larger)
  return { start: from, end: from + size + (index < larger ? 1 : 0) }
}

/** What the rank at `own` holds of a dim of `size` elements: cut by the first axis, the part by the next, … */
export function heldRange(size: number, axes: readonly string[], mesh: Mesh, own: Coordinates): Range {
  let range: Range = { start: 0, end: size }
  for (const axis of axes) range = partOf(range, axisSize(mesh, axis), own[axis] ?? 0)
  return range
}

/** The block of the whole tensor that the rank at `own` holds (of a partial layout: a term of it). */
export function heldBlock(
  layout: Pick<Layout, 'dims'>,
  shape: readonly number[],
  mesh: Mesh,
  own: Coordinates,
): Block {
  const ranges = layout.dims.map((axes, dim) => heldRange(shape[dim]!, axes, mesh, own))
  return { starts: ranges.map(({ start }) => start), ends: ranges.map(({ end }) => end) }
}

export function blockShape({ starts, ends }: Block): number[] {
  return starts.map((start, dim) => ends[dim]! - start)
}

export function blockElements({ starts, ends }: Block): number {
  return starts.reduce((product, start, dim) => product * Math.max(0, ends[dim]! - start), 1)
}

export function intersection(left: Block, right: Block): Block {
  return {
    starts: left.starts.map((start, dim) => Math.max(start, right.starts[dim]!)),
    ends: left.ends.map((end, dim) => Math.min(end, right.ends[dim]!)),
  }
}

/**
 * Shape of the largest block, which the rank at coordinate 0 of every axis holds: nested parts round up as one cut into
 * all of them would.
 */
export function largestBlockShape(
  layout: Pick<Layout, 'dims'>,
  shape: readonly number[],
  mesh: Mesh,
): number[] {
  return layout.dims.map((axes, dim) => Math.ceil(shape[dim]! / axesSize(mesh, axes)))
}

/** Bytes that the rank at `own` holds of a tensor. */
export function heldBytes(
  layout: Pick<Layout, 'dims'>,
  type: TensorType,
  mesh: Mesh,
  own: Coordinates,
): number {
  return blockElements(heldBlock(layout, type.shape, mesh, own)) * bytesPerElement[type.dtype]
}

/** Bytes on the rank that holds most. */
export function largestBytes(layout: Pick<Layout, 'dims'>, type: TensorType, mesh: Mesh): number {
  const elements = largestBlockShape(layout, type.shape, mesh).reduce((product, size) => product * size, 1)
  return elements * bytesPerElement[type.dtype]
}

/** Places of all ranks that hold what the rank at `own` holds, itself included, ascending. */
export function sameHolders(layout: Layout, mesh: Mesh, own: Coordinates): number[] {
  return groupAlong(mesh, replicaAxes(layout, mesh), own)
    .map((member) => placeAt(mesh, member))
    .sort((a, b) => a - b)
}

/** Whether the rank at `own` is the one of those that hold the same which counts it (norms, checkpoints). */
export function isOwner(layout: Layout, mesh: Mesh, own: Coordinates): boolean {
  return replicaAxes(layout, mesh).every((axis) => (own[axis] ?? 0) === 0)
}
