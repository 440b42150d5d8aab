import { describe, expect, it } from 'vitest'
import {
  chainStages,
  formatEntry,
  generateSchedule,
  readCosts,
  type ScheduleEntry,
  scheduleChain,
  scheduleMetrics,
  timeSchedule,
  unitCosts,
} from '../index.ts'

describe('dualpipe-v', () => {
  it('goes through eight phases', () => {
    const lists = scheduleChain('dualpipe-v', { actors: 2, microbatches: 5 }).actors.map((list) =>
      list.map(formatEntry),
    )
    expect(lists[0]).toEqual([
      ...['0F0', '0F1'],
      ...['0F2', '3F0'],
      ...['3I0', '3W0', '3F1'],
      ...['(0F3;3B1)', '(3F2;0B0)', '(0F4;3B2)', '(3F3;0B1)'],
      ...['3B3', '(3F4;0B2)'],
      ...['3B4', '0I3'],
      ...['0W3', '0I4'],
      ...['0W4'],
    ])
    // The actor where the chain turns has no phases 1, 3, 5 and 7, and begins the main part without an overlap.
    expect(lists[1]).toEqual([
      ...['1F0', '2F0', '1F1', '2F1'],
      ...['1F2', '2B0', '(2F2;1B0)', '(1F3;2B1)', '(2F3;1B1)', '(1F4;2B2)', '(2F4;1B2)'],
      ...['2B3', '1B3', '2I4', '1I4'],
      ...['2W4', '1W4'],
    ])
  })

  it('overlaps 2 (M - 2 P + r + 1) pairs on actor r in the main part and P - 1 - r after it, but for the turn', () => {
    for (const [actors, microbatches] of [
      [1, 4],
      [3, 6],
      [4, 13],
    ] as const)
      for (const [actor, entries] of scheduleChain('dualpipe-v', { actors, microbatches }).actors.entries()) {
        const main = 2 * (microbatches - 2 * actors + actor + 1)
        const turn = actor === actors - 1 ? 1 : 0
        expect(entries.filter((entry) => 'pair' in entry)).toHaveLength(main + actors - 1 - actor - turn)
      }
  })

  // DeepSeek: bubble (P - 1)(F&B + B - 3 W) for P actors, a pair F&B taking F + B; activations of 2 P + 1 chunks.
  it('has the bubble and the memory of its source for equal F, I and W', () => {
    for (const actors of [1, 2, 3, 5, 8])
      for (const microbatches of [2 * actors, 2 * actors + 1, 5 * actors]) {
        const schedule = scheduleChain('dualpipe-v', { actors, microbatches })
        const metrics = scheduleMetrics(schedule, unitCosts(2 * actors))
        expect(metrics.makespan).toBe(6 * microbatches + (actors - 1) * (3 + 2 - 3))
        expect(metrics.peakActivations).toEqual(Array(actors).fill(2 * actors + 1))
        const [F, I, W] = [7, 4, 3]
        const { makespan } = scheduleMetrics(schedule, readCosts({ F, I, W }, 2 * actors))
        expect(makespan).toBe(2 * microbatches * (F + I + W) + (actors - 1) * (2 * F + I - W))
      }
  })

  it('fills waits with the weights it put off: whole backwards there would take longer', () => {
    const schedule = scheduleChain('dualpipe-v', { actors: 4, microbatches: 8 })
    const whole = {
      ...schedule,
      actors: schedule.actors.map((entries) =>
        entries.flatMap((entry): ScheduleEntry[] => {
          if ('pair' in entry) return [entry]
          if (entry.phase === 'W') return []
          return [entry.phase === 'I' ? { ...entry, phase: 'B' } : entry]
        }),
      ),
    }
    expect(timeSchedule(schedule).makespan).toBeLessThan(timeSchedule(whole).makespan)
  })

  it('refuses fewer than two micro-batches an actor, and says how many it needs', () => {
    expect(() => scheduleChain('dualpipe-v', { actors: 3, microbatches: 5 })).toThrow(
      /at least 6 micro-batches/,
    )
    expect(() => generateSchedule('dualpipe-v', chainStages(4, 4, [0, 1, 0, 1]))).toThrow(
      /stage 2 on actor 1/,
    )
  })
})
