import { describe, expect, it } from 'vitest'
import type { Stream } from '../program/index.ts'
import { drawTimeline, formatSeconds, type Trace, type TraceEvent, timeShares } from './index.ts'

const streams: readonly Stream[] = [
  { name: 'compute', resource: 'compute' },
  { name: 'forward', resource: 'network' },
  { name: 'load', resource: 'host' },
]

function run(rank: number, label: string, start: number, end: number): TraceEvent {
  const [, phase, microbatch] = /^([A-Z]+)(\d+)?$/.exec(label)!
  const action =
    microbatch === undefined ? {} : { phase: phase!, stage: rank, microbatch: Number(microbatch) }
  return { rank, stream: 0, kind: 'run', name: label, ...action, start, end }
}

function transfer(rank: number, start: number, end: number, wait?: number): TraceEvent {
  const event: TraceEvent = { rank, stream: 1, kind: 'exchange', name: 'send', start, end }
  return wait === undefined ? event : { ...event, wait }
}

function traceOf(ranks: number, ...events: readonly TraceEvent[]): Trace {
  return { ranks, streams, events }
}

describe('timeShares', () => {
  it('counts a moment once: as computing, else as transferring, else as waiting', () => {
    const trace = traceOf(
      3,
      run(0, 'F0', 0, 2),
      run(0, 'F1', 1, 3),
      // Half of it behind the runs.
      transfer(0, 2, 4),
      run(1, 'F0', 4, 8),
      // Two that overlap, of which the first waits for 1 s.
      transfer(1, 0, 3, 1),
      transfer(1, 2, 4),
      { rank: 1, stream: 2, kind: 'move', name: 'in tokens', start: 9, end: 10 },
    )
    expect(timeShares(trace)).toEqual([
      { rank: 0, compute: 3, transfer: 1, wait: 6, total: 10 },
      { rank: 1, compute: 4, transfer: 4, wait: 2, total: 10 },
      { rank: 2, compute: 0, transfer: 0, wait: 10, total: 10 },
    ])
  })

  it('is about nothing where nothing happened', () => {
    expect(timeShares(traceOf(1))).toEqual([{ rank: 0, compute: 0, transfer: 0, wait: 0, total: 0 }])
  })
})

describe('drawTimeline', () => {
  it('draws runs with micro-batches, transfers, waiting and the scale', () => {
    // 20 cells of 1 ms.
    const ms = 1e-3
    const trace = traceOf(
      2,
      run(0, 'F0', 0, 4 * ms),
      run(0, 'F1', 4 * ms, 8 * ms),
      transfer(0, 8 * ms, 10 * ms),
      run(0, 'B0', 15 * ms, 20 * ms),
      transfer(1, 0, 6 * ms, 4 * ms),
      run(1, 'F0', 6 * ms, 10 * ms),
      run(1, 'FB12', 10 * ms, 13 * ms),
      run(1, 'U', 14 * ms, 15 * ms),
    )
    const options = { width: 'rank 0  '.length + 20 }
    expect(drawTimeline(trace, options)).toEqual([
      'time    0              20 ms',
      'rank 0  F0--F1--..     B0---',
      // A label that does not fit loses its micro-batch, so that 12 is never 1.
      'rank 1      ..F0--FB- U     ',
    ])
    const painted = drawTimeline(trace, { ...options, paint: (phase, text) => `<${phase} ${text.length}>` })
    expect(painted[2]).toBe('rank 1  <wait 4><transfer 2><F 4><FB 3><wait 1><U 1><wait 5>')
  })

  it('draws pieces of an action next to each other as one, parts of a micro-batch apart', () => {
    const pieces = [0, 1, 2, 3].map((at) => run(0, 'F0', at, at + 1))
    const slices = [0, 1].map((slice) => ({ ...run(0, 'F1', 4 + 2 * slice, 6 + 2 * slice), slice }))
    const rest = [run(0, 'UU', 8, 9), run(0, 'UU', 9, 10)]
    const trace = traceOf(1, ...pieces, ...slices, ...rest)
    expect(drawTimeline(trace, { width: 'rank 0  '.length + 20 })[1]).toBe('rank 0  F0------F1--F1--UUUU')
    // Communication between them is seen.
    const cut = traceOf(1, run(0, 'F0', 0, 4), transfer(0, 4, 6), run(0, 'F0', 6, 10))
    expect(drawTimeline(cut, { width: 'rank 0  '.length + 10 })[1]).toBe('rank 0  F0--..F0--')
  })

  it('shows what takes most of a cell', () => {
    const trace = traceOf(
      1,
      // Cells of 1 s: together two runs win over the idle time, and the longer of them is shown.
      run(0, 'F0', 0, 0.2),
      run(0, 'B0', 0.2, 0.6),
      // Each of these loses to the idle time.
      run(0, 'F1', 1, 1.3),
      transfer(0, 1.3, 1.6),
      run(0, 'U', 9.5, 10),
    )
    expect(drawTimeline(trace, { width: 18 })[1]).toBe('rank 0  B        U')
  })

  it('keeps every row as wide as the scale, at any width', () => {
    const trace = traceOf(12, run(11, 'F0', 0.1, 0.7), run(3, 'F1', 0, 1 / 3), transfer(5, 0, 1 / 7))
    for (let width = 0; width < 100; width++) {
      const widths = new Set(drawTimeline(trace, { width }).map((line) => line.length))
      expect([...widths]).toEqual([Math.max(width, 'rank 11  '.length + 10)])
    }
  })

  it('names rows and times as it is told', () => {
    const options = {
      width: 22,
      rowName: (rank: number) => `r${rank}`,
      formatTime: (time: number) => `${time} u`,
    }
    expect(drawTimeline(traceOf(2, run(0, 'F0', 0, 4), run(1, 'B0', 4, 8)), options)).toEqual([
      'time  0            8 u',
      'r0    F0------        ',
      'r1            B0------',
    ])
  })

  it('draws an empty trace', () => {
    expect(drawTimeline(traceOf(1), { width: 20 })).toEqual(['time    0        0 s', 'rank 0  '])
  })
})

describe('formatSeconds', () => {
  it.each([
    [0, '0 s'],
    [1.23456, '1.23 s'],
    [123.4, '123 s'],
    [0.0123456, '12.3 ms'],
    [2e-6, '2 µs'],
    [5e-10, '0.0005 µs'],
    [0.0009999, '1 ms'],
  ])('%f', (seconds, text) => {
    expect(formatSeconds(seconds)).toBe(text)
  })

  it('writes as many digits as it is told', () => {
    expect(formatSeconds(0.0123456, 5)).toBe('12.346 ms')
  })
})
