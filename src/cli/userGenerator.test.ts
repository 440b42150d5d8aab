import { describe, expect, it } from 'vitest'
import { scheduleChain, scheduleGenerators } from '../schedule/index.ts'
import { userGenerator } from './userGenerator.ts'

const gpipe = scheduleGenerators.get('gpipe')!
const generate = gpipe.generate
const shape = { actors: 2, chunks: 1, microbatches: 3 }

describe('what a generator of the user’s own gives is looked at', () => {
  it('its closed forms, which may throw or be no numbers', () => {
    const of = (makespan: unknown) =>
      userGenerator({ generate, closedForms: { makespan } }, 'own.mjs').closedForms
    const times = { F: 1, I: 1, W: 1 }
    expect(of(() => 7).makespan(shape, {}, times)).toBe(7)
    expect(of(() => undefined).makespan(shape, {}, times)).toBeUndefined()
    expect(of(() => 7).peakActivations(0, shape, {})).toBeUndefined()
    for (const [bad, message] of [
      [() => '7', 'makespan of own gives no number'],
      [
        () => {
          throw new Error('not today')
        },
        'makespan of own threw: not today',
      ],
    ] as const)
      expect(() => of(bad).makespan(shape, {}, times)).toThrow(
        expect.objectContaining({ code: 'SCHEDULE_MODULE', message }),
      )
  })

  it.each([
    ['actors', { actors: new Array(2) }],
    ['actions', { actors: [new Array(6), []] }],
  ])('lists with holes in them (%s)', (_, changes) => {
    const made = userGenerator(
      { generate: (...given: Parameters<typeof generate>) => ({ ...generate(...given), ...changes }) },
      'own.mjs',
    )
    expect(() => scheduleChain(made, shape)).toThrow(
      expect.objectContaining({ code: 'SCHEDULE_MODULE', message: 'the schedule of own is none' }),
    )
  })

  it('placements with holes in them', () => {
    const made = userGenerator({ generate, place: () => new Array(2) }, 'own.mjs')
    expect(() => scheduleChain(made, shape)).toThrow(
      expect.objectContaining({
        code: 'SCHEDULE_MODULE',
        message: 'place of own gives no actor of each stage',
      }),
    )
  })
})
