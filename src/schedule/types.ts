/** Schedules as data: for every actor the ordered list of actions. An actor is one coordinate of the pipeline axis. */

/** Letter of a registered phase (see phases.ts): `F`, `B`, `I`, `W`, … */
export type Phase = string

export interface Action {
  readonly phase: Phase
  readonly stage: number
  readonly microbatch: number
  /** Part of a micro-batch's sequence, for schedules that slice it. */
  readonly slice?: number
  /** Group of micro-batches that share a gathered parameter window. */
  readonly unit?: number
}

/** Two actions that may interleave, as `(0F7;7B3)`. */
export interface ActionPair {
  readonly pair: readonly [Action, Action]
}

export type ScheduleEntry = Action | ActionPair

/** What a generator is told: stages as nodes, data flow as edges. A chain is one case. */
export interface StageGraph {
  readonly stages: number
  /** Forward data flow, [from, to]. */
  readonly edges: readonly (readonly [number, number])[]
  /** Actor of each stage. */
  readonly placement: readonly number[]
  readonly microbatches: number
}

export interface Schedule {
  readonly stages: number
  readonly microbatches: number
  /** Actor of each stage. */
  readonly placement: readonly number[]
  /** One list for each actor. */
  readonly actors: readonly (readonly ScheduleEntry[])[]
}
