import { describe, expect, it } from 'vitest'
import {
  chainStages,
  formatEntry,
  generateSchedule,
  readCosts,
  scheduleMetrics,
  timeSchedule,
  validateSchedule,
} from '../index.ts'

describe('kfkb', () => {
  it('injects k (S - i) forwards, then takes k of each in turn; the last group may be smaller', () => {
    const { actors } = generateSchedule('kfkb', chainStages(3, 5), { k: 2 })
    expect(actors.map((list) => list.map((entry) => formatEntry(entry).slice(1)).join(' '))).toEqual([
      'F0 F1 F2 F3 F4 B0 B1 B2 B3 B4',
      'F0 F1 F2 F3 B0 B1 F4 B2 B3 B4',
      'F0 F1 B0 B1 F2 F3 B2 B3 F4 B4',
    ])
  })

  it('is 1f1b where k is 1, and gpipe where k is the batch', () => {
    for (const microbatches of [1, 3, 8]) {
      const graph = chainStages(4, microbatches)
      expect(generateSchedule('kfkb', graph, { k: 1 })).toEqual(generateSchedule('1f1b', graph))
      expect(generateSchedule('kfkb', graph, { k: microbatches })).toEqual(generateSchedule('gpipe', graph))
    }
  })

  it('takes as long as 1f1b whatever k, where transfers take no time', () => {
    for (const [F, I, W] of [
      [1, 1, 1],
      [5, 2, 1],
      [1, 3, 2],
    ] as const)
      for (const stages of [1, 2, 4, 6])
        for (const microbatches of [1, 3, 4, 10, 13])
          for (const k of [1, 2, 3, 5, 20]) {
            const schedule = generateSchedule('kfkb', chainStages(stages, microbatches), { k })
            const { makespan, peakActivations } = scheduleMetrics(schedule, readCosts({ F, I, W }, stages))
            expect(makespan).toBeCloseTo((microbatches + stages - 1) * (F + I + W), 9)
            expect(peakActivations).toEqual(
              Array.from({ length: stages }, (_, stage) => Math.min(k * (stages - stage), microbatches)),
            )
          }
  })

  it('hides transfers that 1f1b shows', () => {
    const times = (k: number): number =>
      timeSchedule(generateSchedule('kfkb', chainStages(4, 16), { k }), { phases: { F: 1, B: 1 }, hop: 0.5 })
        .makespan
    expect(times(1)).toBe(52)
    // All but those of the way there and back, which nothing hides.
    for (const k of [2, 4, 16]) expect(times(k)).toBe(2 * (16 + 3) + 2 * 3 * 0.5)
  })

  it('holds k more on a stage than on those it feeds', () => {
    // 0 -> 1 -> 2 -> 4 and 0 -> 3 -> 4
    const edges = [
      [0, 1],
      [1, 2],
      [2, 4],
      [0, 3],
      [3, 4],
    ] as const
    const graph = { stages: 5, edges, placement: [0, 1, 2, 3, 4], microbatches: 12 }
    const schedule = generateSchedule('kfkb', graph, { k: 3 })
    expect(validateSchedule(schedule, { edges })).toEqual([])
    expect(timeSchedule(schedule, {}, { edges }).peakInFlight).toEqual([12, 9, 6, 6, 3])
  })

  it('refuses several stages on one actor', () => {
    expect(() => generateSchedule('kfkb', chainStages(4, 4, [0, 1, 1, 0]))).toThrow(/actor 1 has several/)
  })
})
