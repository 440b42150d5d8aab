import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { layoutOf, meshes, shapes, uses } from '../../test/support/layouts.ts'
import { elementCount } from '../graph/index.ts'
import {
  allCoordinates,
  blockElements,
  blockShape,
  coordinatesAt,
  heldBlock,
  heldBytes,
  isOwner,
  largestBlockShape,
  largestBytes,
  type Mesh,
  meshSize,
  parseLayout,
  placeAt,
  sameHolders,
} from './index.ts'

const cases = fc.record({ mesh: meshes, shape: shapes, drawn: uses(true) })

describe('blocks', () => {
  it('are cut by the outer axis first, each part by the next, the first ones larger', () => {
    const mesh: Mesh = {
      axes: [
        { name: 'a', size: 2 },
        { name: 'b', size: 3 },
      ],
    }
    const rows = (text: string): string[] =>
      allCoordinates(mesh).map((own) => {
        const { starts, ends } = heldBlock(parseLayout(text), [11], mesh, own)
        return `${starts[0]}-${ends[0]}`
      })
    // 11 = 6 + 5 = (2 + 2 + 2) + (2 + 2 + 1), and 11 = 4 + 4 + 3 = (2 + 2) + (2 + 2) + (2 + 1).
    expect(rows('[a, b]')).toEqual(['0-2', '2-4', '4-6', '6-8', '8-10', '10-11'])
    expect(rows('[b, a]')).toEqual(['0-2', '4-6', '8-10', '2-4', '6-8', '10-11'])
    expect(rows('[b]')).toEqual(['0-4', '4-8', '8-11', '0-4', '4-8', '8-11'])
  })

  it('of owners tile the tensor once, are none empty, and none larger than the first', () => {
    fc.assert(
      fc.property(cases, ({ mesh, shape, drawn }) => {
        const layout = layoutOf(
          { ...drawn, use: drawn.use.map((use) => (typeof use === 'number' ? use : 'none')) },
          shape,
          mesh,
        )
        const covered = new Array<number>(elementCount(shape)).fill(0)
        const largest = largestBlockShape(layout, shape, mesh)
        expect(largest).toEqual(blockShape(heldBlock(layout, shape, mesh, coordinatesAt(mesh, 0))))
        for (const own of allCoordinates(mesh)) {
          const block = heldBlock(layout, shape, mesh, own)
          expect(blockElements(block)).toBeGreaterThan(0)
          expect(blockShape(block).every((size, dim) => size <= largest[dim]!)).toBe(true)
          if (!isOwner(layout, mesh, own)) continue
          covered.forEach((_, at) => {
            let rest = at
            const inside = [...shape.keys()].reverse().every((dim) => {
              const index = rest % shape[dim]!
              rest = Math.floor(rest / shape[dim]!)
              return index >= block.starts[dim]! && index < block.ends[dim]!
            })
            if (inside) covered[at]!++
          })
        }
        expect(covered.every((count) => count === 1)).toBe(true)
      }),
      { numRuns: 60 },
    )
  })

  it('are held by those who differ only along axes that are named nowhere', () => {
    fc.assert(
      fc.property(cases, ({ mesh, shape, drawn }) => {
        const layout = layoutOf(drawn, shape, mesh)
        const named = [...layout.dims.flat(), ...Object.keys(layout.partial), ...layout.varying]
        for (const own of allCoordinates(mesh)) {
          const expected = allCoordinates(mesh).flatMap((other, place) =>
            named.every((axis) => other[axis] === own[axis]) ? [place] : [],
          )
          expect(sameHolders(layout, mesh, own)).toEqual(expected)
          expect(isOwner(layout, mesh, own)).toBe(expected[0] === placeAt(mesh, own))
        }
      }),
      { numRuns: 40 },
    )
  })

  it('takes as many bytes as full over shards, rounded up where uneven', () => {
    const mesh: Mesh = {
      axes: [
        { name: 'a', size: 2 },
        { name: 'b', size: 3 },
      ],
    }
    const type = { dtype: 'f32', shape: [10, 7] } as const
    const layout = parseLayout('[a | b]')
    expect(meshSize(mesh)).toBe(6)
    expect(largestBytes(layout, type, mesh)).toBe(4 * 5 * 3)
    expect(allCoordinates(mesh).map((own) => heldBytes(layout, type, mesh, own))).toEqual([
      60, 40, 40, 60, 40, 40,
    ])
  })
})
