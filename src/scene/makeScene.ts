import { internalError } from '../base/index.ts'
import { drawLane, label } from './boxes.ts'
import { checkTimeline } from './check.ts'
import { drawFrame } from './frame.ts'
import { type LanePicture, laneSpans, placeLane } from './lanes.ts'
import { drawnRows, margin, placeRows } from './layout.ts'
import { drawLegend, type LegendContent } from './legend.ts'
import { drawMemories } from './memory.ts'
import { formatNumber, type TimeFormat, timeFormat } from './numbers.ts'
import type { Timeline, TimelineBox, TimelineRow } from './timeline.ts'
import type { Scene, SceneItem } from './types.ts'
import { cleanText, fitText, wrapText } from './words.ts'

export interface SceneOptions {
  /** Pixels of the whole drawing, 400 to 20,000. Default 1200; its height follows. */
  readonly width?: number
  /** Elements (rectangles, texts, tooltips) at most, 15,000 or more. Default 20,000: what a browser still draws well. */
  readonly maximumElements?: number
}

/** Rows and lanes of a row past which the rest is left out, which a note then says. */
const mostRows = 256
const manyRows = 96
const mostLanes = (rows: number): number => (rows <= manyRows ? 6 : 2)
/** What the most rows with the most lanes may take where every lane is one cell of every family. */
const fewestElements = 15_000
const mostNotes = 12
/** Boxes narrower than this many pixels are merged; more, where there would be too many elements. */
const finestGrain = 0.5
/** Elements kept for the heading, the legend, the notes and the definitions of fills. */
const reserve = 500

interface LanePlan {
  readonly row: number
  readonly lane: number
  readonly boxes: readonly TimelineBox[]
  readonly spans: ReturnType<typeof laneSpans>
}

/**
 * The drawing of a timeline: ranks as rows, time to the right, colour by phase. What is too small to be seen apart is
 * merged, so that its size does not grow with the number of boxes.
 *
 * @throws Error where the timeline is none (`checkTimeline`), or an option out of range: mistakes of ours
 */
export function makeScene(timeline: Timeline, options: SceneOptions = {}): Scene {
  const { width = 1200, maximumElements = 20_000 } = options
  if (!(width >= 400 && width <= 20_000)) throw internalError(`a scene ${width} pixels wide`)
  if (!(maximumElements >= fewestElements)) throw internalError(`a scene of ${maximumElements} elements`)
  checkTimeline(timeline)
  const rows = drawnRows(timeline, mostRows, mostLanes(timeline.rows.length)).map(
    (row): TimelineRow => ({
      ...row,
      label: cleanText(row.label, 60),
      ...(row.lanes === undefined
        ? {}
        : { lanes: row.lanes.map(({ name, boxes }) => ({ name: cleanText(name, 60), boxes })) }),
    }),
  )
  const time = timeFormat(timeline.unit, timeline.end)
  const title = cleanText(timeline.title, 200)
  const content = legendContent(rows)
  // Whether there are strips is only known once places are; the legend's lines decide places. So it is asked for room.
  const legendTop = title === '' ? margin : 40
  const room = drawLegend({ ...content, strips: true }, width, legendTop).bottom
  const layout = placeRows(rows, { width, y: room + 26 })
  const { plot } = layout
  const toX = (at: number): number =>
    timeline.end > 0 ? plot.x + Math.min(1, at / timeline.end) * plot.width : plot.x
  const plans = lanePlans(rows, toX)
  const frames = drawFrame(rows, layout, time, timeline.end, toX)
  const memories = drawMemories(rows, layout, time, toX)
  const { grain, pictures } = fitGrain(plans, maximumElements - reserve - frames.length - 3 * memories.length)
  const chunks = content.chunks
  const boxes = plans.flatMap((plan, index) => {
    const place = layout.rows[plan.row]!
    const own = plan.lane < 0
    return drawLane(plan.boxes, pictures[index]!, {
      row: plan.row,
      lane: plan.lane,
      y: own ? place.y : place.lanes[plan.lane]!,
      height: own ? layout.density.row : layout.density.lane,
      size: own ? layout.density.boxSize : layout.density.smallSize,
      chunks,
      time,
    })
  })
  const counts = countBoxes(timeline, pictures)
  const notes = [...(timeline.notes ?? []).slice(0, mostNotes), ...countNotes(timeline, counts, grain)]
  const legend = drawLegend({ ...content, strips: counts.merged > 0 }, width, legendTop)
  const foot = drawNotes(notes, width, plot.y + plot.height + 24)
  const heading: SceneItem[] =
    title === ''
      ? []
      : [label(margin, 24, fitText(title, width - 2 * margin, 14, 'heading'), 14, 'text', 'heading')]
  return {
    title,
    description: describe(timeline, counts, time),
    width,
    height: foot.bottom,
    plot,
    items: [...heading, ...legend.items, ...frames, ...boxes, ...memories, ...foot.items],
    counts,
  }
}

function lanePlans(rows: readonly TimelineRow[], toX: (time: number) => number): LanePlan[] {
  return rows.flatMap(({ boxes, lanes = [] }, row) =>
    [boxes, ...lanes.map((lane) => lane.boxes)].map((list, at) => ({
      row,
      lane: at - 1,
      boxes: list,
      spans: laneSpans(list, toX),
    })),
  )
}

/** The finest grain with which all boxes together take no more elements than there may be. */
function fitGrain(
  plans: readonly LanePlan[],
  most: number,
): { readonly grain: number; readonly pictures: readonly LanePicture[] } {
  for (let grain = finestGrain; ; grain *= 2) {
    const pictures = plans.map(({ boxes, spans }) => placeLane(boxes, spans, grain))
    // A box, its tooltip and perhaps its text; a rectangle for each share of a cell.
    const elements = pictures.reduce(
      (sum, { boxes, cells }) =>
        sum + 3 * boxes.length + cells.reduce((shares, cell) => shares + cell.shares.length, 0),
      0,
    )
    if (elements <= most || grain > 40_000) return { grain, pictures }
  }
}

function legendContent(rows: readonly TimelineRow[]): LegendContent {
  const phases = new Set<string>()
  let chunks = 1
  const see = (boxes: readonly TimelineBox[]): void => {
    for (const { phase, chunk, start, end } of boxes) {
      if (end > start) phases.add(phase)
      chunks = Math.max(chunks, (chunk ?? 0) + 1)
    }
  }
  for (const { boxes } of rows) see(boxes)
  for (const { lanes = [] } of rows) for (const lane of lanes) see(lane.boxes)
  return {
    phases: [...phases],
    chunks,
    strips: false,
    memory: rows.some(({ memory }) => memory !== undefined),
    capacity: rows.some(({ memory }) => memory?.capacity !== undefined),
  }
}

function countBoxes(timeline: Timeline, pictures: readonly LanePicture[]): Scene['counts'] {
  let boxes = 0
  for (const row of timeline.rows) {
    boxes += row.boxes.length
    for (const lane of row.lanes ?? []) boxes += lane.boxes.length
  }
  const drawn = pictures.reduce((sum, picture) => sum + picture.boxes.length, 0)
  const merged = pictures.reduce((sum, picture) => sum + picture.merged, 0)
  return { boxes, drawn, merged, hidden: boxes - drawn - merged }
}

function countNotes(timeline: Timeline, counts: Scene['counts'], grain: number): string[] {
  const notes: string[] = []
  const number = (value: number): string => formatNumber(value, 0)
  if (counts.merged > 0)
    notes.push(
      `${number(counts.merged)} of ${number(counts.boxes)} boxes, narrower than ${grain} px or more than four at a ` +
        'time, are merged into strips.',
    )
  const { length } = timeline.rows
  if (length > mostRows) notes.push(`The first ${mostRows} of ${number(length)} rows are drawn.`)
  if (timeline.rows.some(({ lanes = [] }) => lanes.length > mostLanes(length)))
    notes.push(`Of each row the first ${mostLanes(length)} lanes are drawn.`)
  if (timeline.end === 0) notes.push('Nothing takes any time.')
  return notes
}

function drawNotes(
  notes: readonly string[],
  width: number,
  y: number,
): { readonly items: readonly SceneItem[]; readonly bottom: number } {
  const size = 11
  const lines = notes.flatMap((note) => wrapText(cleanText(note, 600), width - 2 * margin, size, 3))
  const items = lines.map((line, index) => label(margin, y + index * 16, line, size, 'muted', 'text'))
  return { items, bottom: y + lines.length * 16 }
}

function describe(timeline: Timeline, counts: Scene['counts'], time: TimeFormat): string {
  const { length } = timeline.rows
  return `Timeline of ${length} ${length === 1 ? 'row' : 'rows'}, ${counts.boxes} boxes, ${time.exact(timeline.end)}`
}
