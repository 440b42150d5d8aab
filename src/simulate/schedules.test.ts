import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { tinyPlan, tinyProgram } from '../../test/support/programs.ts'
import { lowerPlan } from '../program/index.ts'
import { timeSchedule } from '../schedule/index.ts'
import { phaseCosts, simulateProgram, unitCosts } from './index.ts'

describe.each(['gpipe', '1f1b a'] as const)('times of %s in unit costs', (schedule) => {
  const [stages, microbatches] = [3, 5]
  const result = simulateProgram(tinyProgram({ stages, microbatches, schedule, data: 2 }), unitCosts())

  it('end after (M + S - 1) forwards and backwards, and the update', () => {
    // GPipe, section 2.3, with a backward of two forwards: the bubble is (S - 1) / (M + S - 1).
    expect(result.stepSeconds).toBe((microbatches + stages - 1) * 3 + 1)
  })

  it('fill every rank with its share of that: the update counts once, though it has two parts', () => {
    for (const { busySeconds, idle } of result.ranks) {
      expect(busySeconds).toBe(microbatches * 3 + 1)
      expect(idle.total).toBe((stages - 1) * 3)
    }
  })
})

describe('hops', () => {
  // papers/17: S = 4, M = 16, F = B = 1, c per hop.
  it.each([
    { schedule: '1f1b a', makespans: [38, 43.6, 52, 66] },
    { schedule: '1f1b b', makespans: [38, 39.2, 41, 44] },
  ] as const)('delay $schedule as DAPPLE has it', ({ schedule, makespans }) => {
    const program = tinyProgram({ stages: 4, microbatches: 16, schedule })
    for (const [index, hop] of [0, 0.2, 0.5, 1].entries()) {
      const costs = phaseCosts({ F: 1, I: 0.5, W: 0.5, hop }, 4)
      expect(simulateProgram(program, costs).stepSeconds).toBeCloseTo(makespans[index]!, 9)
    }
  })

  it('give the times of the schedule, whatever the costs', () => {
    const time = fc.integer({ min: 1, max: 9 })
    fc.assert(
      fc.property(
        fc.constantFrom('gpipe' as const, '1f1b a' as const, '1f1b b' as const),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.record({ F: time, I: time, W: time }), { minLength: 4, maxLength: 4 }),
        fc.integer({ min: 0, max: 20 }),
        (schedule, stages, microbatches, times, hop) => {
          const { plan, model } = tinyPlan({ stages, microbatches, schedule })
          // Messages under way do not wait for each other.
          const program = { ...lowerPlan(plan, model), channelSlots: microbatches }
          const some = times.slice(0, stages)
          const [F, I, W] = [some.map(({ F }) => F), some.map(({ I }) => I), some.map(({ W }) => W)]
          const phases = { F, B: I.map((inputs, stage) => inputs + W[stage]!) }
          const { stepSeconds } = simulateProgram(program, phaseCosts({ F, I, W, hop }, stages))
          expect(stepSeconds).toBe(timeSchedule(plan.schedule, { phases, hop }).makespan)
        },
      ),
      { numRuns: 60 },
    )
  })
})
