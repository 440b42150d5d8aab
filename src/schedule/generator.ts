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

/** Values of all of a generator's parameters, defaults filled in. */
export type ScheduleParameters = Readonly<Record<string, number | string | null>>

/** A chain of equal stages, each on an actor of its own: what closed forms speak of. */
export interface ChainShape {
  readonly stages: number
  readonly microbatches: number
}

/** A way to make schedules: one file, and one line in registry.ts. */
export interface ScheduleGenerator {
  readonly name: string
  readonly summary: string
  /** Paper and section. */
  readonly source: string
  readonly parameters: Readonly<Record<string, ParameterRule>>
  /** Why this stage graph cannot be scheduled so, if it cannot. */
  readonly refuse?: (graph: StageGraph, parameters: ScheduleParameters) => string | undefined
  readonly generate: (graph: StageGraph, parameters: ScheduleParameters) => Schedule
  readonly closedForms: {
    /** Most micro-batches whose activations `stage` holds at once. */
    readonly peakInFlight: (stage: number, shape: ChainShape, parameters: ScheduleParameters) => number
    /** Time of a step when transfers take none, F and B being the times of one stage; undefined where none is known. */
    readonly makespan: (
      shape: ChainShape,
      parameters: ScheduleParameters,
      latencies: { readonly F: number; readonly B: number },
    ) => number | undefined
  }
}
