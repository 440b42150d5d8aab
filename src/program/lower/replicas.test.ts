import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { splitModulus, splitPieces } from './replicas.ts'

/** Which rows of the whole one replica exchanges with which of the other side, from the pieces of its role. */
function rowsWith(own: number, other: number, unit: number, replica: number): Map<number, number[]> {
  const lcm = own * other * unit
  const ownRows = lcm / own
  const split = { own, other, ownRows, otherRows: lcm / other, pipeline: 1 }
  const pieces = splitPieces(split, replica % splitModulus(own, other))
  const found = new Map<number, number[]>()
  for (const { peer, region } of pieces) {
    const [axis] = peer.axes
    const there =
      axis === undefined ? replica : Math.floor((axis.scale * replica + axis.offset) / axis.divisor)
    const { start, end } = region ?? { start: 0, end: ownRows }
    for (let row = start; row < end; row++)
      found.set(there, [...(found.get(there) ?? []), replica * ownRows + row])
  }
  return found
}

describe('a split between replicas', () => {
  const count = fc.integer({ min: 1, max: 6 })

  it('sends every row of a replica to who holds it on the other side', () => {
    fc.assert(
      fc.property(count, count, fc.integer({ min: 1, max: 2 }), (own, other, unit) => {
        const rows = own * other * unit
        for (let replica = 0; replica < own; replica++) {
          const expected = new Map<number, number[]>()
          for (let row = (replica * rows) / own; row < ((replica + 1) * rows) / own; row++) {
            const holder = Math.floor(row / (rows / other))
            expected.set(holder, [...(expected.get(holder) ?? []), row])
          }
          expect(rowsWith(own, other, unit, replica)).toEqual(expected)
        }
      }),
    )
  })

  it('says the same from both sides', () => {
    fc.assert(
      fc.property(count, count, (own, other) => {
        for (let replica = 0; replica < own; replica++)
          for (const [there, rows] of rowsWith(own, other, 1, replica))
            expect(rowsWith(other, own, 1, there).get(replica)).toEqual(rows)
      }),
    )
  })

  it.each([
    [1, 1, 1],
    [4, 2, 1],
    [2, 4, 1],
    [3, 2, 3],
    [6, 4, 3],
  ])('of %i and %i makes %i roles', (own, other, roles) => {
    expect(splitModulus(own, other)).toBe(roles)
  })

  it('refuses rows that do not add up', () => {
    const split = { own: 2, other: 1, ownRows: 3, otherRows: 5, pipeline: 1 }
    expect(() => splitPieces(split, 0)).toThrow('internal: 2 x 3 rows cannot become 1 x 5')
  })
})
