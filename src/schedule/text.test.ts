import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MeshwrightError } from '../base/index.ts'
import {
  type Action,
  parseSchedule,
  phases,
  printSchedule,
  type Schedule,
  type ScheduleEntry,
} from './index.ts'

const scheduleArbitrary: fc.Arbitrary<Schedule> = fc
  .record({
    stages: fc.integer({ min: 1, max: 5 }),
    microbatches: fc.integer({ min: 1, max: 12 }),
    actors: fc.integer({ min: 1, max: 5 }),
  })
  .chain(({ stages, microbatches, actors }) => {
    const action: fc.Arbitrary<Action> = fc.record(
      {
        phase: fc.constantFrom(...phases.keys()),
        stage: fc.nat({ max: stages - 1 }),
        microbatch: fc.nat({ max: microbatches - 1 }),
        slice: fc.nat({ max: 20 }),
        unit: fc.nat({ max: microbatches - 1 }),
      },
      { requiredKeys: ['phase', 'stage', 'microbatch'] },
    )
    const entry: fc.Arbitrary<ScheduleEntry> = fc.oneof(action, fc.record({ pair: fc.tuple(action, action) }))
    return fc.record({
      stages: fc.constant(stages),
      microbatches: fc.constant(microbatches),
      placement: fc.array(fc.nat({ max: actors - 1 }), { minLength: stages, maxLength: stages }),
      actors: fc.array(fc.array(entry, { maxLength: 10 }), { minLength: actors, maxLength: actors }),
    })
  })

function failure(text: string): { at: unknown; message: string; hint: string | undefined } {
  try {
    parseSchedule(text, { file: 's.txt' })
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    expect(error.code).toBe('SCHEDULE_TEXT')
    return { at: error.at, message: error.message, hint: error.hint }
  }
  throw new Error('not refused')
}

const withActor = (list: string): string => `schedule 1\nstages 2 on 0,0\nmicrobatches 8\nactor 0: ${list}\n`

describe('schedule text', () => {
  it('parse after print gives the schedule back', () => {
    fc.assert(
      fc.property(scheduleArbitrary, (schedule) => {
        expect(parseSchedule(printSchedule(schedule))).toEqual(schedule)
      }),
      { numRuns: 200 },
    )
  })

  it('reads comments, blank lines, Windows line ends and free spacing', () => {
    const text =
      '# mine\r\nschedule 1\r\n\r\n  stages 2 on 0 , 1 # two\r\nmicrobatches 1\r\nactor 0 : 0F0\t(0B0 ; 0U0)\r\nactor 1: 1F0.2/0'
    expect(parseSchedule(text)).toEqual({
      stages: 2,
      microbatches: 1,
      placement: [0, 1],
      actors: [
        [
          { phase: 'F', stage: 0, microbatch: 0 },
          {
            pair: [
              { phase: 'B', stage: 0, microbatch: 0 },
              { phase: 'U', stage: 0, microbatch: 0 },
            ],
          },
        ],
        [{ phase: 'F', stage: 1, microbatch: 0, slice: 2, unit: 0 }],
      ],
    })
  })

  it.each([
    ['', 1, 1, 'the text ends where "schedule 1" is due'],
    ['shedule 1', 1, 1, 'expected "schedule", got "shedule"'],
    ['schedule 2', 1, 10, 'schedule text version 2 is not known'],
    ['schedule 1 now', 1, 12, 'unexpected "now"'],
    ['schedule 1\nstages 0 on 0', 2, 8, 'the number of stages is 0'],
    ['schedule 1\nstages 3 on 0,1', 2, 16, 'not one actor for each of 3 stages'],
    ['schedule 1\nstages 1 on 0,1', 2, 16, 'not one actor for each of 1 stages'],
    ['schedule 1\nstages 99999 on 0', 2, 8, 'the number of stages is 99999'],
    ['schedule 1\nstages 1 on 0\nmicrobatches -1', 3, 14, 'expected the number of micro-batches, got "-1"'],
    ['schedule 1\nstages 1 on 0\nmicrobatches 1e9', 3, 15, 'unexpected "e9"'],
    ['schedule 1\nstages 1 on 0\nmicrobatches 1', 3, 1, 'a list for actor 0 is missing'],
    [`${withActor('')}actor 2: 0F0`, 5, 1, 'actor 2 where actor 1 is due'],
    [withActor('0F0 0f1'), 4, 15, 'no phase "f"'],
    [withActor('0F0 0Q1'), 4, 15, 'no phase "Q"'],
    [withActor('0F0 2F1'), 4, 14, 'a stage is 2'],
    [withActor('0F8'), 4, 12, 'a micro-batch is 8'],
    [withActor('0F01'), 4, 12, 'a micro-batch is written 01'],
    [withActor('0F 1'), 4, 12, 'expected a micro-batch, got " 1"'],
    [withActor('(0F0;0B0'), 4, 18, 'expected ")", got the end of the line'],
    [withActor('(0F0,0B0)'), 4, 14, 'expected ";", got ",0B0)"'],
    [withActor('0F0,0F1'), 4, 13, 'expected a stage, got ",0F1"'],
    [withActor('0F0.99999'), 4, 14, 'a slice is 99999'],
    [withActor('0F0;'), 4, 13, 'expected a stage, got ";"'],
  ])('refuses %j', (text, line, column, message) => {
    expect(failure(text)).toMatchObject({ at: { file: 's.txt', line, column }, message })
  })

  it('hints at what would be right', () => {
    expect(failure(withActor('0f1')).hint).toBe('did you mean "F"?')
    expect(failure('shedule 1').hint).toBe('did you mean "schedule"?')
    expect(failure(withActor('0F8')).hint).toBe('it is at most 7')
  })

  it('refuses huge texts before reading them', () => {
    expect(failure(','.repeat(2 ** 26 + 1)).message).toContain('too long')
    expect(failure(`schedule 1\nstages 2 on ${'0,'.repeat(500_000)}0`).message).toContain('not one actor')
  })
})
