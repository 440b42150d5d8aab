import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cutLayers } from './cut.ts'

const equal = (layers: number): number[] => Array(layers).fill(1)

/** Every way to give `count` layers to `stages` stages, at least one each. */
function allCuts(count: number, stages: number): number[][] {
  if (stages === 1) return [[count]]
  return Array.from({ length: count - stages + 1 }, (_, extra) => extra + 1).flatMap((first) =>
    allCuts(count - first, stages - 1).map((rest) => [first, ...rest]),
  )
}

describe('cutLayers', () => {
  it('cuts equal layers as evenly as can be, the rest to earlier stages', () => {
    expect(cutLayers({ layers: equal(30), before: 0, after: 0, replicas: [1, 1, 1, 1] })).toEqual([
      8, 8, 7, 7,
    ])
    expect(cutLayers({ layers: equal(7), before: 0, after: 0, replicas: [1, 1, 1] })).toEqual([3, 2, 2])
    expect(cutLayers({ layers: equal(4), before: 0, after: 0, replicas: [1, 1, 1, 1] })).toEqual([1, 1, 1, 1])
    expect(cutLayers({ layers: equal(5), before: 9, after: 9, replicas: [1] })).toEqual([5])
  })

  it('counts embedding and head', () => {
    // A head as heavy as two layers, an embedding as one: 30 + 3 = 33 over 4.
    expect(cutLayers({ layers: equal(30), before: 1, after: 2, replicas: [1, 1, 1, 1] })).toEqual([
      8, 8, 8, 6,
    ])
    expect(cutLayers({ layers: equal(8), before: 0, after: 4, replicas: [1, 1] })).toEqual([6, 2])
  })

  it('gives a stage with more replicas more layers', () => {
    expect(cutLayers({ layers: equal(8), before: 0, after: 0, replicas: [3, 1] })).toEqual([6, 2])
    expect(cutLayers({ layers: equal(9), before: 0, after: 0, replicas: [1, 2] })).toEqual([3, 6])
  })

  it('is exact: brute force over all cuts', () => {
    const cost = fc.integer({ min: 0, max: 9 })
    fc.assert(
      fc.property(
        fc.array(cost, { minLength: 1, maxLength: 9 }),
        cost,
        cost,
        fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 4 }),
        (layers, before, after, all) => {
          const replicas = all.slice(0, layers.length)
          const score = (cut: readonly number[]): [number, number] => {
            let from = 0
            const costs = cut.map((count, stage) => {
              let sum = layers.slice(from, from + count).reduce((total, value) => total + value, 0)
              from += count
              if (stage === 0) sum += before
              if (stage === cut.length - 1) sum += after
              return sum / replicas[stage]!
            })
            return [Math.max(...costs), costs.reduce((total, value) => total + value * value, 0)]
          }
          const cuts = allCuts(layers.length, replicas.length).toSorted((a, b) => {
            const [x, y] = [score(a), score(b)]
            for (const part of [0, 1] as const)
              if (Math.abs(x[part] - y[part]) > 1e-9) return x[part] - y[part]
            const differs = a.findIndex((count, stage) => count !== b[stage])
            return differs < 0 ? 0 : b[differs]! - a[differs]!
          })
          expect(cutLayers({ layers, before, after, replicas })).toEqual(cuts[0])
        },
      ),
      { numRuns: 300 },
    )
  })

  it('takes long models and many stages', () => {
    const cut = cutLayers({ layers: equal(1000), before: 1, after: 3, replicas: Array(250).fill(1) })
    expect(cut).toHaveLength(250)
    expect(cut.reduce((sum, count) => sum + count, 0)).toBe(1000)
    // 1004 over 250: the head's stage holds a single layer, so that no stage costs more than 5.
    expect(Math.max(...cut)).toBeLessThanOrEqual(5)
    expect(cut.at(-1)).toBeLessThanOrEqual(2)
  })
})
