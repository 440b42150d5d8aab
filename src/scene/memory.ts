import { label, round } from './boxes.ts'
import type { Layout } from './layout.ts'
import { peakMark } from './legend.ts'
import { formatMemory, formatNumber, type TimeFormat } from './numbers.ts'
import type { TimelineMemory, TimelineRow } from './timeline.ts'
import type { SceneItem } from './types.ts'

/** Corners of all memory strips together. */
const mostCorners = 60_000

/** A strip under each row that has one, on the axis of time, with its peak and its capacity. */
export function drawMemories(
  rows: readonly TimelineRow[],
  layout: Layout,
  time: TimeFormat,
  toX: (time: number) => number,
): SceneItem[] {
  const { plot, density } = layout
  const memories = rows.flatMap(({ memory }) => (memory === undefined ? [] : [memory]))
  const columns = Math.floor(Math.min(plot.width, mostCorners / 4 / Math.max(1, memories.length)))
  // Bytes and activations are not measured against each other.
  const topOf = (unit: TimelineMemory['unit']): number =>
    memoryTop(memories.filter((one) => one.unit === unit))
  const tops = { bytes: topOf('bytes'), activations: topOf('activations') }
  return rows.flatMap(({ label: name, memory }, index): SceneItem[] => {
    const y = layout.rows[index]!.memory
    if (memory === undefined || y === undefined) return []
    const top = tops[memory.unit]
    const floor = y + density.memory
    const area = { left: plot.x, right: plot.x + plot.width, height: density.memory - 2 }
    const edge = memoryEdge(memory, area, { toX, top }, columns)
    const items: SceneItem[] = []
    if (edge.length > 0)
      items.push({
        kind: 'area',
        points: edge.map(([x, height]) => [round(x), round(floor - height)] as const),
        base: floor,
        fill: 'memory',
        stroke: 'memory-edge',
        tooltip: `${name}, memory: ${peakText(memory)} at ${time.exact(memory.peak.at)}`,
      })
    if (memory.capacity !== undefined && top > 0) {
      const line = round(floor - (memory.capacity / top) * area.height)
      items.push({
        kind: 'line',
        x1: plot.x,
        y1: line,
        x2: round(area.right),
        y2: line,
        stroke: 'capacity',
        dashed: true,
      })
    }
    if (memory.peak.value > 0) items.push(peakMark(round(toX(memory.peak.at)), y, floor))
    const size = density.smallSize
    const middle = round(y + density.memory / 2 + 0.36 * size)
    return [...items, label(round(area.right + 8), middle, peakText(memory), size, 'muted', 'number')]
  })
}

function peakText({ peak, capacity, unit }: TimelineMemory): string {
  const most = formatMemory(peak.value, unit)
  if (capacity === undefined || capacity === 0) return `peak ${most}`
  return `${most} ${formatNumber((100 * peak.value) / capacity, 0)}%`
}

/**
 * The upper edge of a memory strip: corners of its step function, left to right, at most about two for each of `columns`
 * columns of pixels, of each of which it keeps the most. Heights are in pixels above the strip's floor.
 */
function memoryEdge(
  memory: TimelineMemory,
  area: { readonly left: number; readonly right: number; readonly height: number },
  scale: { readonly toX: (time: number) => number; readonly top: number },
  columns: number,
): readonly (readonly [number, number])[] {
  const toHeight = (value: number): number => (scale.top > 0 ? (value / scale.top) * area.height : 0)
  const width = (area.right - area.left) / Math.max(1, columns)
  const corners: (readonly [number, number])[] = []
  let level = 0
  let index = 0
  const { points } = memory
  while (index < points.length) {
    const x = scale.toX(points[index]!.time)
    // All points of one column of pixels: the most of them, then the last of them.
    let most = points[index]!.value
    let last = most
    let next = index + 1
    while (next < points.length && scale.toX(points[next]!.time) < x + width) {
      last = points[next]!.value
      most = Math.max(most, last)
      next++
    }
    corners.push([x, toHeight(level)], [x, toHeight(most)])
    if (last < most) {
      const after = Math.min(area.right, scale.toX(points[next - 1]!.time))
      corners.push([after, toHeight(most)], [after, toHeight(last)])
    }
    level = last
    index = next
  }
  if (corners.length > 0) corners.push([area.right, toHeight(level)])
  return corners
}

/** What the strips of a timeline are drawn against: the most that any row holds or may hold. */
function memoryTop(memories: readonly TimelineMemory[]): number {
  return memories.reduce((most, { peak, capacity, points }) => {
    const highest = points.reduce((top, { value }) => Math.max(top, value), peak.value)
    return Math.max(most, highest, capacity ?? 0)
  }, 0)
}
