import fc from 'fast-check'
import { expect, test } from 'vitest'
import { pairwiseSubset, wholeGrid } from './pairwise.ts'

type Case = Readonly<Record<string, number>>

const grids = fc
  .array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 5 })
  .map((sizes) =>
    Object.fromEntries(
      sizes.map((size, factor) => [`f${factor}`, Array.from({ length: size }, (_, value) => value)]),
    ),
  )

test('the whole grid has every combination once', () => {
  fc.assert(
    fc.property(grids, (factors) => {
      const grid = wholeGrid<Case>(factors)
      expect(grid).toHaveLength(
        Object.values(factors).reduce((product, values) => product * values.length, 1),
      )
      expect(new Set(grid.map((one) => JSON.stringify(one))).size).toBe(grid.length)
    }),
    { numRuns: 30 },
  )
})

test('every pair that an allowed case holds is in the subset, and no case that is not allowed', () => {
  fc.assert(
    fc.property(grids, fc.integer({ min: 2, max: 5 }), (factors, modulus) => {
      const allowed = (one: Case): boolean =>
        Object.values(one).reduce((sum, value) => sum + value, 0) % modulus !== 1
      const grid = wholeGrid<Case>(factors, allowed)
      const subset = pairwiseSubset<Case>(factors, allowed)
      expect(subset.every(allowed)).toBe(true)
      for (const one of grid)
        for (const a of Object.keys(factors))
          for (const b of Object.keys(factors))
            expect(subset.some((other) => other[a] === one[a] && other[b] === one[b])).toBe(true)
    }),
    { numRuns: 30 },
  )
})

test('the subset is near the least there can be', () => {
  // Four factors of three values: nine cases are the least, as in an orthogonal array L9(3^4).
  const three = [0, 1, 2]
  const subset = pairwiseSubset<Case>({ a: three, b: three, c: three, d: three })
  expect(subset.length).toBeGreaterThanOrEqual(9)
  expect(subset.length).toBeLessThanOrEqual(12)
  expect(pairwiseSubset<Case>({ a: three, b: three })).toHaveLength(9)
})
