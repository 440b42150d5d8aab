import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeScene, sceneToSvg, type Timeline, type TimelineBox } from './index.ts'
import { laneSpans, placeLane } from './lanes.ts'

const elements = (svg: string): number => svg.match(/<[a-z]/g)!.length

describe('level of detail', () => {
  it('keeps time: what boxes and strips cover is what the boxes cover', () => {
    const lengths = fc.array(fc.tuple(fc.nat({ max: 40 }), fc.integer({ min: 1, max: 40 })), {
      minLength: 1,
      maxLength: 300,
    })
    fc.assert(
      fc.property(lengths, fc.constantFrom(0.01, 0.5, 2, 16, 1000), (gaps, grain) => {
        let at = 0
        const boxes = gaps.map(([gap, length], index): TimelineBox => {
          const start = at + gap / 10
          at = start + length / 10
          return { start, end: at, phase: index % 3 === 0 ? 'F' : 'B' }
        })
        const picture = placeLane(
          boxes,
          laneSpans(boxes, (time) => time),
          grain,
        )
        const forward = (family: string): number =>
          picture.cells.reduce(
            (sum, { left, right, shares }) =>
              sum +
              (right - left) * shares.reduce((all, [own, share]) => all + (own === family ? share : 0), 0),
            picture.boxes.reduce(
              (sum, { box, left, right }) =>
                sum + (boxes[box]!.phase === (family === 'forward' ? 'F' : 'B') ? right - left : 0),
              0,
            ),
          )
        const expected = (phase: string): number =>
          boxes.reduce((sum, box) => sum + (box.phase === phase ? box.end - box.start : 0), 0)
        expect(forward('forward')).toBeCloseTo(expected('F'), 6)
        expect(forward('backward')).toBeCloseTo(expected('B'), 6)
        expect(picture.boxes.length + picture.merged).toBe(boxes.length)
        // What is wide enough is always drawn as itself.
        const wide = boxes.filter(({ start, end }) => end - start >= grain + 1e-9).length
        expect(picture.boxes.length).toBeGreaterThanOrEqual(wide)
      }),
      { numRuns: 150 },
    )
  })

  it('merges neighbours below the grain only', () => {
    // Widths 1 but for the fifth; a gap of 5 before the last.
    const boxes = [0, 1, 2, 3, 4, 14, 15, 21].map((start, index) => ({
      start,
      end: index === 4 ? 14 : start + 1,
      phase: 'F',
    }))
    const picture = placeLane(
      boxes,
      laneSpans(boxes, (time) => time),
      2,
    )
    expect(picture.boxes.map(({ box }) => box)).toEqual([4, 7])
    expect(picture.merged).toBe(6)
    expect(picture.cells.map(({ left, right }) => [left, right])).toEqual([
      [0, 4],
      [14, 16],
    ])
  })

  const many = (rows: number, boxes: number, lanes: number): Timeline => ({
    title: 'many',
    unit: 'seconds',
    end: 3 * boxes,
    rows: Array.from({ length: rows }, (_, row) => ({
      label: `rank ${row}`,
      boxes: Array.from({ length: boxes }, (_, at) => ({
        start: 3 * at,
        end: 3 * at + 2,
        phase: 'FBIW'[at % 4]!,
      })),
      lanes: Array.from({ length: lanes }, (_, lane) => ({
        name: `lane ${lane}`,
        // Each ends long after the next starts.
        boxes: Array.from({ length: 20 }, (_, at) => ({
          start: (boxes * at) / 40,
          end: 2 * boxes + (boxes * at) / 40,
          phase: 'S',
        })),
      })),
      memory: {
        unit: 'bytes' as const,
        peak: { value: 7, at: 0 },
        points: Array.from({ length: boxes }, (_, at) => ({ time: 3 * at, value: at % 8 })),
      },
    })),
  })

  it.each([
    [16, 6000, 2],
    [100, 500, 5],
    [1000, 60, 9],
  ])('bounds elements and bytes: %i rows of %i boxes, %i lanes', (rows, boxes, lanes) => {
    const scene = makeScene(many(rows, boxes, lanes))
    const svg = sceneToSvg(scene, { theme: 'auto' })
    expect(elements(svg)).toBeLessThanOrEqual(20_000)
    expect(svg.length).toBeLessThan(6e6)
    expect(scene.counts.boxes).toBe(rows * (boxes + 20 * lanes))
    expect(scene.counts.merged).toBeGreaterThan(0)
  })

  it('says what is merged and what is left out', () => {
    const notes = (timeline: Timeline): string[] =>
      makeScene(timeline).items.flatMap((item) =>
        item.kind === 'text' ? [item.text.replaceAll('\u2009', '')] : [],
      )
    // 2000 boxes of a third of a pixel and less each.
    const merged = many(1, 2000, 0)
    expect(makeScene(merged).counts).toEqual({ boxes: 2000, drawn: 0, merged: 2000, hidden: 0 })
    expect(notes(merged)).toContainEqual(
      expect.stringMatching(/^2000 of 2000 boxes, .* are merged into strips/),
    )
    expect(notes(many(300, 1, 0))).toContain('The first 256 of 300 rows are drawn.')
    expect(notes(many(1, 1, 7))).toContain('Of each row the first 6 lanes are drawn.')
    expect(notes(many(1, 3, 1)).join()).toMatch(/20 of 23 boxes/)
    expect(notes(many(1, 3, 0)).join()).not.toMatch(/merged/)
  })

  it('keeps the peak of memory that it draws coarsely', () => {
    const points = Array.from({ length: 50_000 }, (_, time) => ({
      time,
      value: time === 31_007 ? 90 : time % 5,
    }))
    const memory = { unit: 'activations' as const, peak: { value: 90, at: 31_007 }, points }
    const scene = makeScene({
      title: '',
      unit: 'units',
      rows: [{ label: '', boxes: [], memory }],
      end: 50_000,
    })
    const area = scene.items.find((item) => item.kind === 'area')!
    const heights = area.points.map(([, y]) => area.base - y)
    const highest = Math.max(...heights)
    // All else is at most 4 of 90.
    expect(heights.filter((height) => height > (highest * 4) / 90 + 0.02)).toHaveLength(2)
    expect(area.points.length).toBeLessThan(5 * scene.plot.width)
    const at = area.points.find(([, y]) => area.base - y === highest)![0]
    expect(Math.abs(at - scene.plot.x - (31_007 / 50_000) * scene.plot.width)).toBeLessThan(1.1)
  })
})
