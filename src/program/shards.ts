import { elementCount } from '../graph/index.ts'
import type { Coordinates } from './mesh.ts'
import type { BufferSpec, MeshAxis, PackEntry, Region, Shard } from './types.ts'

/** A range of a whole pack's elements, and where on the rank it begins. */
export interface HeldBlock extends Region {
  readonly local: number
}

/** A tensor of a pack, as far as the rank holds it: elements `start` to `end` of the tensor, from `local` on the rank. */
export interface HeldPart extends HeldBlock {
  readonly entry: PackEntry
}

/** Into how many shards a pack is dealt at one pipeline coordinate. */
export function shardCount({ axes }: Shard, submesh: readonly MeshAxis[]): number {
  return axes.reduce((count, axis) => count * (submesh.find(({ name }) => name === axis)?.size ?? 1), 1)
}

/** Elements of the pack that the rank at `own` holds, in the order in which it holds them: all of them without a shard. */
export function heldBlocks(
  { shape, shard }: Pick<BufferSpec, 'shape' | 'shard'>,
  submesh: readonly MeshAxis[],
  own: Coordinates['axes'],
): HeldBlock[] {
  if (shard === undefined) return [{ start: 0, end: elementCount(shape), local: 0 }]
  const count = shardCount(shard, submesh)
  const place = shard.axes.reduce((index, axis) => {
    const size = submesh.find(({ name }) => name === axis)?.size ?? 1
    return index * size + (own[axis] ?? 0)
  }, 0)
  let local = 0
  return shard.segments.map(({ start, end }) => {
    const elements = (end - start) / count
    const block = { start: start + place * elements, end: start + (place + 1) * elements, local }
    local += elements
    return block
  })
}

/** Parts of the pack's tensors that the rank at `own` holds, in the order of its elements. */
export function heldParts(
  buffer: Pick<BufferSpec, 'shape' | 'shard' | 'pack'>,
  submesh: readonly MeshAxis[],
  own: Coordinates['axes'],
): HeldPart[] {
  return heldBlocks(buffer, submesh, own).flatMap((block) =>
    (buffer.pack ?? []).flatMap((entry): HeldPart[] => {
      const start = Math.max(block.start, entry.offset)
      const end = Math.min(block.end, entry.offset + elementCount(entry.shape))
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

/** Elements of one shard of segments of the given lengths, each a multiple of the number of shards. */
export function shardElements({ segments }: Shard, count: number): number {
  return segments.reduce((sum, { start, end }) => sum + (end - start) / count, 0)
}
