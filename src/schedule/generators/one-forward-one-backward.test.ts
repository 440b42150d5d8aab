import { describe, expect, it } from 'vitest'
import { costsOfSetting, publishedSettings } from '../../../test/support/publishedBubbleRates.ts'
import {
  chainStages,
  formatEntry,
  generateSchedule,
  scheduleMetrics,
  timeSchedule,
  validateSchedule,
} from '../index.ts'

const order = (stage: number, parameters: Record<string, unknown>, stages = 4, microbatches = 6): string =>
  generateSchedule('1f1b', chainStages(stages, microbatches), parameters)
    .actors[stage]!.map((entry) => formatEntry(entry).replace(/^\d+/, ''))
    .join(' ')

describe('1f1b, DAPPLE', () => {
  it('injects K forwards, then alternates, then drains', () => {
    expect(order(0, { warmup: 'a' })).toBe('F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5')
    expect(order(3, { warmup: 'a' })).toBe('F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5')
    expect(order(2, { warmup: 'b' })).toBe('F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5')
    expect(order(0, { warmup: 'b', maxInFlight: 2 })).toBe('F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5')
    expect(order(0, {}, 4, 2)).toBe('F0 F1 B0 B1')
  })

  // papers/17: S = 4, M = 16, F = B = 1, c per hop
  it.each([
    { warmup: 'a', peaks: [4, 3, 2, 1], makespans: [38, 43.6, 52, 66] },
    { warmup: 'b', peaks: [7, 5, 3, 1], makespans: [38, 39.2, 41, 44] },
  ])('policy $warmup under transfers', ({ warmup, peaks, makespans }) => {
    const schedule = generateSchedule('1f1b', chainStages(4, 16), { warmup })
    for (const [number, hop] of [0, 0.2, 0.5, 1].entries()) {
      const timing = timeSchedule(schedule, { phases: { F: 1, B: 1 }, hop })
      expect(timing.makespan).toBeCloseTo(makespans[number]!, 9)
      expect(timing.peakInFlight).toEqual(peaks)
    }
  })

  it('policy B is policy A with every hop counted as a stage', () => {
    for (const stages of [1, 2, 3, 4, 6]) {
      const b = generateSchedule('1f1b', chainStages(stages, 20), { warmup: 'b' })
      const a = generateSchedule('1f1b', chainStages(2 * stages - 1, 20), { warmup: 'a' })
      for (let stage = 0; stage < stages; stage++)
        expect(b.actors[stage]!.map((entry) => ({ ...entry, stage: 0 }))).toEqual(
          a.actors[2 * stage]!.map((entry) => ({ ...entry, stage: 0 })),
        )
    }
  })

  it('takes graphs of stages: what counts is the longest way to the end', () => {
    // 0 -> 1 -> 2 -> 4 and 0 -> 3 -> 4, with a skip 0 -> 4
    const edges = [
      [0, 1],
      [1, 2],
      [2, 4],
      [0, 3],
      [3, 4],
      [0, 4],
    ] as const
    for (const name of ['1f1b', 'gpipe'])
      for (const microbatches of [1, 2, 3, 7]) {
        const graph = { stages: 5, edges, placement: [0, 1, 2, 3, 4], microbatches }
        const schedule = generateSchedule(name, graph)
        expect(validateSchedule(schedule, { edges })).toEqual([])
        if (name === '1f1b')
          expect(timeSchedule(schedule, {}, { edges }).peakInFlight).toEqual(
            [4, 3, 2, 2, 1].map((peak) => Math.min(peak, microbatches)),
          )
      }
  })

  it('refuses several stages on one actor, with the actor', () => {
    expect(() => generateSchedule('1f1b', chainStages(4, 4, [0, 1, 0, 1]))).toThrow(/actor 0 has several/)
  })

  it('is eager with policy B, under a cap too', () => {
    for (const microbatches of [1, 3, 9])
      for (const maxInFlight of [null, 1, 3])
        expect(generateSchedule('eager-1f1b', chainStages(4, microbatches), { maxInFlight })).toEqual(
          generateSchedule('1f1b', chainStages(4, microbatches), { warmup: 'b', maxInFlight }),
        )
    expect(() => generateSchedule('eager-1f1b', chainStages(4, 4, [0, 1, 0, 1]))).toThrow(
      /actor 0 has several/,
    )
  })

  it.each(publishedSettings)('has the published rate, $model with $microbatches micro-batches', (setting) => {
    const schedule = generateSchedule('1f1b', chainStages(setting.stages, setting.microbatches))
    const { bubbleFraction } = scheduleMetrics(schedule, costsOfSetting(setting))
    expect(bubbleFraction.toFixed(4)).toBe(setting.rates['1f1b'].toFixed(4))
  })
})
