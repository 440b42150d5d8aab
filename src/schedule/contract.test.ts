import { describe, expect, it } from 'vitest'
import { MeshwrightError } from '../base/index.ts'
import type { ParameterRule } from './generator.ts'
import {
  parseSchedule,
  placeStages,
  printSchedule,
  readCosts,
  readParameters,
  type Schedule,
  scheduleChain,
  scheduleGenerators,
  scheduleMetrics,
  validateSchedule,
} from './index.ts'

// Every generator of the registry is held to this without being named here.

function variations(rule: ParameterRule): (number | string | boolean | null)[] {
  if (rule.kind === 'choice') return Object.keys(rule.choices)
  if (rule.kind === 'boolean') return [false, true]
  return [...new Set([rule.default, rule.minimum, rule.minimum + 1, rule.minimum + 2])]
}

/** Every combination of a few values of each parameter. */
function settings(
  rules: Readonly<Record<string, ParameterRule>>,
): Record<string, number | string | boolean | null>[] {
  return Object.entries(rules).reduce<Record<string, number | string | boolean | null>[]>(
    (made, [name, rule]) =>
      made.flatMap((before) => variations(rule).map((value) => ({ ...before, [name]: value }))),
    [{}],
  )
}

const actorCounts = [1, 2, 3, 4, 5]
const microbatchCounts = [1, 2, 3, 5, 8]
const shapes = actorCounts.flatMap((actors) =>
  microbatchCounts.map((microbatches) => ({ actors, microbatches })),
)

/** The schedule, or why there is none. */
function scheduleOrReason(
  name: string,
  shape: { actors: number; microbatches: number },
  parameters: Record<string, unknown>,
): Schedule | string {
  try {
    return scheduleChain(name, shape, parameters)
  } catch (error) {
    if (error instanceof MeshwrightError && error.code === 'SCHEDULE_REFUSED') return error.message
    throw error
  }
}

describe.each([...scheduleGenerators.values()])('schedule $name', (generator) => {
  it('says what it is', () => {
    expect(generator.summary).not.toBe('')
    expect(generator.source).not.toBe('')
    for (const rule of Object.values(generator.parameters)) expect(rule.summary).not.toBe('')
  })

  it('schedules 4 actors and 8 micro-batches at its defaults', () => {
    expect(typeof scheduleOrReason(generator.name, { actors: 4, microbatches: 8 }, {})).not.toBe('string')
  })

  describe.each(settings(generator.parameters))('with %o', (parameters) => {
    it.each(shapes)('$actors actors, $microbatches micro-batches', (shape) => {
      const schedule = scheduleOrReason(generator.name, shape, parameters)
      if (typeof schedule === 'string') {
        expect(schedule.length).toBeGreaterThan(`${generator.name} cannot schedule these stages: `.length)
        return
      }
      expect(validateSchedule(schedule)).toEqual([])
      expect(parseSchedule(printSchedule(schedule))).toEqual(schedule)

      const values = readParameters(generator, parameters)
      const placement = placeStages(generator.name, shape.actors, parameters)
      expect(schedule.placement).toEqual(placement)
      const chunks = placement.length / shape.actors
      for (const [F, I, W] of [
        [1, 1, 1],
        [2, 1, 1],
        [5, 2, 1],
      ] as const) {
        const metrics = scheduleMetrics(schedule, readCosts({ F, I, W }, schedule.stages))
        const full = { ...shape, chunks }
        const makespan = generator.closedForms.makespan(full, values, { F, I, W })
        if (makespan !== undefined) expect(metrics.makespan).toBeCloseTo(makespan, 9)
        expect(metrics.timing.busy).toEqual(
          Array(shape.actors).fill(chunks * shape.microbatches * (F + I + W)),
        )
        expect(metrics.makespan).toBeGreaterThanOrEqual(metrics.lowerBound - 1e-9)
        metrics.peakActivations.forEach((peak, actor) => {
          const expected = generator.closedForms.peakActivations(actor, full, values)
          if (expected !== undefined) expect(peak).toBe(expected)
        })
      }
    })
  })
})
