import { expect, it } from 'vitest'
import {
  chainStages,
  formatEntry,
  generateSchedule,
  readCosts,
  scheduleChain,
  scheduleMetrics,
} from '../index.ts'

it('is breadth first over the chunks of each actor', () => {
  const { placement, actors } = scheduleChain('looped-bfs', { actors: 2, microbatches: 3 })
  expect(placement).toEqual([0, 1, 0, 1])
  expect(actors.map((list) => list.map(formatEntry).join(' '))).toEqual([
    '0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2 0B0 0B1 0B2',
    '1F0 1F1 1F2 3F0 3F1 3F2 3B0 3B1 3B2 1B0 1B1 1B2',
  ])
})

it('idles (P - 1) / (V B + P - 1) with at least as many micro-batches as actors, and holds all activations', () => {
  for (const actors of [1, 2, 4, 7])
    for (const chunks of [1, 2, 4])
      for (const microbatches of [actors, actors + 3, 3 * actors]) {
        const schedule = scheduleChain('looped-bfs', { actors, microbatches }, { chunks })
        const metrics = scheduleMetrics(schedule, readCosts({ F: 3, I: 2, W: 2 }, schedule.stages))
        expect(metrics.bubbleFraction).toBeCloseTo((actors - 1) / (chunks * microbatches + actors - 1), 12)
        expect(metrics.peakActivations).toEqual(Array(actors).fill(chunks * microbatches))
      }
})

it('refuses another placement', () => {
  expect(() => generateSchedule('looped-bfs', chainStages(4, 4, [0, 1, 1, 0]))).toThrow(
    /puts stage 2 on actor 0/,
  )
})
