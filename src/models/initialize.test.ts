import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { initializeParameter } from './initialize.ts'
import type { InitialValue, ParameterSpec } from './types.ts'

function parameter(name: string, shape: readonly number[], initial: InitialValue): ParameterSpec {
  return { name, shape, axes: shape.map(() => ''), initial, decay: true }
}
const weight = parameter('w', [40, 50], { kind: 'normal', std: 0.5 })

describe('initializeParameter', () => {
  it('fills any part as the whole has it', () => {
    const whole = new Float64Array(2000)
    initializeParameter(whole, weight, { seed: 7 })
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1999 }), fc.nat(2000), (start, length) => {
        const part = new Float64Array(Math.min(length, 2000 - start))
        initializeParameter(part, weight, { seed: 7, start })
        expect(part).toEqual(whole.slice(start, start + part.length))
      }),
      { numRuns: 30 },
    )
    const single = new Float32Array(2000)
    initializeParameter(single, weight, { seed: 7 })
    expect(single).toEqual(Float32Array.from(whole))
  })

  it('has the standard deviation asked for, and other numbers for another name or seed', () => {
    const values = ['w', 'other'].flatMap((name) =>
      [7, 8].map((seed) => {
        const out = new Float64Array(2000)
        initializeParameter(out, { ...weight, name }, { seed })
        return out
      }),
    )
    for (const out of values) {
      const mean = out.reduce((sum, value) => sum + value, 0) / out.length
      const variance = out.reduce((sum, value) => sum + value * value, 0) / out.length
      // Five standard errors of 2000 samples.
      expect(Math.abs(mean)).toBeLessThan((5 * 0.5) / Math.sqrt(2000))
      expect(Math.abs(variance / 0.25 - 1)).toBeLessThan(5 * Math.sqrt(2 / 2000))
    }
    expect(new Set(values.map((out) => out[0])).size).toBe(4)
  })

  it('fills with zeros and ones', () => {
    const out = new Float32Array(3).fill(5)
    initializeParameter(out, parameter('b', [4], { kind: 'zeros' }), { seed: 1, start: 1 })
    expect([...out]).toEqual([0, 0, 0])
    initializeParameter(out, parameter('b', [4], { kind: 'ones' }), { seed: 1 })
    expect([...out]).toEqual([1, 1, 1])
  })

  it('refuses a range outside of the parameter', () => {
    expect(() => initializeParameter(new Float32Array(3), weight, { seed: 1, start: 1998 })).toThrow(
      'internal',
    )
  })
})
