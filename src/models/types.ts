import type { FloatDType, Graph } from '../graph/index.ts'

export type InitialValue =
  | { readonly kind: 'normal'; readonly std: number }
  | { readonly kind: 'zeros' }
  | { readonly kind: 'ones' }

export interface ParameterSpec {
  /** Full dotted name, the one Hugging Face checkpoints use. */
  readonly name: string
  readonly shape: readonly number[]
  /** Logical axis of each dim: `vocab`, `position`, `embed`, `qkv`, `heads`, `kvHeads`, `mlp`. */
  readonly axes: readonly string[]
  readonly initial: InitialValue
  /** Whether weight decay applies: to matrices and embeddings, not to biases and norms. */
  readonly decay: boolean
}

/** How rotary frequencies are stretched for contexts longer than the one trained first. */
export type RopeScaling =
  | { readonly kind: 'none' }
  /** All positions divided by `factor`. */
  | { readonly kind: 'linear'; readonly factor: number }
  /** Llama 3.1: long wavelengths divided by `factor`, short ones kept, a ramp between. */
  | {
      readonly kind: 'llama3'
      readonly factor: number
      readonly lowFactor: number
      readonly highFactor: number
      readonly originalContext: number
    }

export interface GptConfig {
  readonly family: 'gpt'
  readonly layers: number
  /** Width of the residual stream. */
  readonly hidden: number
  readonly heads: number
  /** Width of the feed-forward layer. */
  readonly mlp: number
  /** Rows of the position table: the longest sequence. */
  readonly context: number
  readonly vocab: number
  /** Whether the head is the token embedding. */
  readonly tied: boolean
  /** Added to the variance by layer norms. */
  readonly epsilon: number
  /** Standard deviation of initial weights. */
  readonly initialStd: number
}

export interface LlamaConfig {
  readonly family: 'llama'
  readonly layers: number
  readonly hidden: number
  readonly heads: number
  /** Heads of keys and values: each serves heads / kvHeads query heads. */
  readonly kvHeads: number
  readonly headDim: number
  readonly mlp: number
  readonly context: number
  readonly vocab: number
  readonly tied: boolean
  readonly epsilon: number
  readonly ropeTheta: number
  readonly ropeScaling: RopeScaling
  readonly initialStd: number
}

export type ModelConfig = GptConfig | LlamaConfig

export interface BuildOptions {
  /** Samples of one micro-batch. */
  readonly batch: number
  /** Tokens of a sample, at most the model's context. */
  readonly sequence: number
  readonly dtype: FloatDType
}

export interface Model {
  readonly name: string
  readonly family: ModelConfig['family']
  readonly config: ModelConfig
  /** Tokens are 0 … vocabulary - 1. */
  readonly vocabulary: number
  /** The longest sequence. */
  readonly context: number
  readonly parameters: readonly ParameterSpec[]
  /** Names of the blocks, in order: `embed`, one for each layer, `head`. */
  readonly blocks: readonly string[]
  /** What a person should know about how the model was read, one sentence each. */
  readonly notices: readonly string[]
  /**
   * The forward graph of one micro-batch. Data inputs `tokens` and `labels`, i32 [batch, sequence]: the label stands
   * at the position that predicts it, a negative one is not counted. Parameter inputs by full name. Output `loss`:
   * cross-entropy *summed* over the labels, a scalar.
   */
  readonly build: (options: BuildOptions) => Graph
}
