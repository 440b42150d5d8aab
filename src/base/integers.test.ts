import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { greatestCommonDivisor, leastCommonMultiple, nearestWorking } from './integers.ts'

describe('divisors and multiples', () => {
  it('are the greatest and the least, by trial', () => {
    const small = fc.integer({ min: 1, max: 60 })
    fc.assert(
      fc.property(small, small, (a, b) => {
        const upTo = (end: number): number[] => Array.from({ length: end }, (_, index) => index + 1)
        expect(greatestCommonDivisor(a, b)).toBe(upTo(a).findLast((size) => a % size === 0 && b % size === 0))
        expect(leastCommonMultiple(a, b)).toBe(upTo(a * b).find((size) => size % a === 0 && size % b === 0))
      }),
    )
  })

  it('take 0 as a multiple of everything', () => {
    expect(greatestCommonDivisor(0, 7)).toBe(7)
    expect(greatestCommonDivisor(7, 0)).toBe(7)
  })
})

describe('nearestWorking', () => {
  const divides = (count: number): boolean => 12 % count === 0

  it('gives one below and one above, without the value itself and within bounds', () => {
    expect(nearestWorking(5, divides, 12)).toEqual([4, 6])
    expect(nearestWorking(6, divides, 12)).toEqual([4, 12])
    expect(nearestWorking(13, divides, 100)).toEqual([12])
    expect(nearestWorking(13, divides, 5)).toEqual([4])
    expect(nearestWorking(1, divides, 12)).toEqual([2])
    expect(nearestWorking(5, () => false, 9)).toEqual([])
  })
})
