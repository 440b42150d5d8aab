import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { inverseNormal } from './normal.ts'
import { fillNormal, fillUniform, permutation } from './random.ts'

function normals(count: number, seed: number, name: string, start: number = 0): Float64Array {
  const out = new Float64Array(count)
  fillNormal(out, { seed, name, std: 1, start })
  return out
}

/** Big-endian hexadecimal digits of a double. */
function bits(value: number): string {
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, value)
  return view.getBigUint64(0).toString(16).padStart(16, '0')
}

describe('inverseNormal', () => {
  // From Python 3's statistics.NormalDist().inv_cdf, which is another program for the same algorithm with libm's log.
  it.each([
    [1.1102230246251565e-16, -8.209536151601386],
    [3.3306690738754696e-16, -8.076571004130123],
    [1e-20, -9.262340089798405],
    [1e-9, -5.9978070150076865],
    [2.741291394214862e-6, -4.545419963697668],
    [0.001, -3.090232306167813],
    [0.02425, -1.9729610513118845],
    [0.2608457033436077, -0.6407403300873538],
    [0.4999999999999999, -2.7829164246717676e-16],
    [0.5, 0],
    [0.9481073416901035, 1.6267730066343065],
    [0.975, 1.9599639845400536],
    [0.999999761581421, 5.035405969553121],
    [0.9999999999999999, 8.209536151601386],
  ])('of %d is %d', (probability, expected) => {
    expect(Math.abs(inverseNormal(probability) - expected)).toBeLessThanOrEqual(4e-16 * Math.abs(expected))
  })

  it('is odd around a half', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 52 - 1 }), (cell) => {
        const probability = (cell + 0.5) / 2 ** 52
        expect(inverseNormal(1 - probability)).toBe(-inverseNormal(probability))
      }),
    )
  })
})

describe('fillUniform and fillNormal', () => {
  // From the generator written again in Python integers, with Python's own inverse of the normal distribution.
  it.each([
    [0, 'wte.weight', 0, 0.075680564383107, 'bff6f4b2325c98d4'],
    [0, 'wte.weight', 1, 0.42657105302922227, 'bfc7b1b633e0f30c'],
    [42, 'h.0.attn.c_attn.weight', 7, 0.7411316897016987, '3fe4b2e62c4b1555'],
    [9007199254740991, 'größe', 1099511627781, 0.17466161790665813, 'bfedf2ea6d60ab27'],
  ])('seed %d, %s[%d]', (seed, name, start, uniform, normalBits) => {
    const out = new Float64Array(1)
    fillUniform(out, { seed, name, start })
    expect(out[0]).toBe(uniform)
    fillNormal(out, { seed, name, start, std: 1 })
    expect(bits(out[0]!)).toBe(normalBits)
  })

  it('has the moments of the normal distribution', () => {
    const count = 200_000
    const sample = normals(count, 5, 'moments')
    const moment = (power: number): number => sample.reduce((sum, value) => sum + value ** power, 0) / count
    // Central moments 0, 1, 0, 3; five standard errors, whose variances are 1, 2, 15 and 96 over the count.
    expect(Math.abs(moment(1))).toBeLessThan(5 * Math.sqrt(1 / count))
    expect(Math.abs(moment(2) - 1)).toBeLessThan(5 * Math.sqrt(2 / count))
    expect(Math.abs(moment(3))).toBeLessThan(5 * Math.sqrt(15 / count))
    expect(Math.abs(moment(4) - 3)).toBeLessThan(5 * Math.sqrt(96 / count))
  })

  it('has neighbours that are not correlated', () => {
    const count = 100_000
    const sample = normals(count + 1, 6, 'lags')
    let product = 0
    for (let index = 0; index < count; index++) product += sample[index]! * sample[index + 1]!
    expect(Math.abs(product / count)).toBeLessThan(5 / Math.sqrt(count))
  })

  it('keeps within the Kolmogorov-Smirnov bound of the normal distribution', () => {
    const count = 20_000
    const sample = normals(count, 7, 'distance').sort()
    let distance = 0
    sample.forEach((value, index) => {
      const probability = normalProbability(value)
      distance = Math.max(distance, (index + 1) / count - probability, probability - index / count)
    })
    // 1.95 / sqrt(n) is exceeded by one honest sample in a thousand.
    expect(distance).toBeLessThan(1.95 / Math.sqrt(count))
  })

  it('gives a slice of the whole for any start and length', () => {
    const whole = normals(9000, 8, 'slices')
    const start = fc.integer({ min: 0, max: 8999 })
    fc.assert(
      fc.property(start, fc.integer({ min: 0, max: 5000 }), (from, wanted) => {
        const length = Math.min(wanted, whole.length - from)
        expect(normals(length, 8, 'slices', from)).toEqual(whole.slice(from, from + length))
      }),
      { numRuns: 40 },
    )
  })

  it('rounds the doubles for float32, and applies mean and standard deviation', () => {
    const single = new Float32Array(100)
    fillNormal(single, { seed: 9, name: 'w', std: 0.02, mean: 1 })
    const expected = normals(100, 9, 'w').map((value) => Math.fround(1 + 0.02 * value))
    expect([...single]).toEqual([...expected])
  })

  it('depends on seed and name', () => {
    const first = normals(8, 1, 'a')
    expect(normals(8, 2, 'a')).not.toEqual(first)
    expect(normals(8, 2 ** 32 + 1, 'a')).not.toEqual(first)
    expect(normals(8, 1, 'b')).not.toEqual(first)
  })

  it.each([-1, 0.5, Number.NaN, 2 ** 53])('refuses seed %d', (seed) => {
    expect(() => normals(1, seed, 'a')).toThrow('seed')
  })
})

describe('permutation', () => {
  it('is a bijection', () => {
    fc.assert(
      fc.property(fc.nat({ max: 2000 }), fc.nat(), fc.nat(), (extra, seed, epoch) => {
        const size = extra + 1
        const at = permutation({ seed, epoch, size })
        const seen = new Set(Array.from({ length: size }, (_, index) => at(index)))
        expect(seen.size).toBe(size)
        expect(Math.min(...seen)).toBe(0)
        expect(Math.max(...seen)).toBe(size - 1)
      }),
      { numRuns: 50 },
    )
  })

  it.each([
    [3, 6],
    [4, 24],
    [5, 120],
  ])('gives all orders of %d items equally often', (size, orders) => {
    const epochs = 50 * orders
    const counts = new Map<string, number>()
    for (let epoch = 0; epoch < epochs; epoch++) {
      const at = permutation({ seed: 3, epoch, size })
      const order = Array.from({ length: size }, (_, index) => at(index)).join()
      counts.set(order, (counts.get(order) ?? 0) + 1)
    }
    let chiSquare = (orders - counts.size) * 50
    for (const count of counts.values()) chiSquare += (count - 50) ** 2 / 50
    // Mean orders - 1, variance 2 (orders - 1); four standard deviations.
    expect(chiSquare).toBeLessThan(orders - 1 + 4 * Math.sqrt(2 * (orders - 1)))
  })

  it('reaches the whole of a large range', () => {
    const size = 2 ** 52
    const at = permutation({ seed: 1, epoch: 0, size })
    const images = Array.from({ length: 1000 }, (_, index) => at(index) / size)
    const mean = images.reduce((sum, image) => sum + image, 0) / images.length
    expect(Math.abs(mean - 0.5)).toBeLessThan(5 * Math.sqrt(1 / 12 / 1000))
  })

  it.each([0, -1, 1.5, 2 ** 53])('refuses a range of %d', (size) => {
    expect(() => permutation({ seed: 1, epoch: 0, size })).toThrow('permute')
  })

  it('refuses an index outside', () => {
    expect(() => permutation({ seed: 1, epoch: 0, size: 4 })(4)).toThrow('outside')
  })
})

/** Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/(3 5) + …) */
function normalProbability(x: number): number {
  let term = x
  let sum = x
  for (let odd = 3; Math.abs(term) > 1e-17 * Math.abs(sum); odd += 2) {
    term *= (x * x) / odd
    sum += term
  }
  return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI)
}
