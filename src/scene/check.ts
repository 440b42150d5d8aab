import { internalError } from '../base/index.ts'
import type { Timeline, TimelineBox, TimelineRow } from './timeline.ts'

/**
 * A timeline comes from code of ours: one that is no timeline is our mistake.
 *
 * @throws Error for a time that is negative, infinite, no number, past the end or before its start
 */
export function checkTimeline(timeline: Timeline): void {
  const { end } = timeline
  if (!(Number.isFinite(end) && end >= 0)) throw internalError(`a timeline that ends at ${end}`)
  // Sums in another order round otherwise.
  const latest = end * (1 + 1e-9)
  timeline.rows.forEach((row, at) => {
    checkBoxes(row.boxes, latest, `row ${at}`)
    for (const lane of row.lanes ?? []) checkBoxes(lane.boxes, latest, `row ${at}, lane ${lane.name}`)
    checkMemory(row, latest, `row ${at}`)
  })
}

function checkBoxes(boxes: readonly TimelineBox[], latest: number, place: string): void {
  for (const { start, end, chunk } of boxes) {
    if (!(start >= 0 && end >= start && end <= latest))
      throw internalError(`${place} has a box from ${start} to ${end} on a timeline that ends at ${latest}`)
    if (chunk !== undefined && !(Number.isInteger(chunk) && chunk >= 0))
      throw internalError(`${place} has a box of chunk ${chunk}`)
  }
}

function checkMemory({ memory }: TimelineRow, latest: number, place: string): void {
  if (memory === undefined) return
  const amount = (value: number): boolean => Number.isFinite(value) && value >= 0
  if (
    !(
      amount(memory.capacity ?? 0) &&
      amount(memory.peak.value) &&
      memory.peak.at >= 0 &&
      memory.peak.at <= latest
    )
  )
    throw internalError(
      `${place} has a peak of ${memory.peak.value} of ${memory.capacity} at ${memory.peak.at}`,
    )
  let before = 0
  for (const { time, value } of memory.points) {
    if (!(time >= before && time <= latest && amount(value)))
      throw internalError(`${place} has memory ${value} at ${time} after ${before}`)
    before = time
  }
}
