import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { axisTicks, formatMemory, formatNumber, timeFormat } from './numbers.ts'
import { cleanText, fitText, wrapText } from './words.ts'

describe('the axis', () => {
  it('has round ticks from 0 to the end', () => {
    expect(axisTicks(33, 12)).toEqual({ step: 5, times: [0, 5, 10, 15, 20, 25, 30] })
    expect(axisTicks(33, 4).times).toEqual([0, 10, 20, 30])
    expect(axisTicks(10, 5).times).toEqual([0, 2, 4, 6, 8, 10])
    expect(axisTicks(0, 10).times).toEqual([0])
  })

  it('is never crowded nor bare', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 1e-12, max: 1e15, noNaN: true }),
        fc.integer({ min: 2, max: 40 }),
        (end, most) => {
          const { step, times } = axisTicks(end, most)
          expect(times.length).toBeLessThanOrEqual(most + 1)
          expect(times.length).toBeGreaterThan(most / 2.5 - 1)
          expect(times.at(-1)).toBeLessThanOrEqual(end * (1 + 1e-9))
          expect(['1', '2', '5']).toContain(step.toExponential(3).replace(/\.000e.*/, ''))
        },
      ),
    )
  })

  it('has one unit and fixed decimals', () => {
    const milliseconds = timeFormat('seconds', 0.071)
    expect(milliseconds.unit).toBe('ms')
    expect([0, 0.01, 0.0125].map((time) => milliseconds.tick(time, 0.0025))).toEqual(['0', '10', '13'])
    expect([0, 0.0005, 0.001].map((time) => milliseconds.tick(time, 0.0005))).toEqual(['0.0', '0.5', '1.0'])
    expect(milliseconds.exact(0.0124567)).toBe('12.457 ms')
    expect(timeFormat('seconds', 3).exact(1.5)).toBe('1.5 s')
    expect(timeFormat('seconds', 3e-5).tick(2e-5, 1e-5)).toBe('20')
    expect(timeFormat('units', 33).exact(7)).toBe('7 units')
  })
})

describe('numbers', () => {
  it('have thin spaces between thousands, from five digits on', () => {
    expect(formatNumber(9999, 0)).toBe('9999')
    expect(formatNumber(1234567.891, 2)).toBe('1\u2009234\u2009567.89')
    expect(() => formatNumber(Number.NaN, 1)).toThrow(/internal/)
  })

  it('of bytes are in binary units', () => {
    expect([0, 512, 1024, 1536, 3 * 2 ** 30, 2 ** 52].map((bytes) => formatMemory(bytes, 'bytes'))).toEqual([
      '0 B',
      '512 B',
      '1 KiB',
      '1.5 KiB',
      '3 GiB',
      '4096 TiB',
    ])
    expect(formatMemory(4, 'activations')).toBe('4')
  })
})

describe('words', () => {
  it('are cut where they are too long, between characters', () => {
    expect(cleanText('abc', 3)).toBe('abc')
    expect(cleanText('abcd', 3)).toBe('ab…')
    expect(cleanText('😀😀😀', 2)).toBe('😀…')
    expect(cleanText('a\u0000\ud800b\nc', 10)).toBe('a\ufffd\ufffdb c')
    expect(fitText('a rather long name', 40, 12, 'text')).toMatch(/^a ra.{0,3}…$/)
  })

  it('are wrapped between words, so many lines', () => {
    const lines = wrapText('one two three four five six seven eight', 60, 12, 3)
    expect(lines).toHaveLength(3)
    expect(lines.slice(0, 2).join(' ')).toMatch(/^one two/)
    expect(lines[2]).toMatch(/…$/)
    expect(wrapText('one two', 200, 12, 3)).toEqual(['one two'])
  })
})
