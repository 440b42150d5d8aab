import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeScene, type Scene, type SceneRect, type Timeline, type TimelineBox } from './index.ts'

const boxArbitrary: fc.Arbitrary<TimelineBox> = fc
  .record({
    start: fc.nat({ max: 900 }),
    length: fc.nat({ max: 100 }),
    phase: fc.constantFrom('F', 'B', 'I', 'W', 'U', 'wait', 'transfer', 'mine'),
    microbatch: fc.nat({ max: 2000 }),
    chunk: fc.nat({ max: 5 }),
  })
  .map(({ start, length, ...rest }) => ({ start, end: start + length, ...rest }))

const timelineArbitrary: fc.Arbitrary<Timeline> = fc
  .array(
    fc.record({
      label: fc.string(),
      boxes: fc.array(boxArbitrary, { maxLength: 60 }),
      lanes: fc.array(fc.record({ name: fc.string(), boxes: fc.array(boxArbitrary, { maxLength: 20 }) }), {
        maxLength: 3,
      }),
    }),
    { maxLength: 4 },
  )
  .map((rows) => ({ title: 't', unit: 'units', rows, end: 1000 }))

function rects(scene: Scene, role: SceneRect['role']): SceneRect[] {
  return scene.items.filter((item) => item.kind === 'rect').filter((rect) => rect.role === role)
}

describe('a scene', () => {
  it('gives every box its share of the time, and its place', () => {
    fc.assert(
      fc.property(timelineArbitrary, (timeline) => {
        const scene = makeScene(timeline)
        const { x, width } = scene.plot
        for (const rect of rects(scene, 'box')) {
          const { row, lane, box } = rect.source!
          const all = lane < 0 ? timeline.rows[row]!.boxes : timeline.rows[row]!.lanes![lane]!.boxes
          const { start, end } = all[box]!
          expect(Math.abs(rect.width - ((end - start) / 1000) * width)).toBeLessThan(0.03)
          expect(Math.abs(rect.x - x - (start / 1000) * width)).toBeLessThan(0.02)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('draws nothing over anything else, and nothing outside', () => {
    fc.assert(
      fc.property(timelineArbitrary, (timeline) => {
        const scene = makeScene(timeline)
        const drawn = [...rects(scene, 'box'), ...rects(scene, 'density')]
        drawn.forEach((a, index) => {
          expect(a.x).toBeGreaterThanOrEqual(scene.plot.x)
          expect(a.x + a.width).toBeLessThanOrEqual(scene.plot.x + scene.plot.width + 0.01)
          for (const b of drawn.slice(index + 1)) {
            const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x)
            const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y)
            expect(across < 0.005 || down < 0.02).toBe(true)
          }
        })
      }),
      { numRuns: 60 },
    )
  })

  it('counts every box once', () => {
    fc.assert(
      fc.property(timelineArbitrary, (timeline) => {
        const { boxes, drawn, merged, hidden } = makeScene(timeline).counts
        const all = timeline.rows
          .flatMap((row) => [row.boxes, ...row.lanes!.map((lane) => lane.boxes)])
          .flat()
        expect(boxes).toBe(all.length)
        expect(hidden).toBe(all.filter(({ start, end }) => start === end).length)
        expect(drawn + merged + hidden).toBe(boxes)
      }),
      { numRuns: 60 },
    )
  })

  it('has coordinates of two decimals, and text within the drawing', () => {
    fc.assert(
      fc.property(timelineArbitrary, (timeline) => {
        const scene = makeScene(timeline)
        for (const item of scene.items) {
          const numbers = Object.values(item).filter((value) => typeof value === 'number')
          for (const value of numbers)
            expect(Math.abs(value * 100 - Math.round(value * 100))).toBeLessThan(1e-6)
          if (item.kind === 'text') {
            expect(item.y).toBeLessThanOrEqual(scene.height)
            expect(item.x).toBeLessThan(scene.width)
          }
        }
      }),
      { numRuns: 30 },
    )
  })

  it('shows a micro-batch whole or not at all', () => {
    const ends = [3, 6, 10, 16, 24, 33, 60, 100]
    const boxes = ends.map((width, index) => ({
      start: 100 * index,
      end: 100 * index + width,
      phase: 'F',
      microbatch: 12345,
    }))
    const scene = makeScene({ title: '', unit: 'units', rows: [{ label: '', boxes }], end: 800 })
    const shown = scene.items.flatMap((item) =>
      item.kind === 'text' && item.fill === 'forward-0-ink' ? [item] : [],
    )
    expect(new Set(shown.map(({ text }) => text))).toEqual(new Set(['12345', 'F12345']))
    // DejaVu Sans Mono, the widest of the faces, advances 0.602 of its size.
    for (const { text, size, x } of shown) {
      const box = rects(scene, 'box').find((rect) => rect.x <= x && x <= rect.x + rect.width)!
      expect(text.length * 0.602 * size).toBeLessThan(box.width)
    }
  })

  it('gives both actions of a pair half the height, and a box of its own the whole', () => {
    const boxes = [
      { start: 0, end: 3, phase: 'F', microbatch: 1 },
      { start: 0, end: 3, phase: 'B', microbatch: 0 },
      { start: 3, end: 4, phase: 'F', microbatch: 2 },
    ]
    const [forward, backward, alone] = rects(
      makeScene({ title: '', unit: 'units', rows: [{ label: '', boxes }], end: 4 }),
      'box',
    )
    expect(forward!.height).toBe(alone!.height / 2)
    expect(backward).toMatchObject({ x: forward!.x, width: forward!.width, height: forward!.height })
    expect(backward!.y).toBe(forward!.y + forward!.height)
  })

  it.each([
    [[], 0],
    [[{ start: 0, end: 0, phase: 'F' }], 0],
    [[{ start: 5, end: 5, phase: 'F' }], 5],
    [[{ start: 0, end: Number.MIN_VALUE, phase: 'F' }], Number.MIN_VALUE],
    [[{ start: 0, end: 1e308, phase: 'F' }], 1e308],
  ])('stands a timeline of no length, or of an absurd one: %#', (boxes, end) => {
    for (const unit of ['seconds', 'units'] as const) {
      const scene = makeScene({ title: 't', unit, rows: [{ label: 'r', boxes }], end })
      for (const item of scene.items)
        for (const value of Object.values(item))
          if (typeof value === 'number') expect(value).toBeLessThan(1e5)
    }
  })

  const one = (box: object, more: object = {}): Timeline => ({
    title: '',
    unit: 'units',
    end: 10,
    rows: [{ label: '', boxes: [{ start: 0, end: 1, phase: 'F', ...box }], ...more }],
  })
  it.each([
    { ...one({}), end: Number.NaN },
    { ...one({}), end: -1 },
    { ...one({}), end: Number.POSITIVE_INFINITY },
    one({ start: Number.NaN }),
    one({ end: Number.NaN }),
    one({ start: -1 }),
    one({ start: 2 }),
    one({ end: 11 }),
    one({ chunk: Number.NaN }),
    one({}, { lanes: [{ name: '', boxes: [{ start: 0, end: Number.NaN, phase: 'F' }] }] }),
    one({}, { memory: { unit: 'bytes', peak: { value: Number.NaN, at: 0 }, points: [] } }),
    one({}, { memory: { unit: 'bytes', capacity: -1, peak: { value: 0, at: 0 }, points: [] } }),
    one(
      {},
      { memory: { unit: 'bytes', peak: { value: 0, at: 0 }, points: [{ time: 0, value: Number.NaN }] } },
    ),
    one(
      {},
      {
        memory: {
          unit: 'bytes',
          peak: { value: 0, at: 0 },
          points: [
            { time: 2, value: 0 },
            { time: 1, value: 0 },
          ],
        },
      },
    ),
  ])('refuses what is no timeline: %#', (timeline) => {
    expect(() => makeScene(timeline)).toThrow(/^internal: /)
  })
})
