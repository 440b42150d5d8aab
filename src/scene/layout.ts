import type { Timeline, TimelineRow } from './timeline.ts'
import type { Area } from './types.ts'
import { textWidth } from './words.ts'

/** Heights and sizes of text, in pixels. More rows are drawn smaller. */
export interface Density {
  readonly row: number
  readonly lane: number
  readonly memory: number
  readonly gap: number
  readonly labelSize: number
  readonly boxSize: number
  readonly smallSize: number
}

export const margin = 16
const labelGap = 10
const mostLabel = 180
/** Right of the plot: shares of idle time, peaks of memory. */
export const rightWidth = 92
const between = 2

export interface RowPlace {
  readonly y: number
  readonly lanes: readonly number[]
  readonly memory: number | undefined
  readonly bottom: number
}

export interface Layout {
  readonly plot: Area
  readonly density: Density
  readonly rows: readonly RowPlace[]
}

export function densityOf(rows: number): Density {
  if (rows <= 32) return { row: 24, lane: 11, memory: 22, gap: 10, labelSize: 12, boxSize: 11, smallSize: 9 }
  if (rows <= 96) return { row: 16, lane: 8, memory: 14, gap: 6, labelSize: 11, boxSize: 9, smallSize: 8 }
  return { row: 9, lane: 4, memory: 8, gap: 3, labelSize: 8, boxSize: 8, smallSize: 7 }
}

/** Places rows one under the other from `y` on. `rows` are those drawn, with the lanes that are drawn. */
export function placeRows(
  rows: readonly TimelineRow[],
  names: { readonly width: number; readonly y: number },
): Layout {
  const density = densityOf(rows.length)
  const labels = rows.reduce((most, row) => {
    const small = [...(row.lanes ?? []).map(({ name }) => name), row.memory === undefined ? '' : 'memory']
    const widest = small.reduce(
      (width, name) => Math.max(width, textWidth(name, density.smallSize, 'text')),
      0,
    )
    return Math.max(most, widest, textWidth(row.label, density.labelSize, 'text'))
  }, 24)
  const x = margin + Math.min(mostLabel, Math.ceil(labels)) + labelGap
  let y = names.y
  const places = rows.map((row): RowPlace => {
    const top = y
    y += density.row
    const lanes = (row.lanes ?? []).map(() => {
      y += between
      const lane = y
      y += density.lane
      return lane
    })
    let memory: number | undefined
    if (row.memory !== undefined) {
      y += between
      memory = y
      y += density.memory
    }
    const bottom = y
    y += density.gap
    return { y: top, lanes, memory, bottom }
  })
  const height = (places.at(-1)?.bottom ?? names.y) - names.y
  const width = names.width - x - rightWidth - margin
  return { plot: { x, y: names.y, width, height }, density, rows: places }
}

/** The parts of a timeline that are drawn: so many rows and lanes, with names of bounded length. */
export function drawnRows(timeline: Timeline, mostRows: number, mostLanes: number): readonly TimelineRow[] {
  return timeline.rows
    .slice(0, mostRows)
    .map((row) => (row.lanes === undefined ? row : { ...row, lanes: row.lanes.slice(0, mostLanes) }))
}
