import { describe, expect, it } from 'vitest'
import { costsOfSetting, publishedSettings } from '../../../test/support/publishedBubbleRates.ts'
import {
  type Action,
  chainStages,
  formatEntry,
  generateSchedule,
  readCosts,
  type ScheduleEntry,
  scheduleChain,
  scheduleMetrics,
  validateSchedule,
} from '../index.ts'

const interleaved = 'interleaved-1f1b'

describe('interleaved-1f1b', () => {
  it('goes by rounds, chunk after chunk', () => {
    const { placement, actors } = scheduleChain(interleaved, { actors: 2, microbatches: 4 })
    expect(placement).toEqual([0, 1, 0, 1])
    expect(actors.map((list) => list.map(formatEntry).join(' '))).toEqual([
      '0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3',
      '1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3',
    ])
  })

  // Figure 4 of Narayanan et al. 2021: four devices, eight micro-batches, two chunks.
  it('has the warm-up of the published figure', () => {
    const { actors } = scheduleChain(interleaved, { actors: 4, microbatches: 8 })
    const start = (actor: number): string => {
      const list = actors[actor]!.map(formatEntry)
      return list.slice(0, list.findIndex((entry) => entry.includes('B')) + 1).join(' ')
    }
    expect(start(0)).toBe('0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 4B0')
    expect(start(1)).toBe('1F0 1F1 1F2 1F3 5F0 5F1 5F2 5F3 1F4 5B0')
    expect(start(3)).toBe('3F0 3F1 3F2 3F3 7F0 7B0')
  })

  it.each([
    [4, 13, '12 and 15'],
    [4, 9, '8 and 10'],
    [2, 1001, '1000 and 1002'],
    [8, 62, '56 and 63'],
  ])('refuses rounds of unequal size: %d actors, %d micro-batches', (actors, microbatches, legal) => {
    expect(() => scheduleChain(interleaved, { actors, microbatches })).toThrow(
      `the nearest legal counts are ${legal}`,
    )
    for (const count of legal.split(' and ').map(Number))
      expect(validateSchedule(scheduleChain(interleaved, { actors, microbatches: count }))).toEqual([])
  })

  it('refuses another placement, with the stage', () => {
    const refusal =
      (placement: number[], parameters = {}): (() => unknown) =>
      () =>
        generateSchedule(interleaved, chainStages(4, 4, placement), parameters)
    expect(refusal([0, 1, 1, 0])).toThrow(/puts stage 2 on actor 0, and it is on actor 1/)
    expect(refusal([0, 1, 0, 1], { chunks: 3 })).toThrow(/3 chunks on each of 2 actors are 6 stages/)
    expect(refusal([0, 1, 2, 3])).toThrow(/2 chunks on each of 4 actors are 8 stages, and there are 4/)
  })

  it('takes 3 (V M + D - 1) and holds the warm-up and one', () => {
    for (const actors of [1, 2, 3, 4, 8])
      for (const chunks of [1, 2, 3])
        for (const rounds of [1, 2, 3])
          for (const extraWarmup of [false, true]) {
            const microbatches = rounds * actors
            const shape = { actors, microbatches }
            const schedule = scheduleChain(interleaved, shape, { chunks, extraWarmup })
            const costs = readCosts({ F: 1, I: 1, W: 1 }, schedule.stages)
            const { makespan, peakActivations } = scheduleMetrics(schedule, costs)
            expect(makespan).toBe(3 * (chunks * microbatches + actors - 1))
            peakActivations.forEach((peak, actor) => {
              const warmup = (chunks - 1) * actors + 2 * (actors - 1 - actor) + (extraWarmup ? 1 : 0)
              expect(peak).toBe(Math.min(warmup + 1, chunks * microbatches))
            })
          }
  })

  it('with the extra warm-up a forward and the backward after it may overlap; without, they wait for each other', () => {
    const paired = (extraWarmup: boolean): string[] => {
      const schedule = scheduleChain(interleaved, { actors: 3, microbatches: 9 }, { extraWarmup })
      const actors = schedule.actors.map((list) => pairUp(list as readonly Action[]))
      expect(actors.every((list) => list.some((entry) => 'pair' in entry))).toBe(true)
      return validateSchedule({ ...schedule, actors }).map(({ code }) => code)
    }
    expect(paired(true)).toEqual([])
    expect(paired(false)).toContain('SCHEDULE_ORDER')
  })

  // Each rate is printed with one pass of hops fewer than there are between a first and a last action: 2 V D - 2 hops of
  // the way there and back, less one round of D. With those taken off the printed digits come out, all four of them; as
  // they stand, rates are 2.3 to 4.2 % above.
  it.each(publishedSettings)(
    'has the published rate but for D hops, $model with $microbatches',
    (setting) => {
      const { stages: actors, microbatches, chunks, times } = setting
      const schedule = scheduleChain(interleaved, { actors, microbatches }, { chunks })
      const { bubbleFraction } = scheduleMetrics(schedule, costsOfSetting(setting, chunks))
      const total = times.F + times.I + times.W
      const work = microbatches * total
      const span = work / (1 - bubbleFraction)
      const hops = 2 * (chunks * actors - 1)
      expect(span).toBeCloseTo(work + ((actors - 1) * total) / chunks + hops * times.hop, 6)
      const printed = setting.rates[interleaved]
      expect((1 - work / (span - actors * times.hop)).toFixed(4)).toBe(printed.toFixed(4))
      expect(bubbleFraction / printed).toBeGreaterThan(1.02)
      expect(bubbleFraction / printed).toBeLessThan(1.042)
    },
  )
})

/** Each forward after the first backward's place made a pair with the backward that follows it. */
function pairUp(list: readonly Action[]): ScheduleEntry[] {
  const steady = list.findIndex(({ phase }) => phase === 'B') - 1
  const entries: ScheduleEntry[] = list.slice(0, steady)
  for (let at = steady; at < list.length; at++) {
    const [first, second] = [list[at]!, list[at + 1]]
    if (first.phase === 'F' && second?.phase === 'B') {
      entries.push({ pair: [first, second] })
      at++
    } else entries.push(first)
  }
  return entries
}
