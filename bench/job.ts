import type { Case } from './types.ts'

/** What both sides of a case are told, as a JSON file. */
export interface Job {
  readonly mode: 'single' | 'data' | 'pipeline' | 'tensor'
  /** The plan document; PyTorch takes the rest instead. */
  readonly plan: string
  readonly model: {
    readonly layers: number
    readonly hidden: number
    readonly heads: number
    readonly kvHeads: number
    readonly mlp: number
    readonly vocab: number
    readonly context: number
    readonly epsilon: number
    readonly ropeTheta: number
  }
  readonly samples: number
  readonly sequence: number
  readonly microbatches: number
  readonly sequenceParallel: boolean
  readonly optimizer: Readonly<Record<string, number>>
  /** safetensors file of the initial weights: our side writes it. */
  readonly weights: string
  /** Batches one after another, each i32 tokens [samples, sequence] and labels of the same shape. */
  readonly batches: string
  /** Layers of each stage: our side finds them. */
  readonly stages?: readonly number[]
}

/** What our side says first; with no job, only the version. */
export interface OursHello {
  readonly onnxRuntime: string
  readonly stages: readonly number[]
  readonly parameters: number
}

export const modes: Readonly<Record<Case['part'], Job['mode']>> = {
  a: 'single',
  b: 'data',
  c: 'pipeline',
  d: 'tensor',
}
