import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatWords, hashText, philox, type Words } from './mixing.ts'

describe('hashText', () => {
  it('gives the known values of MurmurHash3 x86 128', () => {
    expect(formatWords(hashText(''))).toBe('0'.repeat(32))
    expect(formatWords(hashText('The quick brown fox jumps over the lazy dog'))).toBe(
      '2f1583c3ecee2c675d7bf66ce5e91d2c',
    )
  })

  it('changes about half of the bits for a change of one character', () => {
    const length = 40
    let changed = 0
    for (let position = 0; position < length; position++) {
      const base = 'a'.repeat(length)
      const other = `${base.slice(0, position)}b${base.slice(position + 1)}`
      const [left, right] = [hashText(base), hashText(other)]
      left.forEach((word, lane) => {
        changed += [...((word ^ right[lane]!) >>> 0).toString(2)].filter((bit) => bit === '1').length
      })
    }
    // 40 x 128 fair coins: mean 2560, standard deviation 36.
    expect(Math.abs(changed - 2560)).toBeLessThan(5 * 36)
  })
})

describe('philox', () => {
  // The known-answer vectors published with Random123.
  const vectors: readonly [Words, readonly [number, number], string][] = [
    [[0, 0, 0, 0], [0, 0], '6627e8d5e169c58dbc57ac4c9b00dbd8'],
    [
      [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
      [0xffffffff, 0xffffffff],
      '408f276d41c83b0ea20bc7c66d5451fd',
    ],
    [
      [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      [0xa4093822, 0x299f31d0],
      'd16cfe0994fdcceb5001e42024126ea1',
    ],
  ]
  it.each(vectors)('gives the known answer for counter %j', (counter, key, answer) => {
    expect(formatWords(philox(counter, key))).toBe(answer)
  })

  it('equals the same rounds in big integers', () => {
    const word = fc.integer({ min: 0, max: 0xffffffff })
    fc.assert(
      fc.property(fc.tuple(word, word, word, word), fc.tuple(word, word), (counter, key) => {
        expect(philox(counter, key)).toEqual(philoxOfBigIntegers(counter, key))
      }),
    )
  })
})

function philoxOfBigIntegers(counter: Words, key: readonly [number, number]): number[] {
  const mask = 0xffffffffn
  let [c0, c1, c2, c3] = counter.map(BigInt) as [bigint, bigint, bigint, bigint]
  let [k0, k1] = key.map(BigInt) as [bigint, bigint]
  for (let round = 0; round < 10; round++) {
    const product0 = 0xd2511f53n * c0
    const product1 = 0xcd9e8d57n * c2
    ;[c0, c1, c2, c3] = [
      (product1 >> 32n) ^ c1 ^ k0,
      product1 & mask,
      (product0 >> 32n) ^ c3 ^ k1,
      product0 & mask,
    ]
    k0 = (k0 + 0x9e3779b9n) & mask
    k1 = (k1 + 0xbb67ae85n) & mask
  }
  return [c0, c1, c2, c3].map(Number)
}
