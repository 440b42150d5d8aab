import fc from 'fast-check'
import { expect, it } from 'vitest'
import { formatSize, parseSize } from './index.ts'

it.each([
  ['1B', 1],
  ['4MiB', 4_194_304],
  ['1.5 GB', 1_500_000_000],
  ['0.5KiB', 512],
  ['2TiB', 2_199_023_255_552],
  ['10kB', 10_000],
])('reads %s', (text, bytes) => {
  expect(parseSize(text)).toBe(bytes)
})

it.each(['', '4', '4mib', '-1MB', '1e3MB', '0.3B', '4  MiB', '4MiBs', '99999999999999TiB', '1.0000000001GB'])(
  'refuses %j',
  (text) => {
    expect(parseSize(text)).toBeUndefined()
  },
)

it('prints what it reads back', () => {
  expect(formatSize(2 ** 22)).toBe('4MiB')
  expect(formatSize(1000)).toBe(1000)
  fc.assert(
    fc.property(fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), (bytes) => {
      const text = formatSize(bytes)
      expect(typeof text === 'number' ? text : parseSize(text)).toBe(bytes)
    }),
  )
})
