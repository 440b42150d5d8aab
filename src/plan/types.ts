import type { FloatDType } from '../graph/index.ts'
import type { GivenCosts, ScheduleParameters } from '../schedule/index.ts'
import type { PlanLayout } from './layoutSection.ts'
import type { PlanRecompute } from './recompute.ts'
import type { PlanZero } from './zero.ts'

/**
 * Everything that a person decides about a training run and nothing that follows from it, defaults filled in. `null`
 * stands for "not set". Sizes are bytes.
 */
export interface PlanDocument {
  readonly meshwright: 1
  /** Null where the command line names the model. */
  readonly model: PlanModel | null
  readonly data: PlanData
  readonly mesh: PlanMesh
  readonly layout: PlanLayout
  /** Layers of each stage; null: cut by modelled cost. */
  readonly stages: readonly number[] | null
  readonly schedule: PlanSchedule
  readonly batch: PlanBatch
  /** Tokens of a sample; null: the model's context. */
  readonly sequence: number | null
  readonly dtype: FloatDType
  readonly zero: PlanZero
  readonly recompute: PlanRecompute
  readonly optimizer: PlanOptimizer
  readonly learningRate: PlanLearningRate
  /** Largest norm of all gradients together; null: no clipping. */
  readonly clip: number | null
  readonly reduction: {
    /** Gradients are reduced over `data` in pieces of about this size. */
    readonly bucketBytes: number
  }
  readonly memory: {
    /** What a rank may use at most; null: no budget. */
    readonly deviceBytes: number | null
  }
  readonly seed: number
}

/** By short name (`gpt:layers=4`) or by a Hugging Face `config.json`. Files are relative to the plan's folder. */
export type PlanModel = ({ readonly name: string } | { readonly config: string }) & {
  /** A `.safetensors` file or an index of several; null: initial values from the seed. */
  readonly weights: string | null
}

export interface PlanData {
  readonly file: string | null
  /** A Hugging Face `tokenizer.json`; null: bytes. */
  readonly tokenizer: string | null
}

export interface PlanMesh {
  /** Actors: a schedule places one stage or several on each. */
  readonly pipeline: number
  /** Replicas: of every actor, or of each. */
  readonly data: number | readonly number[]
  /** Ranks that share the tokens of a sample. */
  readonly context: number
  /** Ranks that share every layer. */
  readonly tensor: PlanTensor
  /** Ranks that share the experts, and ranks that share each of them: the same ranks factored anew, for experts. */
  readonly expert: number
  readonly expertTensor: number
}

/** In a row, on a square or in a cube. */
export type PlanTensor =
  | number
  | { readonly row: number; readonly column: number }
  | { readonly x: number; readonly y: number; readonly z: number }

/** By the name of a generator, with all its parameters, or in full, in the text form of schedules or in a file. */
export type PlanSchedule =
  | {
      readonly name: string
      readonly parameters: ScheduleParameters
      /** For generators that search; null: every F, I and W takes one unit, a hop nothing. */
      readonly costs: GivenCosts | null
    }
  | { readonly text: string }
  /** Relative to the plan's folder. Whoever reads files puts what is in it in its place (`withScheduleText`). */
  | { readonly file: string }

export interface PlanBatch {
  /** Samples of one step, over all ranks. */
  readonly samples: number
  readonly microbatches: number
}

export interface PlanOptimizer {
  readonly name: string
  readonly settings: Readonly<Record<string, number | boolean>>
}

/** `totalSteps` null: the steps of the run. */
export interface PlanLearningRate {
  readonly kind: string
  readonly settings: Readonly<Record<string, number | boolean | null>>
}
