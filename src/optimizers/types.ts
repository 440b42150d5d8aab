import type { FloatDType, Graph } from '../graph/index.ts'

/** A buffer that an optimizer keeps beside each parameter, of the parameter's size, zero before the first step. */
export interface OptimizerState {
  /** Name of its input and output in the graph. */
  readonly name: string
  /** Name of the tensor in a checkpoint, e.g. `adam.m.transformer.wte.weight`. */
  readonly checkpointName: (parameter: string) => string
}

export interface OptimizerBuildOptions {
  /** Elements of the flat region that is updated. */
  readonly elements: number
  readonly dtype: FloatDType
  /** Whether weight decay applies to the region (see `ParameterSpec.decay`). */
  readonly decay: boolean
}

export type OptimizerSettings = Readonly<Record<string, number | boolean>>

export interface Optimizer {
  readonly name: string
  readonly settings: OptimizerSettings
  readonly states: readonly OptimizerState[]
  /** Scalar inputs of the graph: `learningRate`, `clipFactor`, then those of `optimizerScalars`. */
  readonly scalars: readonly string[]
  /**
   * One update of a flat region of n elements, made of elementwise ops alone. Inputs: `w` (parameter), `g`
   * (cotangent), the states, each [n], and the scalars, each []. Outputs: the new `w` and states, by the same names.
   */
  readonly build: (options: OptimizerBuildOptions) => Graph
  /** Scalars that depend on the step alone. Steps count from 1: the first update is step 1. */
  readonly optimizerScalars: (step: number) => Readonly<Record<string, number>>
}
