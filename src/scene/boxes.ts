import type { DensityCell, LanePicture, PlacedBox } from './lanes.ts'
import { fillToken, lookOf, toneOf } from './looks.ts'
import { formatMemory, type TimeFormat } from './numbers.ts'
import type { TimelineBox } from './timeline.ts'
import { families, type Token } from './tokens.ts'
import type { SceneItem, SceneRect, SceneText } from './types.ts'
import { cleanText, textWidth } from './words.ts'

export interface LaneFrame {
  readonly row: number
  /** -1 is the row itself. */
  readonly lane: number
  readonly y: number
  readonly height: number
  readonly size: number
  readonly chunks: number
  readonly time: TimeFormat
}

/** Below this a box has no edge: it would be all edge. */
const edgedFrom = 3
const padding = 3

export function drawLane(boxes: readonly TimelineBox[], picture: LanePicture, frame: LaneFrame): SceneItem[] {
  return [
    ...picture.cells.flatMap((cell) => drawCell(cell, frame)),
    ...picture.boxes.flatMap((placed) => drawBox(boxes[placed.box]!, placed, frame)),
  ]
}

function drawBox(box: TimelineBox, placed: PlacedBox, frame: LaneFrame): SceneItem[] {
  const { family, mark } = lookOf(box.phase)
  const fill = fillToken(family, toneOf(box.chunk ?? 0, frame.chunks))
  const height = frame.height / placed.levels
  const rect: SceneRect = {
    kind: 'rect',
    role: 'box',
    ...span(placed.left, placed.right),
    y: round(frame.y + placed.level * height),
    height: round(height),
    fill,
    mark,
    edged: placed.right - placed.left >= edgedFrom,
    tooltip: tooltipOf(box, frame.time),
    source: { row: frame.row, lane: frame.lane, box: placed.box },
  }
  const size = Math.min(frame.size, Math.floor(height - 2))
  const text = size < 6 ? undefined : textIn(box, rect.width - 2 * padding, size)
  if (text === undefined) return [rect]
  return [
    rect,
    {
      kind: 'text',
      x: round(rect.x + rect.width / 2),
      // Digits are some 0.72 of the size high.
      y: round(rect.y + height / 2 + 0.36 * size),
      text,
      size,
      anchor: 'middle',
      fill: `${fill}-ink`,
      face: 'number',
    },
  ]
}

/** The longest that fits whole: part of a number would be another number. */
function textIn(box: TimelineBox, width: number, size: number): string | undefined {
  if (box.phase === 'wait') return undefined
  const { letter } = lookOf(box.phase)
  const part = box.part === undefined ? '' : `.${box.part}`
  const candidates =
    box.microbatch === undefined
      ? [cleanText(box.label ?? letter, 40), letter]
      : [`${letter}${box.microbatch}${part}`, `${box.microbatch}${part}`]
  return candidates.find((text) => text !== '' && textWidth(text, size, 'number') <= width)
}

function tooltipOf(box: TimelineBox, time: TimeFormat): string {
  const { letter, name } = lookOf(box.phase)
  const facts = [letter === '' || letter === name ? name : `${letter} ${name}`]
  if (box.label !== undefined) facts.push(box.label)
  if (box.stage !== undefined) facts.push(`stage ${box.stage}`)
  if (box.microbatch !== undefined) facts.push(`micro-batch ${box.microbatch}`)
  if (box.part !== undefined) facts.push(`part ${box.part}`)
  facts.push(`${time.exact(box.start)} – ${time.exact(box.end)} (${time.exact(box.end - box.start)})`)
  if (box.bytes !== undefined) facts.push(formatMemory(box.bytes, 'bytes'))
  return facts.map((fact) => cleanText(fact, 120)).join(', ')
}

/** Families of a cell, one on the other from the floor, in the same order everywhere. */
function drawCell(cell: DensityCell, frame: LaneFrame): SceneItem[] {
  const height = frame.height / cell.levels
  const floor = frame.y + (cell.level + 1) * height
  const ordered = [...cell.shares].sort(([a], [b]) => families.indexOf(a) - families.indexOf(b))
  let below = 0
  return ordered.map(([family, share]) => {
    const bottom = round(floor - below * height)
    below += share
    const top = round(floor - below * height)
    return {
      kind: 'rect',
      role: 'density',
      ...span(cell.left, cell.right),
      y: top,
      height: round(bottom - top),
      fill: fillToken(family, 0),
      mark: 'plain',
      edged: false,
    }
  })
}

/** Both ends are rounded, so that neighbours still meet. */
function span(left: number, right: number): { readonly x: number; readonly width: number } {
  const x = round(left)
  return { x, width: round(round(right) - x) }
}

export function round(value: number): number {
  return Math.round(value * 100) / 100
}

export function label(
  x: number,
  y: number,
  text: string,
  size: number,
  fill: Token,
  face: SceneText['face'],
): SceneText {
  return { kind: 'text', x, y, text, size, anchor: 'start', fill, face }
}
