import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { elementCount } from '../graph/index.ts'
import { heldParts, localElements, localShape, wholeElement } from './shards.ts'
import type { BufferSpec, MeshAxis, PackEntry } from './types.ts'

/** Every rank of a sub-mesh, by its coordinates. */
function places(submesh: readonly MeshAxis[]): Record<string, number>[] {
  return submesh.reduce<Record<string, number>[]>(
    (all, { name, size }) =>
      all.flatMap((place) => Array.from({ length: size }, (_, index) => ({ ...place, [name]: index }))),
    [{}],
  )
}

/** The block of a tensor by its definition, element by element: indices into the whole; -1 for padding. */
function blockByHand(entry: PackEntry, submesh: readonly MeshAxis[], own: Record<string, number>): number[] {
  const { shape, axes } = entry.block ?? { shape: entry.shape, axes: entry.shape.map(() => []) }
  const size = (axis: string): number => submesh.find(({ name }) => name === axis)!.size
  const ranges = shape.map((length, dim) => {
    let [start, count] = [0, length]
    for (const axis of axes[dim]!) {
      count /= size(axis)
      start += own[axis]! * count
    }
    return { start, end: start + count }
  })
  const found: number[] = []
  const total = elementCount(shape)
  for (let element = 0; element < total; element++) {
    let rest = element
    const index = shape.map((_, dim) => {
      const stride = elementCount(shape.slice(dim + 1))
      const at = Math.floor(rest / stride)
      rest %= stride
      return at
    })
    if (index.every((at, dim) => ranges[dim]!.start <= at && at < ranges[dim]!.end))
      found.push(element < elementCount(entry.shape) ? element : -1)
  }
  return found
}

const submesh: readonly MeshAxis[] = [
  { name: 'data', size: 2 },
  { name: 'x', size: 2 },
  { name: 'y', size: 3 },
]

/** A tensor that is cut along x and y, or one of them, or not at all, with rows of padding where `pad` says so. */
const entry: fc.Arbitrary<Omit<PackEntry, 'offset'>> = fc
  .record({
    sizes: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3 }),
    x: fc.nat(3),
    y: fc.nat(3),
    inner: fc.boolean(),
    pad: fc.boolean(),
    cut: fc.boolean(),
  })
  .map(({ sizes, x, y, inner, pad, cut }) => {
    const axes = sizes.map((_, dim) => {
      const own = [...(dim === x ? ['x'] : []), ...(dim === y ? ['y'] : [])]
      return inner ? own.toReversed() : own
    })
    const seen = sizes.map((size, dim) =>
      axes[dim]!.reduce((product, axis) => product * (axis === 'x' ? 2 : 3), size),
    )
    const first = pad && cut && seen[0]! > 1 ? seen[0]! - 1 : seen[0]!
    const shape = [first, elementCount(seen.slice(1))]
    return { name: 't', shape, owned: true, ...(cut ? { block: { shape: seen, axes } } : {}) }
  })

function packOf(entries: readonly Omit<PackEntry, 'offset'>[]): PackEntry[] {
  let offset = 0
  return entries.map((one, index) => {
    const placed = { ...one, name: `t${index}`, offset }
    offset += localElements(placed, submesh)
    return placed
  })
}

describe('blocks', () => {
  it('hold what their dims and axes say, in row-major order', () => {
    fc.assert(
      fc.property(fc.array(entry, { minLength: 1, maxLength: 3 }), (entries) => {
        const pack = packOf(entries)
        const last = pack.at(-1)!
        const shape = [last.offset + localElements(last, submesh)]
        for (const own of places(submesh)) {
          const held = new Map(pack.map((one) => [one, Array(localElements(one, submesh)).fill(-1)]))
          for (const { entry: of, start, end, local } of heldParts({ shape, pack }, submesh, own))
            for (let index = 0; index < end - start; index++)
              held.get(of)![local - of.offset + index] = start + index
          for (const [of, elements] of held) {
            const wanted = blockByHand(of, submesh, own)
            expect(elements).toEqual(wanted)
            expect(wanted.map((_, index) => wholeElement(of, submesh, own, index) ?? -1)).toEqual(wanted)
          }
        }
      }),
      { numRuns: 60 },
    )
  })

  it('are the whole tensor, each element once, also where ZeRO deals them out in mid-row', () => {
    fc.assert(
      fc.property(fc.array(entry, { minLength: 1, maxLength: 3 }), fc.nat(2), (entries, cut) => {
        const pack = packOf(entries)
        const last = pack.at(-1)!
        const filled = last.offset + localElements(last, submesh)
        const middle = pack[cut % pack.length]!.offset
        const even = (start: number, end: number): number => start + Math.ceil((end - start) / 2) * 2
        // A second segment begins with some tensor, behind the padding of the first.
        const end = even(0, middle)
        const moved = pack.map((one) =>
          one.offset < middle ? one : { ...one, offset: one.offset - middle + end },
        )
        const total = even(end, filled - middle + end)
        const segments = [
          { start: 0, end },
          { start: end, end: total },
        ].filter((segment) => segment.end > segment.start)
        const buffer: Pick<BufferSpec, 'shape' | 'shard' | 'pack'> = {
          shape: [total / 2],
          shard: { axes: ['data'], segments },
          pack: moved,
        }
        const counts = new Map(moved.map((one) => [one.name, new Array(elementCount(one.shape)).fill(0)]))
        for (const own of places(submesh))
          for (const part of heldParts(buffer, submesh, own)) {
            expect(part.local + part.end - part.start).toBeLessThanOrEqual(total / 2)
            for (let at = part.start; at < part.end; at++) counts.get(part.entry.name)![at]++
          }
        for (const one of moved) {
          const copies = 6 / (elementCount(one.block?.shape ?? []) / localElements(one, submesh) || 1)
          const wanted = one.block === undefined ? 6 : copies
          expect(new Set(counts.get(one.name))).toEqual(new Set([wanted]))
        }
      }),
      { numRuns: 60 },
    )
  })

  it('of a tensor whose heads are cut are three ranges of every row', () => {
    const heads: PackEntry = {
      name: 'qkv',
      shape: [2, 12],
      offset: 0,
      owned: true,
      block: { shape: [2, 3, 2, 2], axes: [[], [], ['x'], []] },
    }
    expect(localShape(heads, submesh)).toEqual([2, 3, 1, 2])
    const parts = heldParts({ shape: [12], pack: [heads] }, submesh, { data: 0, x: 1, y: 0 })
    expect(parts.map(({ start, end }) => [start, end])).toEqual([
      [2, 4],
      [6, 8],
      [10, 12],
      [14, 16],
      [18, 20],
      [22, 24],
    ])
  })
})
