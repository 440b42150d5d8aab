import { expect, test } from 'vitest'
import type { HostTensor, StateTensors } from '../types.ts'
import { compareScalars, compareTensors } from './compare.ts'

const tensor = (...values: number[]): HostTensor => ({
  dtype: 'f64',
  shape: [values.length],
  data: Float64Array.from(values),
})

test('the error is relative to the largest element of the tensor, or to the rms of its kind where that is larger', () => {
  const expected: StateTensors = new Map([
    ['large', tensor(3, 4)],
    ['zero', tensor(0, 1e-20)],
  ])
  const actual: StateTensors = new Map([
    ['large', tensor(3, 4.004)],
    ['zero', tensor(1e-3, 0)],
  ])
  const [worst, other] = compareTensors(actual, expected)
  // By hand: 0.004 / 4, and 0.001 / sqrt((9 + 16) / 4).
  expect(worst).toMatchObject({ name: 'large', index: [1], actual: 4.004, expected: 4 })
  expect(worst!.error).toBeCloseTo(0.001, 12)
  expect(other!.error).toBeCloseTo(0.0004, 12)
})

test('a NaN is infinitely wrong', () => {
  const expected: StateTensors = new Map([['a', tensor(1, 2)]])
  expect(compareTensors(new Map([['a', tensor(1, Number.NaN)]]), expected)[0]!.error).toBe(
    Number.POSITIVE_INFINITY,
  )
  expect(compareScalars(Number.NaN, 1)).toBe(Number.POSITIVE_INFINITY)
})

test('tensors that do not correspond cannot be compared', () => {
  expect(() => compareTensors(new Map(), new Map([['a', tensor(1)]]))).toThrow(/internal/)
  expect(() => compareTensors(new Map([['a', tensor(1, 2)]]), new Map([['a', tensor(1)]]))).toThrow(
    /a is missing/,
  )
})
