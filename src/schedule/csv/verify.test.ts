import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  entryActions,
  findTransferDeadlock,
  formatCsvEntry,
  inferCommunication,
  parseScheduleCsv,
  type Schedule,
  type ScheduleFinding,
  scheduleChain,
  validateSchedule,
  verifyCommunication,
} from '../index.ts'

function verify(...rows: string[]): readonly ScheduleFinding[] {
  return verifyCommunication(parseScheduleCsv(rows.join('\n')).communication!)
}

// One micro-batch through two actors, written out by hand.
const first = '0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD'
const second = '1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD'

describe('communication', () => {
  it('is accepted where it is all there and in order', () => {
    expect(verify(first, second)).toEqual([])
  })

  it.each([
    [
      'SCHEDULE_MISSING',
      [first.replace(',0SEND_F0', ''), second],
      '0SEND_F0 is missing from actor 0; 1RECV_F0 on actor 1 (place 0) waits for it',
    ],
    [
      'SCHEDULE_MISSING',
      [first, second.replace('1RECV_F0,', '')],
      '1RECV_F0 is missing from actor 1; 0SEND_F0 on actor 0 (place 1) waits for it',
    ],
    [
      'SCHEDULE_MISSING',
      [first.replace(',0RECV_B0', ''), second.replace(',1SEND_B0', '')],
      '0RECV_B0 is missing from actor 0',
    ],
    [
      'SCHEDULE_DUPLICATE',
      [`${first},0SEND_F0`, second],
      '0SEND_F0 is there twice: at place 1 of actor 0 and at place 5 of actor 0',
    ],
    [
      'SCHEDULE_EXTRA',
      [`${first},0SEND_B0`, second],
      '0SEND_B0 at place 5 of actor 0 has no other end: stage 0 is the first',
    ],
    [
      'SCHEDULE_EXTRA',
      [first, `${second},1RECV_B0`],
      '1RECV_B0 at place 5 of actor 1 has no other end: stage 1 is the last',
    ],
    [
      'SCHEDULE_ORDER',
      [first.replace('0F0,0SEND_F0', '0SEND_F0,0F0'), second],
      '0SEND_F0 at place 0 of actor 0 needs 0F0, which comes later, at place 1',
    ],
    [
      'SCHEDULE_ORDER',
      [first, second.replace('1RECV_F0,1F0', '1F0,1RECV_F0')],
      '1F0 at place 0 of actor 1 needs 1RECV_F0, which comes later, at place 1',
    ],
    [
      'SCHEDULE_ORDER',
      [first.replace('0RECV_B0,0B0', '0B0,0RECV_B0'), second],
      '0B0 at place 2 of actor 0 needs 0RECV_B0',
    ],
    [
      'SCHEDULE_ORDER',
      [first.replace('0B0,0REDUCE_GRAD', '0REDUCE_GRAD,0B0'), second],
      '0REDUCE_GRAD at place 3 of actor 0 needs 0B0, which comes later',
    ],
    [
      'SCHEDULE_MISSING',
      [first.replace(',0REDUCE_GRAD', ''), second],
      '0REDUCE_GRAD is missing from actor 0',
    ],
    [
      'SCHEDULE_DUPLICATE',
      [`${first},0REDUCE_GRAD`, second],
      '0REDUCE_GRAD at place 5 of actor 0 is there before, at place 4',
    ],
    // Computations themselves.
    ['SCHEDULE_MISSING', [first.replace('0B0,', ''), second], '0B0 is missing from actor 0'],
  ])('%s: %s', (code, rows, message) => {
    const finding = verify(...rows).find((one) => one.message.startsWith(message))
    expect(finding).toMatchObject({ code })
    if (code === 'SCHEDULE_ORDER')
      expect(finding!.grid!.join('\n')).toContain(`>${formatCsvEntry(finding!.action!)}<`)
  })

  it('needs parameters gathered around every use, where any are', () => {
    const gathered = `0UNSHARD,${first},0RESHARD`
    const also = `1UNSHARD,${second},1RESHARD`
    expect(verify(gathered, also)).toEqual([])
    expect(verify(gathered, second)[0]).toMatchObject({
      code: 'SCHEDULE_ORDER',
      message: '1F0 at place 1 of actor 1 needs 1UNSHARD before it',
      waitsFor: { phase: 'UNSHARD', stage: 1 },
    })
    expect(
      verify(gathered.replace(',0SEND_F0', ',0RESHARD,0SEND_F0'), also).map(({ message }) => message),
    ).toEqual(['0B0 at place 5 of actor 0 needs 0UNSHARD before it'])
    expect(verify(gathered.replace(',0RESHARD', ''), also)).toMatchObject([
      { code: 'SCHEDULE_MISSING', message: expect.stringContaining('0RESHARD is missing from actor 0') },
    ])
    expect(verify(`0UNSHARD,${gathered}`, also)).toMatchObject([{ code: 'SCHEDULE_DUPLICATE', index: 1 }])
    expect(verify(`0RESHARD,${gathered}`, also)).toMatchObject([{ code: 'SCHEDULE_EXTRA', index: 0 }])
  })

  it('does not ask files of 2024 for REDUCE_GRAD', () => {
    const { communication, letters } = parseScheduleCsv(
      '0F0,0SEND_F0,0RECV_B0,0B0,0W0\n1RECV_F0,1F0,1BW0,1SEND_B0',
    )
    expect(verifyCommunication(communication!, { letters })).toEqual([])
    expect(verifyCommunication(communication!)).toHaveLength(2)
  })

  it('finds a circle where reductions are missing too', () => {
    const codes = verify('0F0,0RECV_B0,0SEND_F0,0B0', '1RECV_F0,1F0,1B0,1SEND_B0').map(({ code }) => code)
    expect(codes).toEqual(['SCHEDULE_DEADLOCK', 'SCHEDULE_DEADLOCK', 'SCHEDULE_MISSING', 'SCHEDULE_MISSING'])
  })

  it('finds sends between the same two actors received in another order', () => {
    const findings = verify(
      '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD',
      '1RECV_F1,1RECV_F0,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD',
    )
    expect(findings).toMatchObject([
      {
        code: 'SCHEDULE_FIFO',
        message:
          'message 0 from actor 0 to actor 1 is sent by 0SEND_F0 (place 1), but received by 1RECV_F1 at place 0',
        actor: 1,
        index: 0,
      },
    ])
    expect(findings[0]!.grid!.join('\n')).toContain('>1RECV_F1<')
  })
})

describe('deadlocks', () => {
  // Both send first, then receive: each waits for the other's receive, unless one send is buffered.
  const crossed = [
    '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD',
    '1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD',
  ]

  it('gives the circle where sends wait, and how many buffered sends undo it', () => {
    const [finding, ...others] = verify(...crossed)
    expect(others).toEqual([])
    expect(finding).toMatchObject({
      code: 'SCHEDULE_DEADLOCK',
      message:
        'where a send waits for its receive, 2 actors wait for each other: ' +
        'actor 0 stands at 0SEND_F1, which waits for 1RECV_F1 on actor 1 (place 4); ' +
        'actor 1 stands at 1SEND_B0, which waits for 0RECV_B0 on actor 0 (place 4)',
      sends: ['rendezvous'],
      cycle: [
        { actor: 0, index: 3, place: { actor: 1, index: 4 } },
        { actor: 1, index: 3, place: { actor: 0, index: 4 } },
      ],
      hint: 'with 1 buffered send from each actor to each other it runs; or receive earlier',
    })
    expect(finding!.grid!.join('\n')).toMatch(/>0SEND_F1<[\s\S]*>1SEND_B0</)
    const { communication } = parseScheduleCsv(crossed.join('\n'))
    expect(findTransferDeadlock(communication!, 1)).toBeUndefined()
  })

  it('gives both circles where no buffer helps', () => {
    // Actor 0 wants what actor 1 sends later, before it sends what actor 1 wants first.
    const findings = verify(
      '0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0B1,0REDUCE_GRAD',
      '1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD',
    )
    expect(findings.map(({ code, sends }) => [code, sends])).toEqual([
      ['SCHEDULE_DEADLOCK', ['rendezvous']],
      ['SCHEDULE_DEADLOCK', ['buffered']],
    ])
    expect(findings[1]!.message).toBe(
      'even where no send ever waits, 2 actors wait for each other: ' +
        'actor 0 stands at 0RECV_B0, which waits for 1SEND_B0 on actor 1 (place 5); ' +
        'actor 1 stands at 1RECV_F1, which waits for 0SEND_F1 on actor 0 (place 4)',
    )
  })

  it('holds a schedule whose computations wait in a circle under any sends', () => {
    const [finding] = validateSchedule(parseScheduleCsv('0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1').schedule)
    expect(finding).toMatchObject({
      code: 'SCHEDULE_DEADLOCK',
      sends: ['rendezvous', 'buffered'],
      cycle: [
        { actor: 0, index: 1, place: { actor: 1, index: 2 } },
        { actor: 1, index: 1, place: { actor: 0, index: 2 } },
      ],
    })
  })

  // Receives where they are needed: each stage of 1F1B sends a forward while the next sends a backward.
  it.each([2, 3, 4])('of 1F1B of %i stages that receives late is undone by one buffered send', (actors) => {
    const late = inferCommunication(scheduleChain('1f1b', { actors, microbatches: 6 }), {
      receives: 'at-use',
    })
    expect(verifyCommunication(late)).toMatchObject([
      { code: 'SCHEDULE_DEADLOCK', hint: expect.stringContaining('with 1 buffered send from') },
    ])
  })

  it('are found exactly where stepping through the lists gets stuck', () => {
    let stuck = 0
    const pick = fc.nat({ max: 1_000_000 })
    fc.assert(
      fc.property(
        fc.constantFrom(2, 3),
        fc.array(fc.tuple(pick, pick, pick), { minLength: 1, maxLength: 6 }),
        fc.constantFrom('rendezvous' as const, 1, 2, Number.POSITIVE_INFINITY),
        (actors, moves, sends) => {
          // Receives moved about, to places where they are still in order.
          let schedule = inferCommunication(scheduleChain('1f1b', { actors, microbatches: 3 }))
          for (const [a, b, c] of moves) {
            const moved = moveReceive(schedule, a, b, c)
            const kinds = verifyCommunication(moved).map(({ code }) => code)
            if (kinds.every((code) => code === 'SCHEDULE_DEADLOCK')) schedule = moved
          }
          const found = findTransferDeadlock(schedule, sends) !== undefined
          expect(found).toBe(!runs(schedule, sends))
          stuck += found ? 1 : 0
        },
      ),
      { numRuns: 150 },
    )
    expect(stuck).toBeGreaterThan(10)
  })
})

function moveReceive(schedule: Schedule, a: number, b: number, c: number): Schedule {
  const actor = a % schedule.actors.length
  const list = [...schedule.actors[actor]!]
  const receives = list.flatMap((entry, index) => (/RECV/.test(formatCsvEntry(entry)) ? [index] : []))
  if (receives.length === 0) return schedule
  const [entry] = list.splice(receives[b % receives.length]!, 1)
  list.splice(c % (list.length + 1), 0, entry!)
  return { ...schedule, actors: schedule.actors.with(actor, list) }
}

/** The rules written out once more, by names and counting, one step at a time until nothing moves. */
function runs(schedule: Schedule, sends: 'rendezvous' | number): boolean {
  const left = schedule.actors.map((entries) =>
    entries.flatMap(entryActions).filter(({ phase }) => /SEND|RECV/.test(phase)),
  )
  const flying = new Map<string, number>()
  for (let moved = true; moved; ) {
    moved = false
    for (const [actor, list] of left.entries()) {
      const next = list[0]
      if (next === undefined) continue
      const [kind, direction] = next.phase.split('_') as [string, string]
      const step = (kind === 'SEND') === (direction === 'F') ? 1 : -1
      const peer = schedule.placement[next.stage + step]!
      const channel = kind === 'SEND' ? `${actor}>${peer}` : `${peer}>${actor}`
      const count = flying.get(channel) ?? 0
      const theirs = left[peer]![0]
      const meets =
        theirs?.phase === `${kind === 'SEND' ? 'RECV' : 'SEND'}_${direction}` &&
        theirs.stage === next.stage + step &&
        theirs.microbatch === next.microbatch
      if (sends === 'rendezvous' ? !meets : kind === 'SEND' ? count >= sends : count === 0) continue
      list.shift()
      if (sends === 'rendezvous') left[peer]!.shift()
      else flying.set(channel, count + (kind === 'SEND' ? 1 : -1))
      moved = true
    }
  }
  return left.every((list) => list.length === 0)
}
