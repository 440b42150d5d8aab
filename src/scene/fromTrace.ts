import { internalError } from '../base/index.ts'
import { type Trace, type TraceEvent, traceSeconds } from '../trace/index.ts'
import type { Timeline, TimelineBox, TimelineMemory, TimelineRow, TimeUnit } from './timeline.ts'

export interface TraceTimelineOptions {
  readonly title: string
  /** Of its times: seconds if not given. */
  readonly unit?: TimeUnit
  readonly notes?: readonly string[]
  /** Name of a row; `rank 0` and so on if not given. */
  readonly rowLabel?: (rank: number) => string
  /** Of each rank, where it is known. */
  readonly memory?: readonly (TimelineMemory | undefined)[]
}

/**
 * A trace over time, measured or predicted: a row for each rank with what ran on its compute streams, a lane for each
 * other stream that any rank uses. Time in which another rank was not ready is set off as `wait`.
 */
export function timelineOfTrace(trace: Trace, options: TraceTimelineOptions): Timeline {
  const lanes = trace.streams.map((): boolean => false)
  const events = Array.from({ length: trace.ranks }, (): TraceEvent[] => [])
  for (const event of trace.events) {
    const rank = events[event.rank]
    const stream = trace.streams[event.stream]
    if (rank === undefined || stream === undefined)
      throw internalError(`an event on rank ${event.rank}, stream ${event.stream}`)
    rank.push(event)
    if (stream.resource !== 'compute') lanes[event.stream] = true
  }
  const rows = events.map((list, rank): TimelineRow => {
    const compute: TimelineBox[] = []
    const other = trace.streams.map((): TimelineBox[] => [])
    const chunks = chunksOf(list)
    for (const event of list) {
      const target = trace.streams[event.stream]!.resource === 'compute' ? compute : other[event.stream]!
      target.push(...boxesOf(event, chunks))
    }
    const memory = options.memory?.[rank]
    return {
      label: options.rowLabel?.(rank) ?? `rank ${rank}`,
      boxes: compute,
      lanes: trace.streams.flatMap(({ name }, stream) =>
        lanes[stream] === true ? [{ name, boxes: other[stream]! }] : [],
      ),
      ...(memory === undefined ? {} : { memory }),
    }
  })
  const { title, notes, unit = 'seconds' } = options
  return { title, unit, rows, end: traceSeconds(trace), ...(notes === undefined ? {} : { notes }) }
}

/** Place of each stage among those that the rank works on. */
function chunksOf(events: readonly TraceEvent[]): ReadonlyMap<number, number> {
  const stages = new Set(events.flatMap(({ stage }) => (stage === undefined ? [] : [stage])))
  return new Map([...stages].sort((a, b) => a - b).map((stage, chunk) => [stage, chunk]))
}

function boxesOf(event: TraceEvent, chunks: ReadonlyMap<number, number>): TimelineBox[] {
  const { start, end, stage, microbatch, slice, bytes, name } = event
  const chunk = stage === undefined ? undefined : chunks.get(stage)
  const box: TimelineBox = {
    start: Math.min(end, start + (event.wait ?? 0)),
    end,
    phase: phaseOf(event),
    label: name,
    ...(stage === undefined ? {} : { stage }),
    ...(chunk === undefined ? {} : { chunk }),
    ...(microbatch === undefined ? {} : { microbatch }),
    ...(slice === undefined ? {} : { part: slice }),
    ...(bytes === undefined ? {} : { bytes }),
  }
  return box.start > start ? [{ start, end: box.start, phase: 'wait', label: name }, box] : [box]
}

function phaseOf({ kind, phase, name }: TraceEvent): string {
  switch (kind) {
    case 'run':
      return phase ?? name
    case 'exchange':
      return 'transfer'
    case 'move':
      return 'move'
    case 'collective':
      return /^(all-)?gather|^broadcast/.test(name) ? 'gather' : 'reduce'
  }
}
