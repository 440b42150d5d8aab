/** What is drawn: boxes on rows over time, from a schedule's timing, a simulation or a measured trace alike. */

/** Times are seconds, or units of a schedule's latencies. */
export type TimeUnit = 'seconds' | 'units'

export interface Timeline {
  readonly title: string
  readonly unit: TimeUnit
  readonly rows: readonly TimelineRow[]
  /** Where the time axis ends; nothing ends later. */
  readonly end: number
  /** Sentences under the drawing: the bubble, a closed form, what is not modelled. */
  readonly notes?: readonly string[]
}

/** One rank or actor. */
export interface TimelineRow {
  readonly label: string
  /** In any order. Boxes that overlap (the two actions of a pair) share the height of the row. */
  readonly boxes: readonly TimelineBox[]
  /** Communication, as thin lanes under the row. */
  readonly lanes?: readonly TimelineLane[]
  readonly memory?: TimelineMemory
}

export interface TimelineLane {
  readonly name: string
  readonly boxes: readonly TimelineBox[]
}

export interface TimelineBox {
  readonly start: number
  readonly end: number
  /** Letter of a phase of the schedule, or one of `transfer`, `move`, `gather`, `reduce`, `wait`. */
  readonly phase: string
  readonly stage?: number
  /** Place of the stage among those of its actor, from 0. Later ones have lighter tones. */
  readonly chunk?: number
  readonly microbatch?: number
  /** Part of a micro-batch's sequence. */
  readonly part?: number
  readonly bytes?: number
  /** What it is called, for the tooltip; also in the box where there is no micro-batch and it fits. */
  readonly label?: string
}

export interface TimelineMemory {
  readonly unit: 'bytes' | 'activations'
  readonly capacity?: number
  readonly peak: { readonly value: number; readonly at: number }
  /** A step function: `value` from `time` on. Times never fall. */
  readonly points: readonly { readonly time: number; readonly value: number }[]
}
