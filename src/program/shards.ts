import { elementCount } from '../graph/index.ts'
import { axisSize, type Coordinates, placeAlong } from './mesh.ts'
import type { BufferSpec, MeshAxis, PackEntry, Region, Shard } from './types.ts'

/** A range of a whole pack's elements, and where on the rank it begins. */
export interface HeldBlock extends Region {
  readonly local: number
}

/** Elements of a pack's tensor that the rank holds: `start` to `end` of the whole tensor, from `local` on the rank. */
export interface HeldPart extends HeldBlock {
  readonly entry: PackEntry
}

/** Into how many shards a pack is dealt at one pipeline coordinate. */
export function shardCount({ axes }: Shard, submesh: readonly MeshAxis[]): number {
  return axes.reduce((count, axis) => count * axisSize(submesh, axis), 1)
}

/** Elements of the pack that the rank at `own` holds, in the order in which it holds them: all of them without a shard. */
export function heldBlocks(
  { shape, shard }: Pick<BufferSpec, 'shape' | 'shard'>,
  submesh: readonly MeshAxis[],
  own: Coordinates['axes'],
): HeldBlock[] {
  if (shard === undefined) return [{ start: 0, end: elementCount(shape), local: 0 }]
  const count = shardCount(shard, submesh)
  const place = placeAlong(shard.axes, submesh, own)
  let local = 0
  return shard.segments.map(({ start, end }) => {
    const elements = (end - start) / count
    const block = { start: start + place * elements, end: start + (place + 1) * elements, local }
    local += elements
    return block
  })
}

/**
 * Where tensors of the pack lie on the rank at `own`, in the order of its elements: `start` to `end` of what the rank
 * has of the tensor where nothing is dealt out (see `localElements`), from `local` on.
 */
export function heldRanges(
  buffer: Pick<BufferSpec, 'shape' | 'shard' | 'pack'>,
  submesh: readonly MeshAxis[],
  own: Coordinates['axes'],
): HeldPart[] {
  return heldBlocks(buffer, submesh, own).flatMap((block) =>
    (buffer.pack ?? []).flatMap((entry): HeldPart[] => {
      const start = Math.max(block.start, entry.offset)
      const end = Math.min(block.end, entry.offset + localElements(entry, submesh))
      if (start >= end) return []
      return [
        {
          entry,
          start: start - entry.offset,
          end: end - entry.offset,
          local: block.local + start - block.start,
        },
      ]
    }),
  )
}

/**
 * The pack's tensors as the rank at `own` holds them, in the order of its elements: of a block as many ranges as it has
 * contiguous runs in the whole tensor. Rows of padding are in none.
 */
export function heldParts(
  buffer: Pick<BufferSpec, 'shape' | 'shard' | 'pack'>,
  submesh: readonly MeshAxis[],
  own: Coordinates['axes'],
): HeldPart[] {
  return heldRanges(buffer, submesh, own).flatMap((range) => {
    const { entry, start, end, local } = range
    if (entry.block === undefined) return [range]
    const whole = elementCount(entry.shape)
    const { run, at } = blockRuns(entry, submesh, own)
    const parts: HeldPart[] = []
    for (let place = start; place < end; ) {
      const index = Math.floor(place / run)
      const stop = Math.min(end, (index + 1) * run)
      const first = at(index) + place - index * run
      const last = Math.min(whole, first + stop - place)
      if (first < last) parts.push({ entry, start: first, end: last, local: local + place - start })
      place = stop
    }
    return parts
  })
}

/** Which element of the whole tensor the rank at `own` has at `index` of its block; undefined where that is padding. */
export function wholeElement(
  entry: PackEntry,
  submesh: readonly MeshAxis[],
  own: Coordinates['axes'],
  index: number,
): number | undefined {
  if (entry.block === undefined) return index
  const { run, at } = blockRuns(entry, submesh, own)
  const element = at(Math.floor(index / run)) + (index % run)
  return element < elementCount(entry.shape) ? element : undefined
}

/** Dims of what a rank has of a tensor: of its block, seen with the block's dims, where it has one. */
export function localShape(
  { shape, block }: Pick<PackEntry, 'shape' | 'block'>,
  submesh: readonly MeshAxis[],
): readonly number[] {
  if (block === undefined) return shape
  return block.shape.map((size, dim) => size / cutCount(block.axes[dim] ?? [], submesh))
}

/** Elements that a rank has of a tensor where ZeRO does not deal them out, rows of padding among them. */
export function localElements(
  entry: Pick<PackEntry, 'shape' | 'block'>,
  submesh: readonly MeshAxis[],
): number {
  return elementCount(localShape(entry, submesh))
}

/** Axes along which ranks have different parts of a tensor. */
export function blockAxes({ block }: Pick<PackEntry, 'block'>): string[] {
  return block?.axes.flat() ?? []
}

/** Elements of one shard of segments of the given lengths, each a multiple of the number of shards. */
export function shardElements({ segments }: Shard, count: number): number {
  return segments.reduce((sum, { start, end }) => sum + (end - start) / count, 0)
}

function cutCount(axes: readonly string[], submesh: readonly MeshAxis[]): number {
  return axes.reduce((count, axis) => count * axisSize(submesh, axis), 1)
}

/** How long the contiguous runs of a block are, and where in the whole tensor (with its padding) each of them begins. */
function blockRuns(
  entry: PackEntry,
  submesh: readonly MeshAxis[],
  own: Coordinates['axes'],
): { readonly run: number; readonly at: (index: number) => number } {
  const { shape, axes } = entry.block!
  const local = localShape(entry, submesh)
  const lastCut = local.findLastIndex((size, dim) => size !== shape[dim])
  const run = elementCount(local.slice(Math.max(0, lastCut)))
  const strides = shape.map((_, dim) => elementCount(shape.slice(dim + 1)))
  const origin = local.reduce(
    (sum, size, dim) => sum + placeAlong(axes[dim] ?? [], submesh, own) * size * strides[dim]!,
    0,
  )
  const at = (index: number): number => {
    let rest = index
    let element = origin
    for (let dim = lastCut - 1; dim >= 0; dim--) {
      element += (rest % local[dim]!) * strides[dim]!
      rest = Math.floor(rest / local[dim]!)
    }
    return element
  }
  return { run, at }
}
