import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MeshwrightError } from '../../base/index.ts'
import {
  chainStages,
  entryActions,
  inferCommunication,
  parseScheduleCsv,
  printScheduleCsv,
  type Schedule,
  type ScheduleEntry,
  scheduleChain,
  scheduleGenerators,
  validateSchedule,
  verifyCommunication,
} from '../index.ts'

const shapes = [
  { actors: 1, microbatches: 3 },
  { actors: 2, microbatches: 2 },
  { actors: 3, microbatches: 5 },
  { actors: 4, microbatches: 8 },
]

/** The format has no units. */
function withoutUnits(schedule: Schedule): Schedule {
  const plain = ({ phase, stage, microbatch }: ReturnType<typeof entryActions>[number]) => ({
    phase,
    stage,
    microbatch,
  })
  const entry = (one: ScheduleEntry): ScheduleEntry =>
    'pair' in one ? { pair: [plain(one.pair[0]), plain(one.pair[1])] } : plain(one)
  return { ...schedule, actors: schedule.actors.map((entries) => entries.map(entry)) }
}

function scheduleOf(name: string, shape: { actors: number; microbatches: number }): Schedule | undefined {
  try {
    return scheduleChain(name, shape)
  } catch (error) {
    if (error instanceof MeshwrightError && error.code === 'SCHEDULE_REFUSED') return undefined
    throw error
  }
}

describe.each([...scheduleGenerators.keys()])('schedule %s', (name) => {
  it.each(shapes)('comes back from both dialects: $actors actors, $microbatches micro-batches', (shape) => {
    const schedule = scheduleOf(name, shape)
    if (schedule === undefined) return
    const plain = withoutUnits(schedule)
    expect(parseScheduleCsv(printScheduleCsv(schedule, { dialect: 'compute' }))).toEqual({
      dialect: 'compute',
      letters: 'current',
      schedule: plain,
    })
    const text = printScheduleCsv(schedule, { dialect: 'communication' })
    const csv = parseScheduleCsv(text)
    expect(csv).toMatchObject({ dialect: 'communication', letters: 'current', schedule: plain })
    expect(verifyCommunication(csv.communication!)).toEqual([])
    // What is written is written again as it is, and without its communication it is the computations.
    expect(printScheduleCsv(csv.communication!, { dialect: 'communication' })).toBe(text)
    expect(parseScheduleCsv(printScheduleCsv(csv.communication!, { dialect: 'compute' })).schedule).toEqual(
      plain,
    )
  })
})

describe('communication', () => {
  it('is written as it happens: hand-worked 1F1B of 2 stages', () => {
    expect(
      printScheduleCsv(scheduleChain('1f1b', { actors: 2, microbatches: 2 }), { dialect: 'communication' }),
    ).toBe(
      '0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n' +
        '1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n',
    )
  })

  it('goes only between actors, and holds three stages of an actor at most', () => {
    const stages = 10
    const placement = Array.from({ length: stages }, (_, stage) => (stage < 5 ? 0 : 1))
    const entries = (actor: number): ScheduleEntry[] => {
      const own = [0, 1, 2, 3, 4].map((stage) => stage + 5 * actor)
      return [
        ...own.map((stage) => ({ phase: 'F', stage, microbatch: 0 })),
        ...own.toReversed().map((stage) => ({ phase: 'B', stage, microbatch: 0 })),
      ]
    }
    const schedule = { stages, microbatches: 1, placement, actors: [entries(0), entries(1)] }
    const lowered = inferCommunication(schedule)
    expect(verifyCommunication(lowered)).toEqual([])
    for (const list of lowered.actors) {
      const held = new Set<number>()
      for (const entry of list)
        for (const { phase, stage } of entryActions(entry)) {
          if (phase === 'UNSHARD') held.add(stage)
          if (phase === 'RESHARD') held.delete(stage)
          expect(held.size).toBeLessThanOrEqual(3)
        }
      const letters = list.flatMap(entryActions).map(({ phase }) => phase)
      expect(letters.filter((phase) => phase.startsWith('SEND_'))).toHaveLength(1)
    }
  })
})

describe('what PyTorch cannot run is not written', () => {
  const F = (microbatch: number, more: object = {}) => ({ phase: 'F', stage: 0, microbatch, ...more })
  const B = (microbatch: number, more: object = {}) => ({ phase: 'B', stage: 0, microbatch, ...more })
  const one = (actors: Schedule['actors'], microbatches = 2): Schedule => ({
    ...chainStages(1, microbatches),
    actors,
  })
  it.each([
    ['an invalid schedule', one([[F(0), B(0)]]), 'the schedule is not valid: 0F1 is missing'],
    ['losses out of order', one([[F(1), F(0), B(0), B(1)]]), '0F1 comes as forward 1 of the last stage'],
    ['slices', one([[F(0, { slice: 0 }), B(0, { slice: 0 })]], 1), '0F0.0 is a slice'],
    ['updates', one([[F(0), B(0), { phase: 'U', stage: 0, microbatch: 0 }]], 1), 'no action like 0U0'],
    ['a pair the other way round', one([[F(0), { pair: [B(0), F(1)] }, B(1)]]), '(0B0;0F1) is no forward'],
    ['an actor without stage', one([[F(0), B(0)], []], 1), 'actor 1 has no action'],
  ])('%s', (_what, schedule, message) => {
    for (const dialect of ['compute', 'communication'] as const)
      expect(() => printScheduleCsv(schedule, { dialect })).toThrow(
        expect.objectContaining({ code: 'SCHEDULE_CSV', message: expect.stringContaining(message) }),
      )
  })
})

describe('mutated files', () => {
  const pick = fc.nat({ max: 1_000_000 })
  const names = ['gpipe', '1f1b', 'zb-h1', 'interleaved-1f1b', 'zeropp'].filter((name) =>
    scheduleGenerators.has(name),
  )
  const texts = fc
    .record({
      name: fc.constantFrom(...names),
      dialect: fc.constantFrom('compute' as const, 'communication' as const),
    })
    .map(({ name, dialect }) =>
      printScheduleCsv(scheduleChain(name, { actors: 2, microbatches: 4 }), { dialect }),
    )

  it('with a cell changed, dropped, repeated or moved are refused, found wrong or still valid', () => {
    let wrong = 0
    fc.assert(
      fc.property(
        texts,
        pick,
        pick,
        pick,
        fc.constantFrom('swap', 'drop', 'repeat', 'edit'),
        (text, a, b, c, kind) => {
          const rows = text
            .trimEnd()
            .split('\n')
            .map((row) => row.split(','))
          const row = rows[a % rows.length]!
          const from = b % row.length
          const to = c % row.length
          if (kind === 'swap') [row[from], row[to]] = [row[to]!, row[from]!]
          if (kind === 'drop') row.splice(from, 1)
          if (kind === 'repeat') row.splice(to, 0, row[from]!)
          if (kind === 'edit')
            row[from] = row[from]!.replace(/\d+$/, (digits) => String((Number(digits) + 1) % 5))
          const findings = findingsOf(rows.map((cells) => cells.join(',')).join('\n'))
          if (findings.length > 0) wrong++
          // A cell that is gone, there twice or another can never go unseen.
          const unchanged =
            kind === 'edit' && !/\d$/.test(text.trimEnd().split('\n')[a % rows.length]!.split(',')[from]!)
          if (kind !== 'swap' && !unchanged) expect(findings).not.toEqual([])
        },
      ),
      { numRuns: 400 },
    )
    expect(wrong).toBeGreaterThan(200)
  })

  function findingsOf(text: string): readonly string[] {
    try {
      const csv = parseScheduleCsv(text)
      const findings =
        csv.communication === undefined
          ? validateSchedule(csv.schedule)
          : verifyCommunication(csv.communication)
      return findings.map(({ message }) => message)
    } catch (error) {
      if (error instanceof MeshwrightError && error.code === 'SCHEDULE_CSV') return [error.message]
      throw error
    }
  }
})
