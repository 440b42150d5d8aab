import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { layoutOf, meshes, shapes, uses } from '../../test/support/layouts.ts'
import { elementCount } from '../graph/index.ts'
import {
  allCoordinates,
  blockElements,
  coordinatesAt,
  heldBlock,
  intersection,
  type Mesh,
  meshSize,
  parseLayout,
  redistributeAcross,
} from './index.ts'

const drawn = fc.record({
  shape: shapes,
  source: meshes,
  target: meshes,
  from: uses(false),
  to: uses(false),
  offset: fc.nat(6),
})

const line = (name: string, size: number, first: number): Mesh => ({
  axes: [{ name, size }],
  ranks: Array.from({ length: size }, (_, index) => first + index),
})

describe('redistribution between meshes', () => {
  it('brings every rank each element once, from a rank that holds it, and moves nothing that is there', () => {
    fc.assert(
      fc.property(drawn, ({ shape, source: mesh, target: other, from, to, offset }) => {
        const target = {
          ...other,
          ranks: Array.from({ length: meshSize(other) }, (_, place) => place + offset),
        }
        const layout = layoutOf(from, shape, mesh)
        const use = to.use.map((own) => (typeof own === 'number' ? own : 'none'))
        const wanted = layoutOf({ ...to, use }, shape, target)
        const type = { dtype: 'f32', shape } as const
        const plan = redistributeAcross(type, { mesh, layout }, { mesh: target, layout: wanted })
        expect(plan.reduction.from).toEqual(layout)
        expect(plan.reduction.to.partial).toEqual({})
        const held = (rank: number) =>
          rank < meshSize(mesh)
            ? heldBlock(plan.reduction.to, shape, mesh, coordinatesAt(mesh, rank))
            : undefined
        let crossing = 0
        allCoordinates(target).forEach((own, place) => {
          const block = heldBlock(wanted, shape, target, own)
          const mine = plan.transfers.filter((transfer) => transfer.to === place + offset)
          mine.forEach((transfer, index) => {
            const source = held(transfer.from)!
            expect(intersection(transfer.block, source)).toEqual(transfer.block)
            expect(intersection(transfer.block, block)).toEqual(transfer.block)
            for (const earlier of mine.slice(0, index))
              expect(blockElements(intersection(transfer.block, earlier.block))).toBe(0)
            const own = held(transfer.to)
            const isThere = own !== undefined && blockElements(intersection(own, transfer.block)) > 0
            expect(transfer.from === transfer.to).toBe(isThere)
            if (!isThere) crossing += transfer.bytes
          })
          const elements = mine.reduce((sum, transfer) => sum + blockElements(transfer.block), 0)
          expect(elements).toBe(blockElements(block))
        })
        expect(plan.wireBytes).toBe(plan.reduction.wireBytes + crossing)
      }),
      { numRuns: 150 },
    )
  })

  it('splits and joins rows between unequal replicas: 2 to 3 and 3 to 2', () => {
    const type = { dtype: 'f32', shape: [6, 5] } as const
    const layout = parseLayout('[data | .]')
    const plan = redistributeAcross(
      type,
      { mesh: line('data', 2, 0), layout },
      { mesh: line('data', 3, 2), layout },
    )
    expect(plan.transfers.map(({ from, to, block }) => [from, to, block.starts[0], block.ends[0]])).toEqual([
      [0, 2, 0, 2],
      [0, 3, 2, 3],
      [1, 3, 3, 4],
      [1, 4, 4, 6],
    ])
    expect(plan.wireBytes).toBe(4 * elementCount(type.shape))
  })

  it('spreads the load over those who hold the same, in order', () => {
    const type = { dtype: 'f32', shape: [4] } as const
    const layout = parseLayout('[.]')
    const pairs = (senders: number, receivers: number) =>
      redistributeAcross(
        type,
        { mesh: line('tensor', senders, 0), layout },
        { mesh: line('tensor', receivers, senders), layout },
      ).transfers.map(({ from, to }) => [from, to - senders])
    expect(pairs(2, 2)).toEqual([
      [0, 0],
      [1, 1],
    ])
    expect(pairs(4, 2)).toEqual([
      [0, 0],
      [2, 1],
    ])
    expect(pairs(2, 4)).toEqual([
      [0, 0],
      [0, 1],
      [1, 2],
      [1, 3],
    ])
  })

  it('moves the experts’ tokens between two factorisations of the same ranks', () => {
    const dense: Mesh = {
      axes: [
        { name: 'data', size: 2 },
        { name: 'tensor', size: 2 },
      ],
    }
    const experts: Mesh = { axes: [{ name: 'expert', size: 4 }] }
    const type = { dtype: 'f32', shape: [8, 3] } as const
    const plan = redistributeAcross(
      type,
      { mesh: dense, layout: parseLayout('[data | .]') },
      { mesh: experts, layout: parseLayout('[expert | .]') },
    )
    expect(plan.wireBytes).toBe(0)
  })

  it.each([
    ['[.] varying data', '[.]', 'partial mean data'],
    ['[.]', '[.] partial sum data', 'make terms of it there'],
  ])('refuses %s to %s', (from, to, hint) => {
    const type = { dtype: 'f32', shape: [4] } as const
    const located = (text: string, first: number) => ({
      mesh: line('data', 2, first),
      layout: parseLayout(text),
    })
    expect(() => redistributeAcross(type, located(from, 0), located(to, 2))).toThrow(
      expect.objectContaining({ code: 'LAYOUT_CROSSING', hint: expect.stringContaining(hint) }),
    )
  })
})
