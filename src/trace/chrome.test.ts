import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Stream } from '../program/index.ts'
import { readChromeTrace, type Trace, type TraceEvent, writeChromeTrace } from './index.ts'

const streams: readonly Stream[] = [
  { name: 'compute', resource: 'compute' },
  { name: 'forward', resource: 'network' },
]
const example: Trace = {
  ranks: 2,
  streams,
  events: [
    {
      rank: 0,
      stream: 0,
      kind: 'run',
      name: 'F0',
      phase: 'F',
      stage: 0,
      microbatch: 3,
      start: 0,
      end: 0.0015,
    },
    {
      rank: 1,
      stream: 1,
      kind: 'exchange',
      name: 'recv',
      start: 0,
      end: 0.002,
      wait: 0.001,
      bytes: 64,
      ids: [7],
    },
    { rank: 1, stream: 1, kind: 'exchange', name: 'recv', start: 0.001, end: 0.003, instruction: 4 },
  ],
}

const optional = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined })
/** Times in whole nanoseconds, as the file has them. */
const traceArbitrary: fc.Arbitrary<Trace> = fc.integer({ min: 1, max: 5 }).chain((ranks) => {
  const event = fc
    .record({
      rank: fc.nat({ max: ranks - 1 }),
      stream: fc.nat({ max: 1 }),
      kind: fc.constantFrom('run' as const, 'exchange' as const, 'collective' as const, 'move' as const),
      name: fc.string(),
      phase: optional(fc.string()),
      stage: optional(fc.nat()),
      microbatch: optional(fc.nat()),
      slice: optional(fc.nat()),
      start: fc.nat({ max: 1e12 }),
      duration: fc.nat({ max: 1e12 }),
      waits: fc.boolean(),
      bytes: optional(fc.nat()),
      instruction: optional(fc.nat()),
      ids: optional(fc.array(fc.nat())),
    })
    .map(({ start, duration, waits, ...rest }) => {
      const all = {
        ...rest,
        start: start / 1e9,
        end: (start + duration) / 1e9,
        wait: waits ? Math.floor(duration / 2) / 1e9 : undefined,
      }
      return Object.fromEntries(
        Object.entries(all).filter(([, value]) => value !== undefined),
      ) as unknown as TraceEvent
    })
  return fc.record({ ranks: fc.constant(ranks), streams: fc.constant(streams), events: fc.array(event) })
})

describe('Chrome trace events', () => {
  it('come back as they were written, to the nanosecond', () => {
    fc.assert(
      fc.property(traceArbitrary, (trace) => {
        expect(readChromeTrace(writeChromeTrace(trace))).toEqual(trace)
      }),
      { numRuns: 200 },
    )
  })

  it('have a process for each rank and a thread for each stream, times in microseconds', () => {
    const { traceEvents } = JSON.parse(writeChromeTrace(example)) as {
      traceEvents: Record<string, unknown>[]
    }
    expect(traceEvents.filter(({ name }) => name === 'process_name')).toEqual([
      { name: 'process_name', ph: 'M', pid: 0, tid: 0, args: { name: 'rank 0' } },
      { name: 'process_name', ph: 'M', pid: 1, tid: 0, args: { name: 'rank 1' } },
    ])
    // A rank with no events, one of thousands that were not simulated, has no process.
    expect(writeChromeTrace({ ...example, ranks: 3 })).not.toContain('rank 2')
    expect(
      traceEvents.filter(({ name }) => name === 'thread_name').map(({ pid, tid, args }) => [pid, tid, args]),
    ).toEqual([
      [0, 0, { name: 'compute' }],
      [1, 1, { name: 'forward' }],
      // The second message overlaps the first: it has a thread of its own.
      [1, 3, { name: 'forward 2' }],
    ])
    expect(traceEvents.find(({ ph }) => ph === 'X')).toEqual({
      name: 'F0',
      cat: 'run',
      ph: 'X',
      pid: 0,
      tid: 0,
      ts: 0,
      dur: 1500,
      args: { phase: 'F', stage: 0, microbatch: 3 },
    })
  })

  it('never overlap on a thread', () => {
    fc.assert(
      fc.property(traceArbitrary, (trace) => {
        const { traceEvents } = JSON.parse(writeChromeTrace(trace)) as {
          traceEvents: { ph: string; pid: number; tid: number; ts: number; dur: number }[]
        }
        const threads = new Map<string, { from: number; to: number }[]>()
        for (const { ph, pid, tid, ts, dur } of traceEvents) {
          if (ph !== 'X') continue
          const spans = threads.get(`${pid} ${tid}`) ?? []
          threads.set(`${pid} ${tid}`, spans)
          const [from, to] = [Math.round(ts * 1000), Math.round(ts * 1000) + Math.round(dur * 1000)]
          for (const span of spans) expect(to <= span.from || span.to <= from).toBe(true)
          spans.push({ from, to })
        }
      }),
      { numRuns: 100 },
    )
  })

  const changed = (change: (document: ReturnType<typeof JSON.parse>) => void): string => {
    const document = JSON.parse(writeChromeTrace(example))
    change(document)
    return JSON.stringify(document)
  }
  const firstEvent = (change: (event: Record<string, unknown>) => void): string =>
    changed((document) => {
      change(document.traceEvents.find((event: { ph: string }) => event.ph === 'X'))
    })

  it.each([
    ['{', /not JSON/],
    ['[]', /the trace must be an object/],
    ['null', /the trace must be an object/],
    [changed((document) => delete document.otherData), /lacks "otherData"/],
    [changed((document) => Object.assign(document, { extra: 1 })), /unknown key "extra"/],
    [changed((document) => Object.assign(document.otherData, { version: 2 })), /otherData.version must be 1/],
    [changed((document) => Object.assign(document.otherData, { ranks: 1e9 })), /otherData.ranks/],
    [changed((document) => Object.assign(document.otherData, { ranks: 1 })), /pid must be below 1/],
    [changed((document) => Object.assign(document.otherData, { streams: [] })), /there is none/],
    [
      changed((document) => Object.assign(document.otherData.streams[0], { resource: 'disk' })),
      /streams\[0\].resource/,
    ],
    [
      changed((document) => Object.assign(document.traceEvents[0], { name: 'other' })),
      /traceEvents\[0\].name/,
    ],
    [changed((document) => document.traceEvents.push(3)), /must be an object/],
    [firstEvent((event) => Object.assign(event, { ph: 'B' })), /ph must be "M" or "X"/],
    [firstEvent((event) => Object.assign(event, { ts: -1 })), /ts must be a time/],
    [firstEvent((event) => Object.assign(event, { dur: '3' })), /dur must be a time/],
    [firstEvent((event) => Object.assign(event, { cat: 'sleep' })), /cat must be one of run, exchange/],
    [
      firstEvent((event) => Object.assign(event['args'] as object, { stage: 0.5 })),
      /args.stage must be a whole number/,
    ],
    [
      firstEvent((event) => Object.assign(event['args'] as object, { wait: 2000 })),
      /wait must be within the event/,
    ],
    [firstEvent((event) => Object.assign(event['args'] as object, { colour: 1 })), /unknown key "colour"/],
  ])('are refused when changed: %#', (text, message) => {
    expect(() => readChromeTrace(text)).toThrow(
      expect.objectContaining({ code: 'TRACE_FORMAT', message: expect.stringMatching(message) }),
    )
  })
})
