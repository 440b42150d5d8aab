import { phases, type Schedule, type ScheduleTiming, type TimedEntry } from '../schedule/index.ts'
import type { Timeline, TimelineBox, TimelineMemory, TimelineRow, TimeUnit } from './timeline.ts'

export interface TimingTimelineOptions {
  readonly title: string
  /** Of the latencies that the schedule was timed with. */
  readonly unit: TimeUnit
  readonly notes?: readonly string[]
  /** Name of a row; `rank 0` and so on if not given. */
  readonly rowLabel?: (actor: number) => string
}

/**
 * A schedule over time: a row for each actor, and under it the micro-batches whose activations it holds, counted once
 * for each of its chunks. Both actions of a pair last as long as the pair.
 */
export function timelineOfTiming(
  schedule: Schedule,
  timing: ScheduleTiming,
  options: TimingTimelineOptions,
): Timeline {
  const chunks = chunksOf(schedule)
  const boxes = schedule.actors.map((): TimelineBox[] => [])
  const entries = schedule.actors.map((): TimedEntry[] => [])
  for (const entry of timing.entries) {
    const { actor, actions, start, end } = entry
    entries[actor]!.push(entry)
    for (const { phase, stage, microbatch, slice } of actions) {
      // What is done once a step has no micro-batch.
      const one = phases.get(phase)?.per === 'step' ? {} : { microbatch }
      const part = slice === undefined ? {} : { part: slice }
      boxes[actor]!.push({ start, end, phase, stage, chunk: chunks[stage]!, ...one, ...part })
    }
  }
  const rows = boxes.map(
    (list, actor): TimelineRow => ({
      label: options.rowLabel?.(actor) ?? `rank ${actor}`,
      boxes: list,
      memory: activationsOf(entries[actor]!),
    }),
  )
  const { title, unit, notes } = options
  return { title, unit, rows, end: timing.makespan, ...(notes === undefined ? {} : { notes }) }
}

/** Place of each stage among those of its actor, in the order of the data flow. */
function chunksOf(schedule: Schedule): number[] {
  const seen = schedule.actors.map(() => 0)
  return schedule.placement.map((actor) => seen[actor]!++)
}

/** An entry takes what it takes at its start and releases at its end. */
function activationsOf(entries: readonly TimedEntry[]): TimelineMemory {
  const points: { time: number; value: number }[] = [{ time: 0, value: 0 }]
  let value = 0
  let peak = { value: 0, at: 0 }
  const change = (time: number, by: number): void => {
    if (by === 0) return
    value += by
    points.push({ time, value })
    if (value > peak.value) peak = { value, at: time }
  }
  for (const { actions, start, end } of [...entries].sort((a, b) => a.index - b.index)) {
    const changes = actions.map(({ phase }) => phases.get(phase)?.activations ?? 0)
    change(start, changes.filter((by) => by > 0).length)
    change(end, -changes.filter((by) => by < 0).length)
  }
  return { unit: 'activations', peak, points }
}
