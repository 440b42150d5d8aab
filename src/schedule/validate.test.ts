import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Action,
  chainStages,
  entryActions,
  formatAction,
  generateSchedule,
  parseSchedule,
  type Schedule,
  type ScheduleEntry,
  validateSchedule,
} from './index.ts'

function text(head: string, ...actors: string[]): Schedule {
  return parseSchedule(
    `schedule 1\n${head}\n${actors.map((list, actor) => `actor ${actor}: ${list}`).join('\n')}`,
  )
}

function edit(schedule: Schedule, actor: number, change: (list: ScheduleEntry[]) => void): Schedule {
  const actors = schedule.actors.map((entries) => [...entries])
  change(actors[actor]!)
  return { ...schedule, actors }
}

const codes = (schedule: Schedule): string[] => validateSchedule(schedule).map(({ code }) => code)

describe('validateSchedule', () => {
  const valid = generateSchedule('1f1b', chainStages(3, 4))

  it('names a missing action and who waits for it', () => {
    const broken = edit(valid, 1, (list) => list.splice(1, 1))
    expect(validateSchedule(broken)).toMatchObject([
      {
        code: 'SCHEDULE_MISSING',
        message: '1F1 is missing from actor 1; 1B1 on actor 1 and 2F1 on actor 2 wait for it',
        action: { phase: 'F', stage: 1, microbatch: 1 },
        actor: 1,
      },
    ])
  })

  it('names both places of a repeated action', () => {
    const broken = edit(valid, 2, (list) => list.push(list[0]!))
    expect(validateSchedule(broken)).toMatchObject([
      {
        code: 'SCHEDULE_DUPLICATE',
        message: '2F0 is there twice: at place 0 of actor 2 and at place 8 of actor 2',
      },
    ])
  })

  it('names an action on the wrong actor', () => {
    const moved = edit(
      edit(valid, 0, (list) => list.shift()),
      1,
      (list) => list.unshift({ phase: 'F', stage: 0, microbatch: 0 }),
    )
    expect(validateSchedule(moved)).toMatchObject([
      { code: 'SCHEDULE_ACTOR', message: '0F0 is on actor 1 (place 0), but stage 0 is on actor 0' },
    ])
  })

  it('draws the place where an actor does things in the wrong order', () => {
    const broken = text('stages 2 on 0,1\nmicrobatches 2', '0F0 0F1 0B0 0B1', '1F0 1B1 1F1 1B0')
    const findings = validateSchedule(broken)
    expect(findings).toMatchObject([
      {
        code: 'SCHEDULE_ORDER',
        message: '1B1 at place 1 of actor 1 needs 1F1, which comes later, at place 2',
        waitsFor: { phase: 'F', stage: 1, microbatch: 1 },
      },
    ])
    expect(findings[0]!.grid).toEqual([
      '          0    1    2    3',
      'actor 0   0F0  0F1  0B0  0B1',
      'actor 1   1F0 >1B1< 1F1  1B0',
    ])
  })

  it('gives the circle of a deadlock', () => {
    const broken = text('stages 2 on 0,1\nmicrobatches 2', '0F0 0B0 0F1 0B1', '1F0 1F1 1B0 1B1')
    const findings = validateSchedule(broken)
    expect(findings).toMatchObject([
      {
        code: 'SCHEDULE_DEADLOCK',
        message:
          '2 actors wait for each other: actor 0 stands at 0B0, which waits for 1B0 on actor 1 (place 2); ' +
          'actor 1 stands at 1F1, which waits for 0F1 on actor 0 (place 2)',
      },
    ])
    expect(findings[0]!.grid).toEqual([
      '          0    1    2    3',
      'actor 0   0F0 >0B0< 0F1  0B1',
      'actor 1   1F0 >1F1< 1B0  1B1',
    ])
  })

  it('shows a window of a large grid', () => {
    const large = generateSchedule('gpipe', chainStages(40, 60))
    const broken = edit(large, 35, (list) => {
      const [action] = list.splice(100, 1)
      list.splice(30, 0, action!)
    })
    const { code, grid } = validateSchedule(broken)[0]!
    expect(code).toBe('SCHEDULE_ORDER')
    expect(grid!.length).toBeLessThan(30)
    expect(Math.max(...grid!.map((line) => line.length))).toBeLessThan(120)
    expect(grid!.filter((line) => line.includes('>35B40<'))).toHaveLength(1)
  })

  it('takes a backward whole or in halves, not both, nor half of one', () => {
    const head = 'stages 1 on 0\nmicrobatches 2'
    expect(codes(text(head, '0F0 0F1 0B0 0I1 0W1'))).toEqual([])
    expect(codes(text(head, '0F0 0F1 0B0 0I1 0W1 0U0'))).toEqual([])
    expect(codes(text(head, '0F0 0F1 0B0 0I1'))).toEqual(['SCHEDULE_MISSING'])
    expect(codes(text(head, '0F0 0F1 0B0 0B1 0W1'))).toEqual(['SCHEDULE_EXTRA'])
    expect(codes(text(head, '0F0 0F1 0B0 0W1 0I1'))).toEqual(['SCHEDULE_ORDER'])
    expect(codes(text(head, '0F0 0F1 0B0 0U0 0B1'))).toEqual(['SCHEDULE_ORDER'])
    expect(codes(text(head, '0F0 0F1 0B0 0B1 0U1'))).toEqual(['SCHEDULE_RANGE'])
    expect(validateSchedule(text(head, '0F1 0F0'), { method: 'infer' })).toEqual([])
  })

  it('lets independent actions pair and refuses pairs that need each other', () => {
    const head = 'stages 2 on 0,1\nmicrobatches 2'
    expect(codes(text(head, '0F0 0F1 0B0 0B1', '1F0 (1F1;1B0) 1B1'))).toEqual([])
    const own = validateSchedule(text(head, '(0F0;0B0) 0F1 0B1', '1F0 1B0 1F1 1B1'))
    expect(own[0]!.message).toBe('0B0 at place 0 of actor 0 needs 0F0, which is in the same pair')
    // Crosswise: each pair needs the forward or backward that the other's pair ends.
    const crosswise = text(head, '0F0 (0F1;0B0) 0B1', '1F0 (1F1;1B0) 1B1')
    expect(codes(crosswise)).toEqual(['SCHEDULE_DEADLOCK'])
  })

  it('wants every slice of a micro-batch on every stage', () => {
    const head = 'stages 2 on 0,1\nmicrobatches 1'
    const slices = (stage: number): string =>
      ['F0.0', 'F0.1', 'B0.1', 'B0.0'].map((action) => `${stage}${action}`).join(' ')
    expect(codes(text(head, slices(0), slices(1)))).toEqual([])
    expect(codes(text(head, slices(0), '1F0 1B0'))).toContain('SCHEDULE_MISSING')
  })

  it('updates a stage once, after all slices', () => {
    const head = 'stages 1 on 0\nmicrobatches 2'
    const backwards = '0F0.0 0F0.1 0F1 0B0.1 0B1'
    expect(codes(text(head, `${backwards} 0B0.0 0U0`))).toEqual([])
    const [early] = validateSchedule(text(head, `${backwards} 0U0 0B0.0`))
    expect(early).toMatchObject({ code: 'SCHEDULE_ORDER', waitsFor: { phase: 'B', microbatch: 0, slice: 0 } })
    expect(codes(text(head, `${backwards} 0B0.0 0U0 0U0`))).toEqual(['SCHEDULE_DUPLICATE'])
    expect(codes(text(head, `${backwards} 0B0.0 0U0.1`))).toEqual(['SCHEDULE_RANGE'])
  })

  it('makes no more findings than asked for, however much is wrong', () => {
    const list = Array.from({ length: 5000 }, (_, microbatch) => ({ phase: 'F', stage: 1, microbatch }))
    const wrong = { stages: 2, microbatches: 5000, placement: [0, 1], actors: [list, []] }
    expect(validateSchedule(wrong, { limit: 7 })).toHaveLength(7)
  })

  it('refuses what no head allows, without looking further', () => {
    for (const [change, message] of [
      [{ stages: 2.5 }, '2.5 stages'],
      [{ microbatches: 3 }, 'micro-batch 3 of 3'],
      [{ placement: [0, 1] }, 'actors are given for 2 of 3 stages'],
      [{ placement: [0, 1, 7] }, 'stage 2 is placed on actor 7 of 3'],
      [{ actors: [[{ phase: 'Q', stage: 0, microbatch: 0 }], [], []] }, 'no phase "Q"'],
      [{ actors: [[{ phase: 'F', stage: -1, microbatch: Number.NaN }], [], []] }, 'stage -1 of 3'],
    ] as const) {
      const findings = validateSchedule({ ...valid, ...change } as Schedule)
      expect(findings.every(({ code }) => code === 'SCHEDULE_RANGE')).toBe(true)
      expect(findings.map((finding) => finding.message).join('\n')).toContain(message)
    }
  })

  it('takes an action that is there more often than a call has arguments', () => {
    const repeated: Schedule = {
      stages: 1,
      microbatches: 1,
      placement: [0],
      actors: [Array(250_000).fill({ phase: 'F', stage: 0, microbatch: 0 })],
    }
    expect(validateSchedule(repeated)[0]?.code).toBe('SCHEDULE_DUPLICATE')
  })

  it('bounds the number of findings', () => {
    const empty = { ...generateSchedule('gpipe', chainStages(8, 512)), actors: Array(8).fill([]) }
    expect(validateSchedule(empty, { limit: 7 })).toHaveLength(7)
  })
})

/** The rules written out once more: an edge list over names, and Kahn's algorithm. */
function isAcyclic(schedule: Schedule): boolean {
  const after = new Map<string, string[]>()
  const name = (phase: string, stage: number, microbatch: number): string => `${stage}${phase}${microbatch}`
  for (const entries of schedule.actors) {
    const list = entries.flatMap(entryActions)
    for (const [index, { phase, stage, microbatch }] of list.entries()) {
      const needs = index === 0 ? [] : [formatAction(list[index - 1]!)]
      if (phase === 'F' && stage > 0) needs.push(name('F', stage - 1, microbatch))
      if (phase === 'B') needs.push(name('F', stage, microbatch))
      if (phase === 'B' && stage + 1 < schedule.stages) needs.push(name('B', stage + 1, microbatch))
      after.set(name(phase, stage, microbatch), needs)
    }
  }
  while (after.size > 0) {
    const ready = [...after].filter(([, needs]) => needs.every((need) => !after.has(need)))
    if (ready.length === 0) return false
    for (const [done] of ready) after.delete(done)
  }
  return true
}

describe('mutated schedules', () => {
  const scheduleArbitrary = fc
    .record({
      name: fc.constantFrom('gpipe', '1f1b'),
      stages: fc.integer({ min: 1, max: 4 }),
      microbatches: fc.integer({ min: 1, max: 5 }),
    })
    .map(({ name, stages, microbatches }) => generateSchedule(name, chainStages(stages, microbatches)))
  const pick = fc.nat({ max: 1_000_000 })

  it('a dropped action is missing, a repeated one is a duplicate, a moved one is on the wrong actor', () => {
    fc.assert(
      fc.property(scheduleArbitrary, pick, pick, pick, (schedule, a, b, c) => {
        const actor = a % schedule.actors.length
        const index = b % schedule.actors[actor]!.length
        const action = schedule.actors[actor]![index] as Action
        const dropped = edit(schedule, actor, (list) => list.splice(index, 1))
        expect(validateSchedule(dropped)).toMatchObject([{ code: 'SCHEDULE_MISSING', action, actor }])

        const place = c % (schedule.actors[actor]!.length + 1)
        const repeated = edit(schedule, actor, (list) => list.splice(place, 0, action))
        expect(validateSchedule(repeated)).toMatchObject([{ code: 'SCHEDULE_DUPLICATE', action, actor }])

        const other = (actor + 1) % schedule.actors.length
        if (other === actor) return
        const moved = edit(dropped, other, (list) => list.splice(c % (list.length + 1), 0, action))
        expect(validateSchedule(moved)).toMatchObject([{ code: 'SCHEDULE_ACTOR', action, actor: other }])
      }),
      { numRuns: 150 },
    )
  })

  it('reordered lists are refused exactly when the order has a cycle', () => {
    let refused = 0
    fc.assert(
      fc.property(
        scheduleArbitrary,
        fc.array(fc.tuple(pick, pick, pick), { maxLength: 4 }),
        (schedule, swaps) => {
          let mutated = schedule
          for (const [a, b, c] of swaps)
            mutated = edit(mutated, a % mutated.actors.length, (list) => {
              const [from, to] = [b % list.length, c % list.length]
              ;[list[from], list[to]] = [list[to]!, list[from]!]
            })
          const findings = validateSchedule(mutated)
          expect(findings.length === 0).toBe(isAcyclic(mutated))
          for (const finding of findings) {
            expect(['SCHEDULE_ORDER', 'SCHEDULE_DEADLOCK']).toContain(finding.code)
            expect(finding.grid!.join('\n')).toContain(`>${formatAction(finding.action!)}<`)
          }
          refused += findings.length > 0 ? 1 : 0
        },
      ),
      { numRuns: 300, seed: 7 },
    )
    expect(refused).toBeGreaterThan(30)
  })
})
