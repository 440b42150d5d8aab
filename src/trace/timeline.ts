import { internalError } from '../base/index.ts'
import type { Interval } from './intervals.ts'
import { busyIntervals, eventsByRank, isCompute } from './shares.ts'
import { type Trace, type TraceEvent, traceSeconds } from './types.ts'

export interface TimelineOptions {
  /** Columns of the whole drawing. */
  readonly width: number
  /**
   * Colours a piece of a row: by the phase of a run, by the name of one without a phase, or as `transfer` or `wait`.
   * What comes back must take as many columns.
   */
  readonly paint?: (phase: string, text: string) => string
  /** Name of a row; `rank 0` and so on if not given. */
  readonly rowName?: (rank: number) => string
  /** How the end of the scale is written; as `formatSeconds` if not given. */
  readonly formatTime?: (time: number) => string
}

const minimumCells = 10

/**
 * A trace as lines of text: the scale, then a row for each rank. A cell shows what took most of its time: a run (its
 * phase and micro-batch where they fit, then dashes), `.` for a transfer that nothing computed beside, blank for waiting.
 * Runs of one action next to each other are drawn as one.
 */
export function drawTimeline(trace: Trace, options: TimelineOptions): string[] {
  const paint = options.paint ?? ((_phase: string, text: string): string => text)
  const { rowName = (rank: number): string => `rank ${rank}`, formatTime = formatSeconds } = options
  const labels = Array.from({ length: trace.ranks }, (_, rank) => `${rowName(rank)}  `)
  const margin = Math.max('time  '.length, ...labels.map((label) => label.length))
  const cells = Math.max(minimumCells, Math.floor(options.width) - margin)
  const total = traceSeconds(trace)
  const rows = eventsByRank(trace).map((events, rank) => {
    const row = total > 0 ? drawRow(trace, events, total / cells, cells, paint) : ''
    return `${labels[rank]!.padEnd(margin)}${row}`
  })
  return [`${'time'.padEnd(margin)}0${formatTime(total).padStart(cells - 1)}`, ...rows]
}

type Cell = TraceEvent | 'transfer' | 'wait'

function drawRow(
  trace: Trace,
  events: readonly TraceEvent[],
  cellSeconds: number,
  cells: number,
  paint: (phase: string, text: string) => string,
): string {
  const runs = events.filter((event) => isCompute(trace, event))
  const { compute, transfer } = busyIntervals(trace, events)
  const computing = spread(compute, cellSeconds, cells)
  const transferring = spread(transfer, cellSeconds, cells)
  const largest = largestRuns(runs, cellSeconds, cells)
  const row = Array.from({ length: cells }, (_, cell): Cell => {
    const busy = computing[cell]!
    const moving = transferring[cell]!
    const idle = cellSeconds - busy - moving
    if (busy >= moving && busy >= idle) return largest[cell] ?? 'wait'
    return moving >= idle ? 'transfer' : 'wait'
  })
  let text = ''
  for (let start = 0; start < cells; ) {
    let end = start + 1
    while (end < cells && isOneAction(row[end]!, row[start]!)) end++
    text += drawSpan(row[start]!, end - start, paint)
    start = end
  }
  return text
}

/** Whether two cells show the same, or pieces of the same action. */
function isOneAction(a: Cell, b: Cell): boolean {
  if (a === b) return true
  if (typeof a === 'string' || typeof b === 'string' || a.phase === undefined) return false
  return a.phase === b.phase && a.stage === b.stage && a.microbatch === b.microbatch && a.slice === b.slice
}

function drawSpan(cell: Cell, width: number, paint: (phase: string, text: string) => string): string {
  if (cell === 'wait') return paint(cell, ' '.repeat(width))
  if (cell === 'transfer') return paint(cell, '.'.repeat(width))
  const key = cell.phase ?? cell.name
  const full = cell.phase === undefined || cell.microbatch === undefined ? key : `${key}${cell.microbatch}`
  // A micro-batch is shown whole or not at all: part of 12 would be another.
  const label = full.length <= width ? full : key.slice(0, width)
  return paint(key, label.padEnd(width, '-'))
}

/** Seconds of each cell that the intervals cover. */
function spread(intervals: readonly Interval[], cellSeconds: number, cells: number): Float64Array {
  const covered = new Float64Array(cells)
  for (const interval of intervals)
    eachCell(interval, cellSeconds, cells, (cell, seconds) => {
      covered[cell]! += seconds
    })
  return covered
}

/** The run that takes most of each cell. */
function largestRuns(
  runs: readonly TraceEvent[],
  cellSeconds: number,
  cells: number,
): (TraceEvent | undefined)[] {
  const most = new Float64Array(cells)
  const largest = new Array<TraceEvent | undefined>(cells)
  for (const run of runs)
    eachCell(run, cellSeconds, cells, (cell, seconds) => {
      if (seconds <= most[cell]!) return
      most[cell] = seconds
      largest[cell] = run
    })
  return largest
}

function eachCell(
  { start, end }: Interval,
  cellSeconds: number,
  cells: number,
  visit: (cell: number, seconds: number) => void,
): void {
  const first = Math.floor(start / cellSeconds)
  for (let cell = first; cell < cells && cell * cellSeconds < end; cell++) {
    const from = Math.max(start, cell * cellSeconds)
    // The last cell ends with the trace, wherever rounding puts that.
    const to = cell === cells - 1 ? end : Math.min(end, (cell + 1) * cellSeconds)
    if (to > from) visit(cell, to - from)
  }
}

/** `12.5 ms`, with so many digits that count. */
export function formatSeconds(seconds: number, digits = 3): string {
  if (!Number.isFinite(seconds) || seconds < 0) throw internalError(`a time of ${seconds} s`)
  const units = [
    { unit: 's', scale: 1 },
    { unit: 'ms', scale: 1e3 },
    { unit: 'µs', scale: 1e6 },
  ]
  const rounded = (scale: number): number => Number((seconds * scale).toPrecision(digits))
  const { unit, scale } =
    units.find((candidate) => rounded(candidate.scale) >= 1) ?? (seconds === 0 ? units[0]! : units.at(-1)!)
  return `${rounded(scale)} ${unit}`
}
