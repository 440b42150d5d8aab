import { expect, it } from 'vitest'
import { chainStages, generateSchedule, printSchedule, validateSchedule } from '../index.ts'

it('does all forwards, then all backwards', () => {
  expect(printSchedule(generateSchedule('gpipe', chainStages(2, 3)))).toBe(
    [
      'schedule 1',
      'stages 2 on 0,1',
      'microbatches 3',
      'actor 0: 0F0 0F1 0F2 0B0 0B1 0B2',
      'actor 1: 1F0 1F1 1F2 1B0 1B1 1B2',
      '',
    ].join('\n'),
  )
})

it('goes breadth first through several stages of an actor, whatever their placement', () => {
  for (const placement of [
    [0, 1, 0, 1],
    [0, 1, 1, 0],
    [0, 0, 0, 0],
    [3, 1, 3, 0],
  ]) {
    const schedule = generateSchedule('gpipe', chainStages(4, 3, placement))
    expect(validateSchedule(schedule)).toEqual([])
    expect(schedule.actors).toHaveLength(Math.max(...placement) + 1)
  }
})
