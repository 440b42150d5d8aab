import type { Schedule, StageGraph } from './types.ts'

/** One parameter of a generator. A parameter whose default is null may be left unset. */
export type ParameterRule =
  | {
      readonly kind: 'integer'
      readonly summary: string
      readonly minimum: number
      readonly maximum: number
      readonly default: number | null
    }
  | {
      readonly kind: 'choice'
      readonly summary: string
      /** Each value with what it means. */
      readonly choices: Readonly<Record<string, string>>
      readonly default: string | null
    }
  | { readonly kind: 'boolean'; readonly summary: string; readonly default: boolean }

/** Values of all of a generator's parameters, defaults filled in. */
export type ScheduleParameters = Readonly<Record<string, number | string | boolean | null>>

/** Times of one micro-batch, in any one unit, by stage. A whole backward takes I + W. */
export interface StageCosts {
  readonly F: readonly number[]
  readonly I: readonly number[]
  readonly W: readonly number[]
  /** From one actor to another. */
  readonly hop: number
}

/** A chain of `actors` x `chunks` equal stages, `chunks` on each actor: what closed forms speak of. */
export interface ScheduleShape {
  readonly actors: number
  readonly chunks: number
  readonly microbatches: number
}

/** A way to make schedules: one file, and one line in registry.ts. */
export interface ScheduleGenerator {
  readonly name: string
  readonly summary: string
  /** Paper and section. */
  readonly source: string
  readonly parameters: Readonly<Record<string, ParameterRule>>
  /** Actor of each stage of a chain; left out: stage s on actor s. */
  readonly place?: (actors: number, parameters: ScheduleParameters) => readonly number[]
  /** Why this stage graph cannot be scheduled so, if it cannot. */
  readonly refuse?: (graph: StageGraph, parameters: ScheduleParameters) => string | undefined
  /** Costs guide those generators that search; the others do not look at them. */
  readonly generate: (graph: StageGraph, parameters: ScheduleParameters, costs: StageCosts) => Schedule
  /** What is known of chains of equal stages when transfers take no time; undefined where nothing is. */
  readonly closedForms: {
    /** Most activations that `actor` holds at once: one for each micro-batch and stage of it. */
    readonly peakActivations: (
      actor: number,
      shape: ScheduleShape,
      parameters: ScheduleParameters,
    ) => number | undefined
    /** Time of a step, given the times of one stage. */
    readonly makespan: (
      shape: ScheduleShape,
      parameters: ScheduleParameters,
      times: { readonly F: number; readonly I: number; readonly W: number },
    ) => number | undefined
  }
}
