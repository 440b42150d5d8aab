import type { ModelConfig, ParameterSpec } from '../models/index.ts'

/** What a plan must know of a model. */
export interface PlannedModel {
  readonly name: string
  /** First the embedding, then one for each layer, last the head. */
  readonly blocks: readonly string[]
  /** The longest sequence. */
  readonly context: number
  readonly vocabulary: number
  readonly config: ModelConfig
  readonly parameters: readonly Pick<ParameterSpec, 'name' | 'shape' | 'axes'>[]
}

/** Sizes of a model that layouts must divide. */
export interface ModelShape {
  readonly hidden: number
  readonly heads: number
  /** Heads of keys and values. */
  readonly kvHeads: number
  /** Elements of all heads of a token together; several where queries have another width than values. */
  readonly headsWidths: readonly number[]
  /** Widths of feed-forward layers, experts left out; several where layers differ. */
  readonly mlp: readonly number[]
  /** 0: none. */
  readonly experts: number
  /** Widths of experts. */
  readonly expertMlp: readonly number[]
  /** Tokens see only those before them. */
  readonly causal: boolean
  /** Logical axes that dims of parameters or activations have. */
  readonly axes: ReadonlySet<string>
}

/** Logical axes of the residual stream that no parameter has. */
const streamAxes = ['sequence']

/** Sizes by the logical axes of parameters; heads by the config, for in parameters they are merged with their elements. */
export function modelShape({ config, parameters }: PlannedModel): ModelShape {
  const sizes = new Map<string, Set<number>>()
  for (const { shape, axes } of parameters)
    for (const [dim, axis] of axes.entries()) sizes.set(axis, (sizes.get(axis) ?? new Set()).add(shape[dim]!))
  const sizesOf = (axis: string): number[] => [...(sizes.get(axis) ?? [])]
  const hasOwnKeys = config.family === 'gpt' || (config.family === 'moe' && config.kvLoraRank > 0)
  return {
    hidden: config.hidden,
    heads: config.heads,
    kvHeads: hasOwnKeys ? config.heads : config.kvHeads,
    headsWidths: sizesOf('heads'),
    mlp: sizesOf('mlp'),
    experts: sizesOf('experts')[0] ?? 0,
    expertMlp: sizesOf('expertMlp'),
    // Of every family there is.
    causal: true,
    axes: new Set([...sizes.keys(), ...streamAxes]),
  }
}
