import { describe, expect, it } from 'vitest'
import {
  chainStages,
  entryActions,
  findGenerator,
  formatAction,
  generateSchedule,
  placeStages,
  readCosts,
  type Schedule,
  scheduleChain,
  scheduleMetrics,
  unitCosts,
  validateSchedule,
} from '../index.ts'

const names = ['zb-v', 'v-half', 'v-min'] as const

/** What an actor does, its W left out: they go where time or memory asks for them. */
const withoutWeights = (name: string, actor: number, actors: number, microbatches: number): string =>
  scheduleChain(name, { actors, microbatches })
    .actors[actor]!.flatMap(entryActions)
    .filter(({ phase }) => phase !== 'W')
    .map(formatAction)
    .join(' ')

const rate = (schedule: Schedule): number =>
  scheduleMetrics(schedule, unitCosts(schedule.stages)).bubbleFraction

describe('order of F and I', () => {
  it('zb-v: warm-up, second chunk back down, both in turn, the rest', () => {
    expect(withoutWeights('zb-v', 0, 2, 4)).toBe(
      '0F0 0F1 0F2 3F0 3I0 3F1 3I1 0F3 0I0 3F2 3I2 0I1 3F3 3I3 0I2 0I3',
    )
    expect(withoutWeights('zb-v', 1, 2, 4)).toBe(
      '1F0 2F0 1F1 2F1 2I0 1F2 1I0 2F2 2I1 1F3 1I1 2F3 2I2 1I2 2I3 1I3',
    )
  })

  // Slots of the building blocks, 2 actors: F0, F1, I1, I0 at 0 3 4 7 and 1 2 5 6 (v-min), 0 4 8 13 and 2 3 10 12 (v-half).
  it('v-min and v-half: the building block every six slots', () => {
    expect(withoutWeights('v-min', 0, 2, 3)).toBe('0F0 3F0 3I0 0F1 0I0 3F1 3I1 0F2 0I1 3F2 3I2 0I2')
    expect(withoutWeights('v-min', 1, 2, 3)).toBe('1F0 2F0 2I0 1I0 1F1 2F1 2I1 1I1 1F2 2F2 2I2 1I2')
    expect(withoutWeights('v-half', 0, 2, 3)).toBe('0F0 3F0 0F1 3I0 3F1 0F2 0I0 3I1 3F2 0I1 3I2 0I2')
    expect(withoutWeights('v-half', 1, 2, 3)).toBe('1F0 2F0 1F1 2F1 2I0 1I0 1F2 2F2 2I1 1I1 2I2 1I2')
  })
})

it('zb-v has no bubble for equal F, I and W from 2 P - 1 micro-batches on, in the memory of 1f1b', () => {
  for (const actors of [1, 2, 3, 4, 6, 9])
    for (const microbatches of [2 * actors - 1, 2 * actors, 3 * actors + 1]) {
      const schedule = scheduleChain('zb-v', { actors, microbatches })
      const metrics = scheduleMetrics(schedule, unitCosts(2 * actors))
      expect(metrics.bubbleFraction).toBe(0)
      // Two chunks are a stage of 1F1B, whose first stage holds P.
      expect(Math.max(...metrics.peakActivations) / 2).toBeLessThanOrEqual(actors)
    }
})

// Qi et al. 2024: against the P of 1F1B, (P + 2) / 2 and (P + 4) / 3 stages; half and two thirds of its bubble 6 (P - 1).
it.each([
  ['v-half', (actors: number) => actors + 2, (actors: number) => 3 * (actors - 1)],
  // With a building block that starts its second half later a number of actors that three divides has a slot more.
  [
    'v-min',
    (actors: number) => (2 * (actors + 4)) / 3,
    (actors: number) => 4 * (actors - 1) + (actors % 3 === 0 ? 1 : 0),
  ],
] as const)('%s keeps to its share of memory and bubble', (name, most, bubble) => {
  for (const actors of [2, 3, 4, 5, 6, 7, 8, 9, 12, 16])
    for (const microbatches of [actors, 2 * actors, 5 * actors]) {
      const { makespan, peakActivations } = scheduleMetrics(
        scheduleChain(name, { actors, microbatches }),
        unitCosts(2 * actors),
      )
      expect(Math.max(...peakActivations)).toBeLessThanOrEqual(most(actors))
      expect(makespan - 6 * microbatches).toBeLessThanOrEqual(bubble(actors))
    }
})

describe.each(names)('%s', (name) => {
  const { closedForms } = findGenerator(name)

  it('has its closed forms', () => {
    let known = 0
    for (const actors of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 17])
      for (const microbatches of [1, 2, actors, actors + 2, 3 * actors]) {
        const schedule = scheduleChain(name, { actors, microbatches })
        const shape = { actors, chunks: 2, microbatches }
        const metrics = scheduleMetrics(schedule, readCosts({ F: 2, I: 2, W: 2 }, 2 * actors))
        const makespan = closedForms.makespan(shape, { search: false }, { F: 2, I: 2, W: 2 })
        if (makespan !== undefined) expect(metrics.makespan).toBe(makespan)
        const peaks = metrics.peakActivations.map((_, actor) =>
          closedForms.peakActivations(actor, shape, { search: false }),
        )
        if (peaks[0] !== undefined) expect(metrics.peakActivations).toEqual(peaks)
        if (makespan !== undefined && peaks[0] !== undefined) known++
      }
    expect(known).toBeGreaterThan(23)
  })

  it('with search is never longer under the costs, in the same memory', () => {
    const actors = 4
    const graph = chainStages(8, 10, placeStages(name, actors))
    const most = (schedule: Schedule): number =>
      Math.max(...scheduleMetrics(schedule, unitCosts(8)).peakActivations)
    const limit = name === 'zb-v' ? 8 : name === 'v-half' ? 6 : 5
    for (const [F, I, W, hop] of [
      [1, 1, 1, 0],
      [4, 5, 3, 0.5],
      [3, 6, 2, 2],
      [1, 1, 3, 0],
    ] as const) {
      const costs = readCosts({ F, I, W, hop }, 8)
      const drawn = generateSchedule(name, graph, {}, costs)
      const searched = generateSchedule(name, graph, { search: true }, costs)
      expect(validateSchedule(searched)).toEqual([])
      expect(scheduleMetrics(searched, costs).bubbleFraction).toBeLessThanOrEqual(
        scheduleMetrics(drawn, costs).bubbleFraction,
      )
      expect(most(searched)).toBeLessThanOrEqual(limit)
    }
  })

  it('refuses what is no V', () => {
    expect(() => generateSchedule(name, chainStages(4, 4, [0, 1, 0, 1]))).toThrow(
      /stage 2 on actor 1, and it is on actor 0/,
    )
    expect(() => generateSchedule(name, chainStages(3, 4))).toThrow(/odd number/)
    const skips = {
      ...chainStages(4, 4, [0, 1, 1, 0]),
      edges: [
        [0, 1],
        [1, 2],
        [2, 3],
        [0, 3],
      ] as const,
    }
    expect(() => generateSchedule(name, skips)).toThrow(/a chain of stages/)
  })
})

it('more memory means less bubble: v-min, v-half, zb-v', () => {
  const shape = { actors: 8, microbatches: 24 }
  const [none, half, least] = names.map((name) => rate(scheduleChain(name, shape)))
  expect(none).toBe(0)
  expect(half).toBeGreaterThan(0)
  expect(least).toBeGreaterThan(half!)
})
