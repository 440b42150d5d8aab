import type { Trace, TraceEvent } from './types.ts'

export const chromeFormat = 'meshwright-trace'
export const chromeVersion = 1

/**
 * A trace as Chrome trace event JSON (the "JSON object format"), for Perfetto or chrome://tracing: a process for each
 * rank, a thread for each stream, a complete event for each instruction, times in microseconds to three decimals. One
 * event a line. Events of a stream that overlap (several messages under way) go to further threads of it, as viewers
 * want the events of a thread nested.
 */
export function writeChromeTrace(trace: Trace): string {
  const streams = trace.streams.map(({ name, resource }) => ({ name, resource }))
  const head = { format: chromeFormat, version: chromeVersion, ranks: trace.ranks, streams }
  const lanes = assignLanes(trace)
  const lines: string[] = []
  for (const rank of [...new Set(trace.events.map((event) => event.rank))].sort((a, b) => a - b)) {
    lines.push(metadata('process_name', rank, 0, { name: `rank ${rank}` }))
    lines.push(metadata('process_sort_index', rank, 0, { sort_index: rank }))
  }
  const threads = new Map<string, { readonly rank: number; readonly stream: number; readonly lane: number }>()
  trace.events.forEach(({ rank, stream }, index) => {
    threads.set(`${rank} ${stream} ${lanes[index]}`, { rank, stream, lane: lanes[index]! })
  })
  for (const { rank, stream, lane } of threads.values()) {
    const name = trace.streams[stream]!.name
    const thread = stream + lane * trace.streams.length
    lines.push(metadata('thread_name', rank, thread, { name: lane === 0 ? name : `${name} ${lane + 1}` }))
    lines.push(metadata('thread_sort_index', rank, thread, { sort_index: stream * 1000 + lane }))
  }
  trace.events.forEach((event, index) => {
    lines.push(eventLine(event, event.stream + lanes[index]! * trace.streams.length))
  })
  return `{"displayTimeUnit":"ms","otherData":${JSON.stringify(head)},"traceEvents":[\n${lines.join(',\n')}\n]}\n`
}

function metadata(name: string, rank: number, thread: number, args: object): string {
  return JSON.stringify({ name, ph: 'M', pid: rank, tid: thread, args })
}

function eventLine(event: TraceEvent, thread: number): string {
  const start = nanoseconds(event.start)
  return JSON.stringify({
    name: event.name,
    cat: event.kind,
    ph: 'X',
    pid: event.rank,
    tid: thread,
    ts: start / 1000,
    dur: (nanoseconds(event.end) - start) / 1000,
    args: {
      phase: event.phase,
      stage: event.stage,
      microbatch: event.microbatch,
      slice: event.slice,
      bytes: event.bytes,
      wait: event.wait === undefined ? undefined : nanoseconds(event.wait) / 1000,
      instruction: event.instruction,
      ids: event.ids,
    },
  })
}

function nanoseconds(seconds: number): number {
  return Math.round(seconds * 1e9)
}

/** For each event the lowest lane of its rank and stream that is free when it starts. */
function assignLanes(trace: Trace): number[] {
  const order = trace.events.map((_, index) => index)
  order.sort((a, b) => trace.events[a]!.start - trace.events[b]!.start || a - b)
  const busyUntil = new Map<string, number[]>()
  const lanes = new Array<number>(order.length).fill(0)
  for (const index of order) {
    const { rank, stream, start, end } = trace.events[index]!
    const key = `${rank} ${stream}`
    const ends = busyUntil.get(key) ?? []
    busyUntil.set(key, ends)
    let lane = ends.findIndex((until) => until <= nanoseconds(start))
    if (lane < 0) lane = ends.length
    ends[lane] = nanoseconds(end)
    lanes[index] = lane
  }
  return lanes
}
