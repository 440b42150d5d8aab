import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { evenly, fitLine } from './lines.ts'

describe('a line through points', () => {
  const positive = fc.double({ min: 1e-3, max: 10, noNaN: true })

  it('is the line that they lie on, whatever their weights', () => {
    const points = fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 100 }), positive), {
      minLength: 2,
      maxLength: 6,
      selector: ([bytes]) => bytes,
    })
    fc.assert(
      fc.property(positive, positive, points, (seconds, secondsPerByte, given) => {
        const found = fitLine(
          given.map(([bytes, weight]) => ({ bytes, seconds: seconds + secondsPerByte * bytes, weight })),
        )
        expect(found.secondsPerByte).toBeCloseTo(secondsPerByte, 6)
        expect(found.seconds).toBeCloseTo(seconds, 5)
      }),
    )
  })

  it('is the mean where all points are of one size', () => {
    const points = [
      { bytes: 8, seconds: 1, weight: 3 },
      { bytes: 8, seconds: 5, weight: 1 },
    ]
    expect(fitLine(points)).toEqual({ seconds: 2, secondsPerByte: 0 })
    expect(fitLine([])).toEqual({ seconds: 0, secondsPerByte: 0 })
  })

  it('is nowhere negative', () => {
    const falling = [
      { bytes: 0, seconds: 2, weight: 1 },
      { bytes: 10, seconds: 1, weight: 1 },
    ]
    expect(fitLine(falling)).toEqual({ seconds: 1.5, secondsPerByte: 0 })
    // The best line through the origin: sum of x y over sum of x squared.
    const steep = [
      { bytes: 1, seconds: 0, weight: 1 },
      { bytes: 2, seconds: 2, weight: 1 },
    ]
    expect(fitLine(steep)).toEqual({ seconds: 0, secondsPerByte: 4 / 5 })
  })
})

describe('a choice', () => {
  it('has the first and the last, in order, and all where they are few', () => {
    expect(evenly([1, 2, 3], 4)).toEqual([1, 2, 3])
    expect(evenly([0, 1, 2, 3, 4, 5, 6], 3)).toEqual([0, 3, 6])
    expect(evenly([0, 1, 2], 1)).toEqual([0])
  })
})
