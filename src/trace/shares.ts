import { type Interval, subtract, totalSeconds, union } from './intervals.ts'
import { type Trace, type TraceEvent, traceSeconds } from './types.ts'

/** Seconds of one rank, which add up to `total`: the end of the whole trace. */
export interface TimeShare {
  readonly rank: number
  /** Something ran on a compute stream. */
  readonly compute: number
  /** Nothing computed, and something was under way on the network or between host and device. */
  readonly transfer: number
  /** Neither: for other ranks, or for the end. */
  readonly wait: number
  readonly total: number
}

export function timeShares(trace: Trace): TimeShare[] {
  const total = traceSeconds(trace)
  return eventsByRank(trace).map((events, rank) => {
    const { compute, transfer } = busyIntervals(trace, events)
    const shares = { compute: totalSeconds(compute), transfer: totalSeconds(transfer) }
    return { rank, ...shares, wait: Math.max(0, total - shares.compute - shares.transfer), total }
  })
}

export function eventsByRank(trace: Trace): TraceEvent[][] {
  const ranks: TraceEvent[][] = Array.from({ length: trace.ranks }, () => [])
  for (const event of trace.events) ranks[event.rank]!.push(event)
  return ranks
}

export function isCompute(trace: Trace, event: TraceEvent): boolean {
  return trace.streams[event.stream]?.resource === 'compute'
}

/** When one rank computed, and when it only transferred; disjoint, in order. */
export function busyIntervals(
  trace: Trace,
  events: readonly TraceEvent[],
): { readonly compute: Interval[]; readonly transfer: Interval[] } {
  const compute = union(events.filter((event) => isCompute(trace, event)))
  const others = events.filter((event) => !isCompute(trace, event))
  const active = union(others.map(({ start, end, wait }) => ({ start: start + (wait ?? 0), end })))
  return { compute, transfer: subtract(active, compute) }
}
