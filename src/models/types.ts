import type { FloatDType, Graph } from '../graph/index.ts'

export type InitialValue =
  | { readonly kind: 'normal'; readonly std: number }
  | { readonly kind: 'zeros' }
  | { readonly kind: 'ones' }

export interface ParameterSpec {
  /** Full dotted name, the one Hugging Face checkpoints use. */
  readonly name: string
  readonly shape: readonly number[]
  /**
   * Logical axis of each dim: `vocab`, `position`, `embed`, `qkv`, `heads`, `kvHeads`, `mlp`, `experts`, `expertMlp`,
   * `latent`.
   */
  readonly axes: readonly string[]
  readonly initial: InitialValue
  /** Whether weight decay applies: to matrices and embeddings, not to biases and norms. */
  readonly decay: boolean
  /**
   * Whether the first dim counts experts whose parts checkpoint files hold one by one: `….experts.w1.weight` is
   * `….experts.0.w1.weight`, `….experts.1.w1.weight`, … there.
   */
  readonly perExpert?: true
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
  /**
   * YaRN (Peng et al. 2023, section 3): pairs that make more than `betaFast` turns within the context trained first are
   * kept, those below `betaSlow` divided by `factor`, a ramp between. `mscale` and `mscaleAllDim`, 0 where not given, are
   * DeepSeek's: how much cos and sin, and scores, grow with the factor.
   */
  | {
      readonly kind: 'yarn'
      readonly factor: number
      readonly originalContext: number
      readonly betaFast: number
      readonly betaSlow: number
      readonly mscale: number
      readonly mscaleAllDim: number
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

/** Llama with experts instead of the feed-forward layer of some layers, and latent attention as an option. */
export interface MoeConfig extends Omit<LlamaConfig, 'family'> {
  readonly family: 'moe'
  /** Width of a head of queries and keys; with latent attention of its part without positions. */
  readonly headDim: number
  /** Width of the feed-forward layer of layers without experts. */
  readonly mlp: number

  // Multi-head latent attention, where kvLoraRank is above 0.
  /** Width that queries are compressed to; 0: they are not. */
  readonly qLoraRank: number
  /** Width that keys and values are compressed to; 0: grouped-query attention. */
  readonly kvLoraRank: number
  /** Width of the part of a query or key that is turned by position, which all heads' keys share; headDim without latent attention. */
  readonly ropeHeadDim: number
  /** headDim without latent attention. */
  readonly valueHeadDim: number
  /** Whether neighbours make the pairs that are turned, as DeepSeek's weights have it, instead of elements half a head apart. */
  readonly ropeInterleaved: boolean

  readonly experts: number
  /** Experts of a token. */
  readonly topk: number
  /** Width of an expert. */
  readonly expertMlp: number
  /** How many of the first layers have no experts. */
  readonly denseLayers: number
  /** Of the layers behind those, every so many-th has experts: layers whose number, from 0, it divides. */
  readonly moeFrequency: number
  /** Experts that every token passes, as one feed-forward layer of so many times expertMlp; 0: none. */
  readonly sharedExperts: number

  readonly scoring: 'softmax' | 'sigmoid'
  /** Whether the gates of a token are divided by their sum. */
  readonly normalizeGates: boolean
  /** Gates are multiplied by it. */
  readonly gateScale: number
  /** Whether scores are shifted by a parameter of each expert to choose by, which is not trained. */
  readonly routerBias: boolean
  /** Groups of experts, neighbours. */
  readonly groups: number
  /** Of how many groups a token's experts may be: those with the best experts. */
  readonly groupsPerToken: number
  /** Slots of an expert over those that it needs if all get as many tokens; 0: as many as there are tokens, none is dropped. */
  readonly capacityFactor: number

  readonly balance: 'switch' | 'sequence'
  /** Weight of the load-balancing loss; 0: none. */
  readonly balanceWeight: number
  /** Weight of the squared log-sum-exp of the router's logits; 0: none. */
  readonly zLossWeight: number
}

export type ModelConfig = GptConfig | LlamaConfig | MoeConfig

export interface BuildOptions {
  /** Samples of one micro-batch. */
  readonly batch: number
  /** Tokens of a sample, at most the model's context. */
  readonly sequence: number
  readonly dtype: FloatDType
  /** Whether sequences are packed of several documents: attention then stays inside each. */
  readonly documents?: boolean
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
   * at the position that predicts it, a negative one is not counted. With `documents` a data input of that name too, i32
   * [batch, sequence]: positions with equal numbers are one document. Parameter inputs by full name. Output `loss`:
   * cross-entropy *summed* over the labels, a scalar.
   */
  readonly build: (options: BuildOptions) => Graph
}
