import { describe, expect, it } from 'vitest'
import {
  chainStages,
  formatEntry,
  gatherWindows,
  generateSchedule,
  gradientWindows,
  readCosts,
  type Schedule,
  scheduleChain,
  scheduleMetrics,
  unitCosts,
  validateSchedule,
  windowCounts,
} from '../index.ts'

const lists = ({ actors }: Schedule): string[] => actors.map((list) => list.map(formatEntry).join(' '))

const bubble = (
  shape: { actors: number; microbatches: number },
  parameters: Record<string, unknown>,
): number => {
  const schedule = scheduleChain('zeropp', shape, parameters)
  return scheduleMetrics(schedule, unitCosts(schedule.stages)).bubbleFraction
}

describe('zeropp', () => {
  it('goes through units one after the other, the last one smaller', () => {
    expect(lists(scheduleChain('zeropp', { actors: 2, microbatches: 3 }))).toEqual([
      '0F0/0 0F1/0 2F0/0 2F1/0 2B0/0 2B1/0 0B0/0 0B1/0 0F2/1 2F2/1 2B2/1 0B2/1',
      '1F0/0 1F1/0 3F0/0 3F1/0 3B0/0 3B1/0 1B0/0 1B1/0 1F2/1 3F2/1 3B2/1 1B2/1',
    ])
  })

  it('split: W after all I, or where a small unit leaves a gap between chunks', () => {
    expect(lists(scheduleChain('zeropp', { actors: 2, microbatches: 2 }, { backward: 'split' }))[1]).toBe(
      '1F0/0 1F1/0 3F0/0 3F1/0 3I0/0 3I1/0 1I0/0 1I1/0 3W0/0 3W1/0 1W0/0 1W1/0',
    )
    expect(
      lists(scheduleChain('zeropp', { actors: 3, microbatches: 2 }, { backward: 'split', chunks: 3 }))[0],
    ).toBe(
      '0F0/0 0F1/0 3F0/0 3F1/0 6F0/0 6F1/0 6I0/0 6I1/0 6W0/0 3I0/0 3I1/0 6W1/0 0I0/0 0I1/0 3W0/0 3W1/0 0W0/0 0W1/0',
    )
  })

  it('idles (P - 1) / (U V + P - 1), whatever the batch', () => {
    expect(bubble({ actors: 4, microbatches: 8 }, { unit: 4 })).toBeCloseTo(3 / 11, 12)
    for (const actors of [1, 2, 3, 5])
      for (const chunks of [1, 2, 3])
        for (const unit of [actors, actors + 1, 2 * actors])
          for (const units of [1, 3])
            expect(bubble({ actors, microbatches: units * unit }, { chunks, unit })).toBeCloseTo(
              (actors - 1) / (unit * chunks + actors - 1),
              12,
            )
  })

  it('idles more where a unit is smaller than the number of actors', () => {
    // papers/01: P 4, V 2, U 2 gives 0.556 in place of 0.429
    expect(bubble({ actors: 4, microbatches: 4 }, { unit: 2 })).toBeCloseTo(5 / 9, 12)
    expect(bubble({ actors: 4, microbatches: 4 }, { unit: 2, chunks: 1 })).toBeCloseTo(3 / 5, 12)
  })

  /**
   * Split: on actor 0 a unit takes (P - 1)(F + I) from its first forward's way there to its first `I`'s way back, and
   * its own work; `W` fills all of the drain. So the idle share is (P - 1)(F + I) / ((P - 1)(F + I) + U V (F + I + W)),
   * 2 (P - 1) / (2 (P - 1) + 3 U V) where the three take the same.
   */
  it('split idles 2 (P - 1) / (2 (P - 1) + 3 U V), less than whole', () => {
    expect(bubble({ actors: 4, microbatches: 8 }, { unit: 4, backward: 'split' })).toBeCloseTo(0.2, 12)
    for (const actors of [1, 2, 3, 5])
      for (const chunks of [1, 2, 3])
        for (const unit of [actors, actors + 1, 2 * actors])
          for (const units of [1, 3]) {
            const shape = { actors, microbatches: units * unit }
            const split = bubble(shape, { chunks, unit, backward: 'split' })
            expect(split).toBeCloseTo((2 * (actors - 1)) / (2 * (actors - 1) + 3 * unit * chunks), 12)
            if (actors > 1) expect(split).toBeLessThan(bubble(shape, { chunks, unit }))
          }
  })

  it('split, for any times where units are no smaller than the number of actors', () => {
    for (const [F, I, W] of [
      [1, 1, 3],
      [2, 1, 0.5],
      [0.5, 2, 1],
    ] as const)
      for (const unit of [4, 6]) {
        const schedule = scheduleChain('zeropp', { actors: 4, microbatches: 12 }, { unit, backward: 'split' })
        const { bubbleFraction } = scheduleMetrics(schedule, readCosts({ F, I, W }, 8))
        expect(bubbleFraction).toBeCloseTo((3 * (F + I)) / (3 * (F + I) + 2 * unit * (F + I + W)), 12)
      }
  })

  it('split, fills the gaps that transfers make when it is told their time', () => {
    // Between two chunks actor 0 waits 4 (I + hop) - 4 I = 1 for its first micro-batch: room for one W in each unit.
    const costs = readCosts({ F: 1, I: 1, W: 1, hop: 0.25 }, 8)
    const [told, untold] = [costs, undefined].map((guide) => {
      const shape = { actors: 4, microbatches: 12 }
      return scheduleMetrics(scheduleChain('zeropp', shape, { unit: 4, backward: 'split' }, guide), costs)
        .makespan
    })
    expect(told).toBeCloseTo(untold! - 3, 9)
  })

  it('never takes longer split than whole, with small units and uneven stages too', () => {
    for (const [index, unit] of [1, 2, 3, 4, 5, 8].entries()) {
      const F = Array.from({ length: 8 }, (_, stage) => 1 + ((stage * 5 + index) % 4))
      const costs = readCosts({ F, I: F, W: F, hop: 0.25 * index }, 8)
      const time = (backward: string): number =>
        scheduleMetrics(scheduleChain('zeropp', { actors: 4, microbatches: 10 }, { unit, backward }), costs)
          .makespan
      expect(time('split')).toBeLessThanOrEqual(time('whole'))
    }
  })

  it('is looped-bfs when the unit is the batch', () => {
    const shape = { actors: 3, microbatches: 5 }
    const { actors, ...rest } = scheduleChain('zeropp', shape, { unit: 5 })
    const withoutUnit = actors.map((list) =>
      list.map((entry) => {
        const { unit, ...action } = entry as Exclude<typeof entry, { pair: unknown }>
        expect(unit).toBe(0)
        return action
      }),
    )
    expect({ ...rest, actors: withoutUnit }).toEqual(scheduleChain('looped-bfs', shape))
  })

  it('gathers 2 V B / U times, (2 V - 1) B / U with the last chunk kept, and reduces V B / U times', () => {
    for (const backward of ['whole', 'split'])
      for (const chunks of [1, 2, 3])
        for (const unit of [1, 2, 4, 5])
          for (const microbatches of [unit, 3 * unit, 3 * unit + 1]) {
            const schedule = scheduleChain('zeropp', { actors: 3, microbatches }, { chunks, unit, backward })
            const units = Math.ceil(microbatches / unit)
            const each = (count: number): number[] => Array<number>(3).fill(count)
            expect(windowCounts(schedule, { mode: 'unit' })).toEqual({
              gathers: each(2 * chunks * units),
              reductions: each(chunks * units),
            })
            expect(windowCounts(schedule, { mode: 'unit', keepLast: true }).gathers).toEqual(
              each((2 * chunks - 1) * units),
            )
          }
  })

  it('gathers one chunk at a time and adds up the gradients of one chunk at a time', () => {
    for (const unit of [1, 2, 3, 4, 7]) {
      const shape = { actors: 4, microbatches: 7 }
      const schedule = scheduleChain('zeropp', shape, { unit, chunks: 3, backward: 'split' })
      for (const windows of [
        ...gatherWindows(schedule, { mode: 'unit' }),
        ...gatherWindows(schedule, { mode: 'unit', keepLast: true }),
        ...gradientWindows(schedule, { mode: 'unit' }),
      ])
        for (const [index, window] of windows.entries())
          expect(window.first).toBeGreaterThan(windows[index - 1]?.last ?? -1)
    }
  })

  it('holds U V activations on every actor, and finds U from memory', () => {
    const held = (parameters: Record<string, unknown>): readonly number[] => {
      const schedule = scheduleChain('zeropp', { actors: 4, microbatches: 6 }, parameters)
      return scheduleMetrics(schedule, unitCosts(schedule.stages)).peakActivations
    }
    for (const backward of ['whole', 'split']) {
      expect(held({ backward })).toEqual([8, 8, 8, 8])
      expect(held({ backward, unit: 5, chunks: 3 })).toEqual([15, 15, 15, 15])
      expect(held({ backward, memory: 7 })).toEqual([6, 6, 6, 6])
      expect(held({ backward, memory: 2 })).toEqual([2, 2, 2, 2])
      expect(held({ backward, memory: 1000 })).toEqual([12, 12, 12, 12])
      expect(held({ backward, memory: 9, unit: 2 })).toEqual([4, 4, 4, 4])
    }
  })

  it.each([
    [{ unit: 7 }, 'a unit of 7 micro-batches is larger than the batch, which has 6'],
    [{ memory: 2, chunks: 3 }, 'less than a unit of one micro-batch takes, which is 3, one for each chunk'],
    [{ memory: 9, unit: 5 }, 'takes 10 activations, and there is memory for 9: units of 4 fit'],
  ])('refuses %o', (parameters, reason) => {
    expect(() => scheduleChain('zeropp', { actors: 4, microbatches: 6 }, parameters)).toThrow(reason)
  })

  it('takes a batch smaller than the number of actors, and refuses other placements', () => {
    expect(validateSchedule(scheduleChain('zeropp', { actors: 5, microbatches: 2 }))).toEqual([])
    expect(() => generateSchedule('zeropp', chainStages(4, 4, [0, 1, 1, 0]))).toThrow(
      /puts stage 2 on actor 0/,
    )
  })
})
