import { describe, expect, it } from 'vitest'
import type { ParameterRule } from './generator.ts'
import {
  chainStages,
  generateSchedule,
  parseSchedule,
  printSchedule,
  readParameters,
  scheduleGenerators,
  timeSchedule,
  validateSchedule,
} from './index.ts'

// Every generator of the registry is held to this without being named here.

function variations(rule: ParameterRule): (number | string | null)[] {
  if (rule.kind === 'choice') return Object.keys(rule.choices)
  return [rule.default, rule.minimum, rule.minimum + 1, rule.minimum + 2]
}

/** Every combination of a few values of each parameter. */
function settings(rules: Readonly<Record<string, ParameterRule>>): Record<string, number | string | null>[] {
  return Object.entries(rules).reduce<Record<string, number | string | null>[]>(
    (made, [name, rule]) =>
      made.flatMap((before) => variations(rule).map((value) => ({ ...before, [name]: value }))),
    [{}],
  )
}

const stageCounts = [1, 2, 3, 4, 5]
const microbatchCounts = [1, 2, 3, 5, 8]
const shapes = stageCounts.flatMap((stages) =>
  microbatchCounts.map((microbatches) => ({ stages, microbatches })),
)

describe.each([...scheduleGenerators.values()])('schedule $name', (generator) => {
  it('says what it is', () => {
    expect(generator.summary).not.toBe('')
    expect(generator.source).not.toBe('')
    for (const rule of Object.values(generator.parameters)) expect(rule.summary).not.toBe('')
  })

  it('has closed forms at its defaults', () => {
    const values = readParameters(generator)
    expect(
      generator.closedForms.makespan({ stages: 4, microbatches: 8 }, values, { F: 1, B: 2 }),
    ).toBeDefined()
  })

  describe.each(settings(generator.parameters))('with %o', (parameters) => {
    it.each(shapes)('$stages stages, $microbatches micro-batches', (shape) => {
      const schedule = generateSchedule(
        generator.name,
        chainStages(shape.stages, shape.microbatches),
        parameters,
      )
      expect(validateSchedule(schedule)).toEqual([])
      expect(parseSchedule(printSchedule(schedule))).toEqual(schedule)

      const values = readParameters(generator, parameters)
      for (const [F, B] of [
        [1, 2],
        [1, 1],
        [5, 3],
      ] as const) {
        const timing = timeSchedule(schedule, { phases: { F, B } })
        const makespan = generator.closedForms.makespan(shape, values, { F, B })
        if (makespan !== undefined) expect(timing.makespan).toBe(makespan)
        expect(timing.busy).toEqual(Array(shape.stages).fill(shape.microbatches * (F + B)))
        expect(timing.peakInFlight).toEqual(
          timing.peakInFlight.map((_, stage) => generator.closedForms.peakInFlight(stage, shape, values)),
        )
      }
    })
  })
})
