import { expect, test } from 'vitest'
import { unigramEntropy } from './statistics.ts'

test('a uniform text has the entropy ln of its alphabet', () => {
  const tokens = Uint8Array.from({ length: 256 * 8 }, (_, index) => index % 256)
  expect(unigramEntropy(tokens)).toBeCloseTo(Math.log(256), 12)
})

test('a biased coin has -p ln p - q ln q', () => {
  expect(unigramEntropy(Int32Array.of(7, 100_000, 7, 7))).toBeCloseTo(
    -0.75 * Math.log(0.75) - 0.25 * Math.log(0.25),
    14,
  )
})

test('one token, or none, has no entropy', () => {
  expect(unigramEntropy(Uint16Array.of(5, 5, 5))).toBe(0)
  expect(unigramEntropy(new Uint8Array(0))).toBe(0)
})
