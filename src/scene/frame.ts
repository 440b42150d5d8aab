import { label, round } from './boxes.ts'
import { type Layout, margin, rightWidth } from './layout.ts'
import { axisTicks, formatNumber, type TimeFormat } from './numbers.ts'
import type { TimelineBox, TimelineRow } from './timeline.ts'
import type { Token } from './tokens.ts'
import type { SceneItem } from './types.ts'
import { fitText } from './words.ts'

/** What lies under the boxes: idle time, lanes, the axis; and the names beside them. */
export function drawFrame(
  rows: readonly TimelineRow[],
  layout: Layout,
  time: TimeFormat,
  end: number,
  toX: (time: number) => number,
): SceneItem[] {
  const { plot, density } = layout
  const items: SceneItem[] = []
  const band = (y: number, height: number, fill: Token, role: 'idle' | 'background'): void => {
    const mark = role === 'idle' ? 'hatch' : 'plain'
    const { x, width } = plot
    items.push({ kind: 'rect', role, x, y, width: round(width), height, fill, mark, edged: false })
  }
  rows.forEach((row, index) => {
    const place = layout.rows[index]!
    const name = (text: string, y: number, height: number, size: number, fill: Token): void => {
      const shown = fitText(text, plot.x - margin - 6, size, 'text')
      items.push(label(margin, round(y + height / 2 + 0.36 * size), shown, size, fill, 'text'))
    }
    band(place.y, density.row, 'idle', 'idle')
    name(row.label, place.y, density.row, density.labelSize, 'text')
    place.lanes.forEach((y, lane) => {
      band(y, density.lane, 'lane', 'background')
      // In the smallest rows names of lanes would run into one another.
      if (density.lane >= density.smallSize)
        name(row.lanes?.[lane]?.name ?? '', y, density.lane, density.smallSize, 'muted')
    })
    if (place.memory !== undefined) {
      band(place.memory, density.memory, 'lane', 'background')
      if (density.memory >= density.smallSize)
        name('memory', place.memory, density.memory, density.smallSize, 'muted')
    }
    if (end > 0) {
      const text = `idle ${formatNumber(100 * idleShare(row.boxes, end), 1)}%`
      const y = round(place.y + density.row / 2 + 0.36 * density.smallSize)
      items.push(label(round(plot.x + plot.width + 8), y, text, density.smallSize, 'muted', 'number'))
    }
  })
  const { step, times } = axisTicks(end, Math.max(1, Math.floor(plot.width / 80)))
  const bottom = plot.y + plot.height
  for (const at of times) {
    const x = round(toX(at))
    items.push({ kind: 'line', x1: x, y1: plot.y - 5, x2: x, y2: bottom, stroke: 'grid', dashed: false })
    const text = label(x, plot.y - 9, time.tick(at, step), 10, 'muted', 'number')
    items.push({ ...text, anchor: 'middle' })
  }
  const unit = label(round(plot.x + plot.width + rightWidth), plot.y - 9, time.unit, 10, 'muted', 'number')
  items.push({ ...unit, anchor: 'end' })
  return items
}

/** Share of the whole time in which none of the boxes is. */
function idleShare(boxes: readonly TimelineBox[], end: number): number {
  let busy = 0
  let until = 0
  for (const box of [...boxes].sort((a, b) => a.start - b.start)) {
    busy += Math.max(0, box.end - Math.max(until, box.start))
    until = Math.max(until, box.end)
  }
  return Math.max(0, 1 - busy / end)
}
