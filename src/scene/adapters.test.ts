import { describe, expect, it } from 'vitest'
import { chainStages, generateSchedule, parseSchedule, timeSchedule } from '../schedule/index.ts'
import type { Trace } from '../trace/index.ts'
import { makeScene, timelineOfTiming, timelineOfTrace } from './index.ts'

describe('timelineOfTiming', () => {
  const timelineOf = (name: string): ReturnType<typeof timelineOfTiming> => {
    const schedule = generateSchedule(name, chainStages(4, 8))
    return timelineOfTiming(schedule, timeSchedule(schedule), { title: name, unit: 'units' })
  }

  it.each(['gpipe', '1f1b'])(
    'draws %s of 4 stages and 8 micro-batches: 33 units, 27.3%% of them idle',
    (name) => {
      // A step takes (m + P - 1)(F + B) = 11 * 3 units, of which (P - 1) / (m + P - 1) is bubble (GPipe, section 2).
      const timeline = timelineOf(name)
      expect(timeline.end).toBe(33)
      const scene = makeScene(timeline)
      const texts = scene.items.flatMap((item) => (item.kind === 'text' ? [item.text] : []))
      expect(texts.filter((text) => text === 'idle 27.3%')).toHaveLength(4)
      const boxes = scene.items.flatMap((item) => (item.kind === 'rect' && item.role === 'box' ? [item] : []))
      expect(boxes).toHaveLength(64)
      const unit = scene.plot.width / 33
      for (const box of boxes)
        expect(Math.abs(box.width - (box.fill.startsWith('forward') ? unit : 2 * unit))).toBeLessThan(0.02)
      const firsts = [0, 1, 2, 3].map((row) =>
        Math.min(...boxes.filter((box) => box.source!.row === row).map((b) => b.x)),
      )
      firsts.forEach((x, row) => {
        expect(Math.abs(x - scene.plot.x - row * unit)).toBeLessThan(0.02)
      })
    },
  )

  it('counts activations: all micro-batches in gpipe, P - r in 1f1b', () => {
    expect(timelineOf('gpipe').rows.map(({ memory }) => memory?.peak.value)).toEqual([8, 8, 8, 8])
    const rows = timelineOf('1f1b').rows
    expect(rows.map(({ memory }) => memory?.peak.value)).toEqual([4, 3, 2, 1])
    // The last of the warm-up starts when all stages have had a forward.
    expect(rows.map(({ memory }) => memory?.peak.at)).toEqual([3, 3, 3, 3])
    for (const { memory } of rows) expect(memory?.points.at(-1)?.value).toBe(0)
  })

  it('knows chunks, halves, slices and pairs', () => {
    const schedule = parseSchedule(
      [
        'schedule 1',
        'stages 4 on 0,1,1,0',
        'microbatches 2',
        'actor 0: 0F0 0F1 3F0 (3F1;3B0) 3I1 3W1 0B0 0B1',
        'actor 1: 1F0 2F0 1F1 2F1 2B0 2B1 1B0 1B1',
      ].join('\n'),
    )
    const timing = timeSchedule(schedule)
    const timeline = timelineOfTiming(schedule, timing, {
      title: '',
      unit: 'units',
      rowLabel: (actor) => `r${actor}`,
    })
    expect(timeline.rows.map(({ label }) => label)).toEqual(['r0', 'r1'])
    const pair = timing.entries.find(({ actions }) => actions.length === 2)!
    expect(timeline.rows[0]!.boxes.filter(({ start }) => start === pair.start)).toEqual([
      { start: pair.start, end: pair.end, phase: 'F', stage: 3, chunk: 1, microbatch: 1 },
      { start: pair.start, end: pair.end, phase: 'B', stage: 3, chunk: 1, microbatch: 0 },
    ])
    // Two of stage 0, two of stage 3: both of a pair count until it ends.
    expect(timeline.rows[0]!.memory?.peak).toEqual({ value: 4, at: pair.start })
  })
})

describe('timelineOfTrace', () => {
  const trace: Trace = {
    ranks: 2,
    streams: [
      { name: 'compute', resource: 'compute' },
      { name: 'forward', resource: 'network' },
      { name: 'backward', resource: 'network' },
      { name: 'reduce', resource: 'network' },
      { name: 'load', resource: 'host' },
    ],
    events: [
      { rank: 0, stream: 0, kind: 'run', name: 'F7', phase: 'F', stage: 7, microbatch: 1, start: 0, end: 1 },
      { rank: 0, stream: 0, kind: 'run', name: 'F3', phase: 'F', stage: 3, microbatch: 1, start: 1, end: 2 },
      {
        rank: 1,
        stream: 1,
        kind: 'exchange',
        name: 'recv x[1]',
        microbatch: 1,
        bytes: 64,
        start: 0,
        end: 3,
        wait: 2,
      },
      { rank: 1, stream: 3, kind: 'collective', name: 'all-reduce sum g', start: 3, end: 4 },
      { rank: 1, stream: 3, kind: 'collective', name: 'all-gather w', start: 4, end: 4.5 },
      { rank: 1, stream: 4, kind: 'move', name: 'in x[0]', start: 0, end: 0.5 },
      { rank: 1, stream: 0, kind: 'run', name: 'clip', start: 4, end: 5 },
    ],
  }

  it('has compute on the row, other streams as lanes, waiting set off', () => {
    const { rows, end, unit } = timelineOfTrace(trace, { title: '' })
    expect([end, unit]).toEqual([5, 'seconds'])
    expect(rows[0]!.boxes.map(({ stage, chunk }) => [stage, chunk])).toEqual([
      [7, 1],
      [3, 0],
    ])
    expect(rows.map(({ lanes }) => lanes!.map(({ name }) => name))).toEqual([
      ['forward', 'reduce', 'load'],
      ['forward', 'reduce', 'load'],
    ])
    const [forward, reduce, load] = rows[1]!.lanes!
    expect(forward!.boxes).toEqual([
      { start: 0, end: 2, phase: 'wait', label: 'recv x[1]' },
      { start: 2, end: 3, phase: 'transfer', label: 'recv x[1]', microbatch: 1, bytes: 64 },
    ])
    expect(reduce!.boxes.map(({ phase }) => phase)).toEqual(['reduce', 'gather'])
    expect(load!.boxes.map(({ phase }) => phase)).toEqual(['move'])
    expect(rows[1]!.boxes.map(({ phase }) => phase)).toEqual(['clip'])
  })

  it('has the unit and the names that it is told', () => {
    const rowLabel = (rank: number): string => `copies of ${rank}`
    const { rows, unit } = timelineOfTrace(trace, { title: '', unit: 'units', rowLabel })
    expect([unit, ...rows.map(({ label }) => label)]).toEqual(['units', 'copies of 0', 'copies of 1'])
  })

  it('takes memory where it is known', () => {
    const memory = { unit: 'bytes' as const, peak: { value: 3, at: 1 }, points: [{ time: 1, value: 3 }] }
    const { rows } = timelineOfTrace(trace, { title: '', memory: [undefined, memory] })
    expect(rows.map((row) => row.memory)).toEqual([undefined, memory])
  })

  it('draws a trace of nothing', () => {
    const empty = timelineOfTrace({ ranks: 1, streams: [], events: [] }, { title: '' })
    const scene = makeScene(empty)
    expect(scene.counts.boxes).toBe(0)
    expect(scene.height).toBeGreaterThan(0)
  })
})
