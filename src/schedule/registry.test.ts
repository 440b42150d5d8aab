import { expect, it } from 'vitest'
import { chainStages, generateSchedule } from './index.ts'

it.each([
  ['1F1B', chainStages(2, 2), {}, 'SCHEDULE_UNKNOWN', 'did you mean "1f1b"?'],
  [
    'zigzag',
    chainStages(2, 2),
    {},
    'SCHEDULE_UNKNOWN',
    expect.stringMatching(/^schedules are gpipe, 1f1b, /),
  ],
  ['1f1b', chainStages(2, 2), { warmpu: 'a' }, 'SCHEDULE_PARAMETER', 'did you mean "warmup"?'],
  ['1f1b', chainStages(2, 2), { warmup: 'A' }, 'SCHEDULE_PARAMETER', 'did you mean "a"?'],
  ['1f1b', chainStages(2, 2), { warmup: 'c' }, 'SCHEDULE_PARAMETER', 'it is one of a, b'],
  ['1f1b', chainStages(2, 2), { warmup: 3 }, 'SCHEDULE_PARAMETER', 'it is one of a, b'],
  [
    '1f1b',
    chainStages(2, 2),
    { maxInFlight: 0 },
    'SCHEDULE_PARAMETER',
    'it is a whole number from 1 to 65536',
  ],
  [
    '1f1b',
    chainStages(2, 2),
    { maxInFlight: 1.5 },
    'SCHEDULE_PARAMETER',
    'it is a whole number from 1 to 65536',
  ],
  ['gpipe', chainStages(2, 2), { depth: 1 }, 'SCHEDULE_PARAMETER', 'it takes none'],
  ['gpipe', chainStages(0, 2), {}, 'SCHEDULE_STAGES', 'it is a whole number from 1 to 4096'],
  ['gpipe', chainStages(2, Number.NaN), {}, 'SCHEDULE_STAGES', 'it is a whole number from 1 to 65536'],
  [
    'gpipe',
    chainStages(4096, 65_536),
    {},
    'SCHEDULE_STAGES',
    // 4,000,000 actions, two for each stage and micro-batch.
    'with 4096 stages there are at most 488 micro-batches',
  ],
  ['gpipe', chainStages(2, 2, [0]), {}, 'SCHEDULE_STAGES', 'give the actor of each stage'],
  ['gpipe', chainStages(2, 2, [0, -1]), {}, 'SCHEDULE_STAGES', 'actors are numbered 0 to 4095'],
  [
    'gpipe',
    { ...chainStages(2, 2), edges: [[0, 2]] as const },
    {},
    'SCHEDULE_STAGES',
    'stages are numbered 0 to 1',
  ],
  [
    'gpipe',
    {
      ...chainStages(2, 2),
      edges: [
        [0, 1],
        [1, 0],
      ] as const,
    },
    {},
    'SCHEDULE_STAGES',
    'leave out an edge that leads back',
  ],
  [
    '1f1b',
    chainStages(2, 2, [0, 0]),
    {},
    'SCHEDULE_REFUSED',
    expect.stringMatching(/^change that, or take another schedule: gpipe, /),
  ],
] as const)('refuses %s %o %o', (name, graph, parameters, code, hint) => {
  expect(() => generateSchedule(name, graph, parameters)).toThrow(expect.objectContaining({ code, hint }))
})
