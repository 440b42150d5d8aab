import { describe, expect, it } from 'vitest'
import { costsOfSetting, publishedSettings } from '../../../test/support/publishedBubbleRates.ts'
import {
  chainStages,
  findGenerator,
  formatEntry,
  generateSchedule,
  readCosts,
  scheduleMetrics,
  timeSchedule,
  unitCosts,
  validateSchedule,
} from '../index.ts'

const order = (name: string, stage: number, stages: number, microbatches: number): string =>
  generateSchedule(name, chainStages(stages, microbatches))
    .actors[stage]!.map((entry) => formatEntry(entry).replace(/^\d+/, ''))
    .join(' ')

describe('zb-h1', () => {
  it('warms up as 1f1b, does I and F in turn, then I, W, F', () => {
    expect(order('zb-h1', 0, 3, 4)).toBe('F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3')
    expect(order('zb-h1', 1, 3, 4)).toBe('F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3')
    expect(order('zb-h1', 2, 3, 4)).toBe('F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3')
  })

  // papers/16: with S stages, M >= S and F = I = W the first I of stage s is at slot 2 S - 1 - s; 3 M + S - 1 slots in all.
  it('has its first cotangents where JaxPP has them, and its length', () => {
    for (const [stages, microbatches] of [
      [4, 4],
      [4, 9],
      [6, 8],
      [8, 8],
    ] as const) {
      const timing = timeSchedule(generateSchedule('zb-h1', chainStages(stages, microbatches)))
      expect(timing.makespan).toBe(3 * microbatches + stages - 1)
      for (let stage = 0; stage < stages; stage++)
        expect(
          timing.entries.find(({ actions: [action] }) => action!.stage === stage && action!.phase === 'I')!
            .start,
        ).toBe(2 * stages - 1 - stage)
    }
  })
})

describe('zb-h2', () => {
  it('warms up twice as deep', () => {
    expect(order('zb-h2', 0, 2, 4)).toBe('F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3')
    expect(order('zb-h2', 1, 2, 4)).toBe('F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3')
  })

  it('leaves no actor idle from its first to its last action for equal F, I and W', () => {
    for (const stages of [1, 2, 3, 5, 8])
      for (const microbatches of [2 * stages - 1, 2 * stages, 4 * stages])
        expect(
          scheduleMetrics(generateSchedule('zb-h2', chainStages(stages, microbatches)), unitCosts(stages))
            .bubbleFraction,
        ).toBe(0)
  })
})

describe.each(['zb-h1', 'zb-h2'] as const)('%s', (name) => {
  const { closedForms } = findGenerator(name)

  it('takes as long as its closed form for any F, I and W', () => {
    for (const stages of [1, 2, 3, 5, 7])
      for (const microbatches of [1, 2, 4, 5, 9, 13, 20]) {
        const schedule = generateSchedule(name, chainStages(stages, microbatches))
        const shape = { actors: stages, chunks: 1, microbatches }
        for (const [F, I, W] of [
          [1, 1, 1],
          [2, 6, 4],
          [0, 5, 6],
          [3, 4, 5],
          [5, 2, 1],
          [1, 1, 3],
          [4, 1, 6],
        ] as const) {
          const metrics = scheduleMetrics(schedule, readCosts({ F, I, W }, stages))
          const makespan = closedForms.makespan(shape, {}, { F, I, W })
          if (name === 'zb-h1' || microbatches >= 2 * stages - 1) expect(makespan).toBeDefined()
          if (makespan !== undefined) expect(metrics.makespan).toBe(makespan)
          expect(metrics.peakActivations).toEqual(
            metrics.peakActivations.map((_, actor) => closedForms.peakActivations(actor, shape, {})),
          )
        }
      }
  })

  it('reproduces the rates of Qi et al. 2023, tables 4 to 6, and their formula', () => {
    for (const setting of publishedSettings) {
      const { stages: p, microbatches: m, times, rates } = setting
      const { F, I, W, hop } = times
      const schedule = generateSchedule(name, chainStages(p, m))
      const { bubbleFraction } = scheduleMetrics(schedule, costsOfSetting(setting))
      const bubble = (p - 1) * (name === 'zb-h1' ? F + I - W + 4 * hop : F + I - 2 * W + 2 * hop)
      expect(bubbleFraction.toFixed(4)).toBe(rates[name].toFixed(4))
      expect(bubbleFraction).toBeCloseTo(bubble / (m * (F + I + W) + bubble), 4)
    }
  })

  it('takes graphs of stages', () => {
    const edges = [
      [0, 1],
      [1, 2],
      [2, 4],
      [0, 3],
      [3, 4],
      [0, 4],
    ] as const
    for (const microbatches of [1, 2, 3, 7]) {
      const graph = { stages: 5, edges, placement: [0, 1, 2, 3, 4], microbatches }
      expect(validateSchedule(generateSchedule(name, graph), { edges })).toEqual([])
    }
  })

  it('refuses several stages on one actor, with the actor', () => {
    expect(() => generateSchedule(name, chainStages(4, 4, [0, 1, 0, 1]))).toThrow(/actor 0 has several/)
  })
})
