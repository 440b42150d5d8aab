import { describe, expect, it } from 'vitest'
import { chainStages, drawTimeline, generateSchedule, parseSchedule, timeSchedule } from './index.ts'

// JaxPP's notes: zero-bubble H1 takes 3M + S - 1 unit slots; here S = 2, M = 3, written by hand.
const zeroBubble = parseSchedule(`schedule 1
stages 2 on 0,1
microbatches 3
actor 0: 0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2
actor 1: 1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2
`)

describe('timeSchedule', () => {
  it('times halves of a backward', () => {
    const timing = timeSchedule(zeroBubble)
    expect(timing.makespan).toBe(3 * 3 + 2 - 1)
    expect(timing.busy).toEqual([9, 9])
    // Activations are held until the weights' half is done.
    expect(timing.peakInFlight).toEqual([2, 2])
  })

  it('orders entries so that each comes after what it needs, also at equal times', () => {
    const schedule = generateSchedule('1f1b', chainStages(4, 6), { warmup: 'b' })
    const { entries } = timeSchedule(schedule, { phases: { F: 0, B: [0, 1, 0, 2] } })
    const done = new Set<string>()
    for (const { actions } of entries)
      for (const { phase, stage, microbatch } of actions) {
        if (phase === 'F' && stage > 0) expect(done).toContain(`F${stage - 1}.${microbatch}`)
        if (phase === 'B') expect(done).toContain(`F${stage}.${microbatch}`)
        if (phase === 'B' && stage < 3) expect(done).toContain(`B${stage + 1}.${microbatch}`)
        done.add(`${phase}${stage}.${microbatch}`)
      }
    expect(done.size).toBe(48)
  })

  it('lets a pair take the time of both', () => {
    const schedule = parseSchedule('schedule 1\nstages 1 on 0\nmicrobatches 2\nactor 0: 0F0 (0F1;0B0) 0B1')
    const { entries, makespan, peakInFlight } = timeSchedule(schedule)
    expect(entries.map(({ start, end }) => [start, end])).toEqual([
      [0, 1],
      [1, 4],
      [4, 6],
    ])
    expect(makespan).toBe(6)
    expect(peakInFlight).toEqual([2])
  })

  it('counts no hop between stages of one actor', () => {
    const graph = chainStages(3, 1, [0, 0, 1])
    expect(timeSchedule(generateSchedule('gpipe', graph), { hop: 10 }).makespan).toBe(9 + 20)
  })

  it('refuses latencies that are none, and schedules that cannot go on', () => {
    for (const latencies of [{ hop: -1 }, { phases: { F: Number.NaN } }, { phases: { B: [1] } }])
      expect(() => timeSchedule(zeroBubble, latencies)).toThrow(
        expect.objectContaining({ code: 'SCHEDULE_LATENCY' }),
      )
    const stuck = parseSchedule('schedule 1\nstages 1 on 0\nmicrobatches 1\nactor 0: 0B0 0F0')
    expect(() => timeSchedule(stuck)).toThrow(
      expect.objectContaining({
        code: 'SCHEDULE_STUCK',
        message: 'the schedule cannot go on: 0B0 on actor 0 waits for 0F0 for ever',
      }),
    )
  })
})

describe('drawTimeline', () => {
  it('draws actors against time', () => {
    const timing = timeSchedule(generateSchedule('1f1b', chainStages(3, 3)))
    expect(drawTimeline(timing)).toEqual([
      'time     0        3        6        9        12',
      'actor 0  F0 F1 F2             B0---    B1---    B2---',
      'actor 1     F0 F1       B0--- F2 B1---    B2---',
      'actor 2        F0 B0--- F1 B1--- F2 B2---',
    ])
  })

  it('names the stage where an actor has several, and shares the time of a pair', () => {
    const schedule = parseSchedule('schedule 1\nstages 2 on 0,0\nmicrobatches 1\nactor 0: 0F0 1F0 1B0 0B0')
    expect(drawTimeline(timeSchedule(schedule))[1]).toBe('actor 0  0F0 1F0 1B0---- 0B0----')
    const pair = parseSchedule('schedule 1\nstages 1 on 0\nmicrobatches 2\nactor 0: 0F0 (0F1;0B0) 0B1')
    expect(drawTimeline(timeSchedule(pair, { phases: { B: 1 } }))[1]).toBe('actor 0  F0 F1 B0 B1')
  })

  it('finds the column that all times are multiples of, paints, and cuts what is too long', () => {
    const timing = timeSchedule(generateSchedule('gpipe', chainStages(2, 1)), {
      phases: { F: 0.4, B: 0.6 },
      hop: 0.2,
    })
    // F 0 to 0.4, hop, F 0.6 to 1, B to 1.6, hop, B 1.8 to 2.4: columns of 0.2, two characters each
    expect(drawTimeline(timing)).toEqual([
      'time     0       0.8     1.6',
      'actor 0  F0-               B0---',
      'actor 1        F0- B0---',
    ])
    const painted = drawTimeline(timing, { paint: (phase, text) => `<${phase}:${text}>` })
    expect(painted[2]).toContain('<F:F0-> <B:B0--->')
    const long = timeSchedule(generateSchedule('gpipe', chainStages(2, 4)), { phases: { F: 1e11, B: 2e11 } })
    expect(drawTimeline(long)[0]).toBe('time     0              500000000000   1000000000000')
    const cut = drawTimeline(timing, { maximumWidth: 20 })
    expect(cut.slice(1)).toEqual(['actor 0  F0-       ...', 'actor 1        F0- ...'])
  })
})
