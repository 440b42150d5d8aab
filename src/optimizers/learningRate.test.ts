import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { learningRateAt, makeLearningRate } from './learningRate.ts'

/**
 * torch 2.13.0, rates of successive updates from lr=0.6:
 *   CosineAnnealingLR(optimizer, T_max=8, eta_min=0.06)
 *   LinearLR(optimizer, 1.0, 0.1, total_iters=8)
 */
const torchCosine = [
  0.6, 0.5794474737780475, 0.5209188309203678, 0.4333245267385743, 0.33, 0.22667547326142579,
  0.1390811690796322, 0.08055252622195258, 0.06,
]
const torchLinear = [
  0.6, 0.5325, 0.46499999999999997, 0.39749999999999996, 0.32999999999999996, 0.26249999999999996,
  0.19499999999999998, 0.12749999999999997, 0.059999999999999984, 0.059999999999999984,
]

describe('learning rate', () => {
  it.each([
    ['cosine', torchCosine],
    ['linear', torchLinear],
  ])('%s falls as in torch', (kind, rates) => {
    const spec = makeLearningRate(kind, { peak: 0.6, totalSteps: 8, minimumFraction: 0.1 })
    for (const [index, rate] of rates.entries()) expect(learningRateAt(index + 1, spec)).toBeCloseTo(rate, 14)
    expect(learningRateAt(1000, spec)).toBeCloseTo(0.06, 14)
  })

  it.each(['constant', 'linear', 'cosine'])('%s rises evenly to the peak', (kind) => {
    const decay = kind === 'constant' ? {} : { totalSteps: 20 }
    const spec = makeLearningRate(kind, { peak: 1, warmupSteps: 4, ...decay })
    const rates = [1, 2, 3, 4, 5].map((step) => learningRateAt(step, spec))
    for (const [index, rate] of [0.2, 0.4, 0.6, 0.8, 1].entries()) expect(rates[index]).toBeCloseTo(rate, 15)
  })

  it('stays between 0 and the peak and never rises after it', () => {
    const spec = fc
      .record({
        kind: fc.constantFrom('linear', 'cosine'),
        warmupSteps: fc.nat(20),
        steps: fc.integer({ min: 1, max: 50 }),
        minimumFraction: fc.double({ min: 0, max: 1, noNaN: true }),
      })
      .map(({ kind, steps, ...rest }) =>
        makeLearningRate(kind, { peak: 3, totalSteps: rest.warmupSteps + steps, ...rest }),
      )
    fc.assert(
      fc.property(spec, (each) => {
        const rates = Array.from({ length: 80 }, (_, index) => learningRateAt(index + 1, each))
        const top = each.warmupSteps
        expect(rates[top]).toBe(3)
        for (const [index, rate] of rates.entries()) {
          expect(rate).toBeGreaterThanOrEqual(0)
          if (index === 0) continue
          if (index <= top) expect(rate).toBeGreaterThan(rates[index - 1]!)
          else expect(rate).toBeLessThanOrEqual(rates[index - 1]! + 1e-12)
        }
      }),
      { numRuns: 50 },
    )
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['cosin', { peak: 1 }, 'cosine'],
    ['constant', {}, 'peak'],
    ['constant', { peak: 0 }, 'peak'],
    ['constant', { peak: 1, totalSteps: 5 }, 'warmupSteps'],
    ['cosine', { peak: 1 }, 'totalSteps'],
    ['cosine', { peak: 1, totalSteps: 5, warmupSteps: 5 }, 'at most 4'],
    ['cosine', { peak: 1, totalSteps: 5, warmupSteps: 1.5 }, 'whole number'],
    ['cosine', { peak: 1, totalSteps: 5, minimumFraction: 2 }, 'at most 1'],
  ])('%s %j is refused', (kind, settings, hint) => {
    expect(() => makeLearningRate(kind, settings)).toThrow(
      expect.objectContaining({ code: 'OPTIMIZER_LEARNING_RATE', hint: expect.stringContaining(hint) }),
    )
  })

  it('counts steps from 1', () => {
    const spec = makeLearningRate('constant', { peak: 1 })
    expect(() => learningRateAt(0, spec)).toThrow('internal')
  })
})
