import type { Stream } from '../program/index.ts'

/** What every rank did when: measured by an engine or predicted by a simulation, of one step or several. */
export interface Trace {
  readonly ranks: number
  readonly streams: readonly Stream[]
  readonly events: readonly TraceEvent[]
}

export type TraceKind = 'run' | 'exchange' | 'collective' | 'move'

/** One timed instruction. Times are seconds from one origin for all ranks. */
export interface TraceEvent {
  readonly rank: number
  /** Index into `Trace.streams`. */
  readonly stream: number
  readonly kind: TraceKind
  readonly name: string
  /** What the schedule calls it: `F`, `B`, … */
  readonly phase?: string
  readonly stage?: number
  readonly microbatch?: number
  /** Part of the micro-batch's sequence. */
  readonly slice?: number
  readonly start: number
  readonly end: number
  /** Seconds from `start` in which another rank was not ready for it; never more than the event takes. */
  readonly wait?: number
  readonly bytes?: number
  /** Index in the list of the rank's role. */
  readonly instruction?: number
  /** Transfers of an exchange, or the collective: equal on all ranks that take part. */
  readonly ids?: readonly number[]
}

/** When the last event ends. */
export function traceSeconds(trace: Trace): number {
  let last = 0
  for (const { end } of trace.events) last = Math.max(last, end)
  return last
}
