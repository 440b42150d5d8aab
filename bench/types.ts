import type { Machine } from '../src/cli/machine.ts'

/**
 * Which comparison: one rank, data 2 (DistributedDataParallel), pipeline 2 (1F1B), layers cut over the ranks
 * (parallelize_module).
 */
export const parts = ['a', 'b', 'c', 'd'] as const
export type Part = (typeof parts)[number]

/** Forms of AdamW on PyTorch's side. */
export const variants = ['default', 'fused'] as const
export type Variant = (typeof variants)[number]

/** What is trained: `layers` blocks on random tokens, `samples` sequences a step over all ranks. */
export interface Shape {
  readonly family: 'gpt' | 'llama'
  readonly layers: number
  readonly hidden: number
  readonly heads: number
  /** Heads of keys and values; those of queries in a GPT-2. */
  readonly kvHeads: number
  readonly mlp: number
  readonly vocab: number
  readonly sequence: number
  readonly samples: number
}

export interface Case {
  readonly part: Part
  readonly shape: Shape
  readonly ranks: number
  readonly microbatches: number
  /** Whether what lies between cut layers is cut by positions; in (d) only. */
  readonly sequenceParallel: boolean
}

/** Middle and quartiles over the rounds. */
export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

/** Seconds of a step: the median of each round's median. */
export interface SideTimes {
  readonly seconds: Spread
  /** Peak resident memory of all its processes, the runtime itself included; null where the system does not say. */
  readonly peakBytes: number | null
}

export interface CaseResult {
  readonly case: Case
  readonly parameters: number
  /** Layers of each stage, on both sides. */
  readonly stages: readonly number[]
  readonly rounds: number
  /** Steps of each side in one round. */
  readonly stepsPerRound: number
  readonly ours: SideTimes
  readonly torch: Readonly<Record<Variant, SideTimes>>
  /** Our time / PyTorch's, of the two that stood side by side in each round. */
  readonly ratio: Readonly<Record<Variant, Spread>>
  /** Step time beyond the time inside tasks, as a fraction of the latter, on the rank that computes longest. */
  readonly overhead: number
  /** The feed-forward layer's product, measured between the steps; in (a) only. */
  readonly product: ProductResult | null
  /** Largest relative difference between the losses of the first steps. */
  readonly lossDifference: number
}

/** Of an [m, k] x [k, n] product. */
export type ProductSizes = readonly [m: number, k: number, n: number]

/** One product in f32 on one thread: operations a second. */
export interface ProductResult {
  readonly sizes: ProductSizes
  readonly ours: number
  readonly torch: number
}

export interface Report {
  readonly schemaVersion: 1
  /** ISO date. */
  readonly date: string
  readonly seconds: number
  readonly machine: Machine
  readonly versions: { readonly node: string; readonly onnxRuntime: string; readonly torch: string }
  readonly product: ProductResult
  readonly results: readonly CaseResult[]
}
