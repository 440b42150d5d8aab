import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type TinyPlan, tinyPlan, tinyProgram } from '../../test/support/programs.ts'
import type { ResolvedPlan } from '../plan/index.ts'
import { lowerPlan, type Program } from '../program/index.ts'
import {
  placeStages,
  readCosts,
  scheduleGenerators,
  scheduleMetrics,
  timeSchedule,
} from '../schedule/index.ts'
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

type Schedule = NonNullable<TinyPlan['schedule']>
const known = new Map<string, { readonly plan: ResolvedPlan; readonly program: Program }>()

/** With room for all messages: those under way do not wait for each other. */
function lowered(
  schedule: Schedule,
  stages: number,
  microbatches: number,
): { readonly plan: ResolvedPlan; readonly program: Program } {
  const key = `${schedule} ${stages} ${microbatches}`
  let made = known.get(key)
  if (made === undefined) {
    const { plan, model } = tinyPlan({ stages, microbatches, schedule })
    made = { plan, program: { ...lowerPlan(plan, model), channelSlots: microbatches } }
    known.set(key, made)
  }
  return made
}

// Qi et al. 2023, tables 4 to 6, as 1 - m (F + B + W) / (longest time from a stage's first to its last pass), in milliseconds.
const published = [
  { stages: 8, microbatches: 24, F: 18.522, I: 18.086, W: 9.337, hop: 0.601, rate: 0.2431 },
  { stages: 8, microbatches: 64, F: 18.546, I: 18.097, W: 9.321, hop: 0.762, rate: 0.124 },
  { stages: 16, microbatches: 48, F: 11.347, I: 11.248, W: 8.132, hop: 0.377, rate: 0.2552 },
]

describe('published bubble rates of 1F1B', () => {
  it.each(published)(
    '$stages stages x $microbatches micro-batches: $rate',
    ({ stages, microbatches, rate, ...costs }) => {
      const program = tinyProgram({ stages, microbatches, schedule: '1f1b a' })
      const { ranks, stepSeconds } = simulateProgram(program, phaseCosts(costs, stages))
      const spans = ranks.map(({ idle }) => stepSeconds - idle.warmup - idle.drain)
      expect(1 - (microbatches * (costs.F + costs.I + costs.W)) / Math.max(...spans)).toBeCloseTo(rate, 4)
    },
  )
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
        fc.constantFrom([1, 3], [2, 5], [3, 2], [4, 6]),
        fc.array(fc.record({ F: time, I: time, W: time }), { minLength: 4, maxLength: 4 }),
        fc.integer({ min: 0, max: 20 }),
        (schedule, [stages = 1, microbatches = 1], times, hop) => {
          const { plan, program } = lowered(schedule, stages, microbatches)
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

describe('every schedule of the list', () => {
  // What is lowered from a schedule takes as long, and holds as many activations, as the schedule by itself.
  it.each([...scheduleGenerators.keys()])('%s, as a program', (name) => {
    const [actors, microbatches] = [3, 6]
    const stages = placeStages(name, actors).length
    const costs = { F: 3, I: 2, W: 4, hop: 0.5 }
    const schedule = { name, costs }
    const { plan, model } = tinyPlan({ stages: actors, layers: stages, microbatches, schedule, clip: null })
    const program = { ...lowerPlan(plan, model), channelSlots: 2 * microbatches }
    const { stepSeconds, ranks } = simulateProgram(program, phaseCosts(costs, stages))
    const alone = scheduleMetrics(plan.schedule, readCosts(costs, stages))
    expect(ranks.map(({ peakActivations }) => peakActivations)).toEqual(alone.peakActivations)
    const isPaired = plan.schedule.actors.some((entries) => entries.some((entry) => 'pair' in entry))
    // In a program the two of a pair come one after the other, and the first gives its result before the second ends.
    if (isPaired) expect(stepSeconds).toBeLessThanOrEqual(alone.makespan)
    else expect(stepSeconds).toBeCloseTo(alone.makespan, 9)
  })
})

describe('bytes on the wire', () => {
  it('of data parallelism are 2 (n - 1) / n of the gradients on each rank', () => {
    const [replicas, microbatches] = [4, 2]
    const program = tinyProgram({ stages: 1, data: replicas, microbatches, clip: null, tied: false })
    const parameters = program.roles[0]!.buffers.find(({ name }) => name === 'w0')!.shape[0]!
    // And the loss, a scalar; all of f64.
    const { bytes, calls } = simulateProgram(program, unitCosts())
    expect(bytes).toMatchObject({ p2p: 0, allReduce: 2 * (replicas - 1) * 8 * (parameters + 1) })
    expect(calls.p2p).toBe(0)
  })

  it('of a pipeline are one activation and one cotangent for each micro-batch and border', () => {
    const [stages, microbatches] = [3, 5]
    const { bytes, calls } = simulateProgram(tinyProgram({ stages, microbatches, tied: false }), unitCosts())
    // One sample of context 4, hidden 4.
    expect(bytes.p2p).toBe(2 * (stages - 1) * microbatches * 4 * 4 * 8)
    expect(calls.p2p).toBe(2 * (stages - 1) * microbatches)
  })
})

describe('activations', () => {
  it('peak where the schedule says', () => {
    const { ranks } = simulateProgram(tinyProgram({ stages: 4, microbatches: 6 }), unitCosts())
    expect(ranks.map(({ peakActivations }) => peakActivations)).toEqual([4, 3, 2, 1])
  })
})

describe('16,384 ranks', () => {
  it('are one for each stage where all replicas do the same', () => {
    const [small, large] = [1, 2048].map((data) => tinyProgram({ stages: 8, data, microbatches: 8 }))
    const { ranks, stepSeconds } = simulateProgram(large!, unitCosts())
    expect(ranks.map(({ copies }) => copies)).toEqual(Array(8).fill(2048))
    expect(stepSeconds).toBe(simulateProgram(small!, unitCosts()).stepSeconds)
  })
})
