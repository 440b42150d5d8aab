import { describe, expect, it } from 'vitest'
import {
  chainStages,
  entryActions,
  gatherWindows,
  generateSchedule,
  gradientWindows,
  parseSchedule,
  scheduleChain,
  scheduleGenerators,
  type WindowOptions,
  windowCounts,
} from './index.ts'

/** One actor with two stages and two units, the second shorter; in unit 0 `W`s are put off. */
const units = parseSchedule(
  `schedule 1
stages 2 on 0,0
microbatches 3
actor 0: 0F0/0 0F1/0 1F0/0 1F1/0 1I0/0 1W0/0 1I1/0 0I0/0 1W1/0 0I1/0 0W0/0 0W1/0 0F2/1 1F2/1 1B2/1 0B2/1
`,
)

const gathers = (schedule: typeof units, options: WindowOptions): string =>
  gatherWindows(schedule, options)[0]!
    .map(
      ({ stage, unit, phase, first, last }) =>
        `${stage}${phase}${unit === undefined ? '' : `/${unit}`} ${first}-${last}`,
    )
    .join(', ')

const gradients = (schedule: typeof units, mode: WindowOptions['mode']): string =>
  gradientWindows(schedule, { mode })[0]!
    .map(({ stage, unit, first, last }) => `${stage}${unit === undefined ? '' : `/${unit}`} ${first}-${last}`)
    .join(', ')

describe('gather windows', () => {
  it('by unit: one for each stage, unit and way; W neither opens nor ends one', () => {
    expect(gathers(units, { mode: 'unit' })).toBe(
      '0F/0 0-1, 1F/0 2-3, 1B/0 4-6, 0B/0 7-9, 0F/1 12-12, 1F/1 13-13, 1B/1 14-14, 0B/1 15-15',
    )
  })

  it('by unit, the last chunk kept: one fewer in each unit', () => {
    expect(gathers(units, { mode: 'unit', keepLast: true })).toBe(
      '0F/0 0-1, 1FB/0 2-6, 0B/0 7-9, 0F/1 12-12, 1FB/1 13-14, 0B/1 15-15',
    )
  })

  it('by step: one for each stage', () => {
    expect(gathers(units, { mode: 'step' })).toBe('0FB 0-15, 1FB 2-14')
  })

  it('by action: one for each F, B and I', () => {
    const two = parseSchedule(
      'schedule 1\nstages 1 on 0\nmicrobatches 2\nactor 0: 0F0 0F1 (0B0;0F1) 0I1 0W1\n',
    )
    expect(gathers(two, { mode: 'action' })).toBe('0F 0-0, 0F 1-1, 0B 2-2, 0F 2-2, 0B 3-3')
    expect(gathers(two, { mode: 'action', keepLast: true })).toBe('0F 0-0, 0FB 1-2, 0FB 2-3')
  })

  it('takes a run for a unit where there are none, and a change of way ends it', () => {
    const schedule = generateSchedule('1f1b', chainStages(2, 4))
    // 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3
    expect(gathers(schedule, { mode: 'unit' })).toBe('0F 0-1, 0B 2-2, 0F 3-3, 0B 4-4, 0F 5-5, 0B 6-7')
    expect(gathers(schedule, { mode: 'unit', keepLast: true })).toBe('0FB 0-2, 0FB 3-4, 0FB 5-7')
  })

  it('a kept window does not reach into the next unit', () => {
    const schedule = parseSchedule(
      'schedule 1\nstages 1 on 0\nmicrobatches 2\nactor 0: 0F0/0 0F1/1 0B1/1 0B0/0\n',
    )
    expect(gathers(schedule, { mode: 'unit', keepLast: true })).toBe('0F/0 0-0, 0FB/1 1-2, 0B/0 3-3')
  })
})

describe('gradient windows', () => {
  it('by unit: from the first to the last gradient of each stage and unit, though W of another stand between', () => {
    expect(gradients(units, 'unit')).toBe('1/0 5-8, 0/0 10-11, 1/1 14-14, 0/1 15-15')
    const mixed = parseSchedule(
      'schedule 1\nstages 2 on 0,0\nmicrobatches 2\n' +
        'actor 0: 0F0/0 0F1/0 1F0/0 1F1/0 1B0/0 0B0/0 1B1/0 0B1/0\n',
    )
    expect(gradients(mixed, 'unit')).toBe('1/0 4-6, 0/0 5-7')
  })

  it('by unit without units: runs', () => {
    const schedule = parseSchedule(
      'schedule 1\nstages 2 on 0,0\nmicrobatches 2\nactor 0: 0F0 1F0 1B0 0F1 1F1 1B1 0B0 0B1\n',
    )
    expect(gradients(schedule, 'unit')).toBe('1 2-5, 0 6-7')
  })

  it('by action and by step', () => {
    expect(gradients(units, 'action')).toBe('1/0 5-5, 1/0 8-8, 0/0 10-10, 0/0 11-11, 1/1 14-14, 0/1 15-15')
    expect(gradients(units, 'step')).toBe('1 5-14, 0 10-15')
  })
})

it('counts one collective for each window', () => {
  expect(windowCounts(units, { mode: 'unit' })).toEqual({ gathers: [8], reductions: [4] })
  expect(windowCounts(units, { mode: 'unit', keepLast: true })).toEqual({ gathers: [6], reductions: [4] })
  // GPipe is one unit of all micro-batches: two gathers and one reduction for each stage
  const gpipe = generateSchedule('gpipe', chainStages(4, 5, [0, 1, 0, 1]))
  expect(windowCounts(gpipe, { mode: 'unit' })).toEqual({ gathers: [4, 4], reductions: [2, 2] })
  expect(windowCounts(gpipe, { mode: 'action' })).toEqual({ gathers: [20, 20], reductions: [10, 10] })
})

describe.each([...scheduleGenerators.keys()])('of %s', (name) => {
  const schedule = scheduleChain(name, { actors: 3, microbatches: 6 })

  it.each([
    { mode: 'action' },
    { mode: 'action', keepLast: true },
    { mode: 'unit' },
    { mode: 'unit', keepLast: true },
    { mode: 'step' },
  ] as const)('every action is in exactly one window of its stage, %o', (options) => {
    const gather = gatherWindows(schedule, options)
    const gradient = gradientWindows(schedule, options)
    for (const [actor, entries] of schedule.actors.entries())
      for (const [index, entry] of entries.entries())
        for (const { stage, phase } of entryActions(entry)) {
          const around = (window: { stage: number; first: number; last: number }): boolean =>
            window.stage === stage && window.first <= index && index <= window.last
          const way = phase === 'F' ? 'F' : 'B'
          if (phase !== 'W')
            expect(gather[actor]!.filter((one) => around(one) && one.phase.includes(way))).toHaveLength(1)
          if (phase === 'B' || phase === 'W') expect(gradient[actor]!.filter(around)).toHaveLength(1)
        }
    for (const windows of [...gather, ...gradient])
      expect(windows.map(({ first }) => first)).toEqual(
        windows.map(({ first }) => first).sort((a, b) => a - b),
      )
  })
})
