import { assertNever } from '../base/index.ts'
import { gptModel } from './gpt.ts'
import { llamaModel } from './llama.ts'
import type { Model, ModelConfig, RopeScaling } from './types.ts'

/**
 * - `size`: a whole number from 1
 * - `number`: a finite number above 0
 * - `flag`: true or false
 * - `ropeScaling`: `none`, `linear/FACTOR` or `llama3/FACTOR/LOW/HIGH/ORIGINAL_CONTEXT`
 */
export type KeyKind = 'size' | 'number' | 'flag' | 'ropeScaling'

export type KeyValue = number | boolean | RopeScaling
export type KeyValues = Readonly<Record<string, KeyValue>>

/** One thing a person may set about a model of the family; help is made from these. */
export interface KeyInfo {
  readonly name: string
  readonly kind: KeyKind
  readonly summary: string
  /** What holds when the key is left out: a value, or how it follows from others. */
  readonly default: KeyValue | string
}

export interface ModelFamily {
  readonly name: ModelConfig['family']
  readonly summary: string
  readonly keys: readonly KeyInfo[]
  /** A whole config from the keys that were given. Every key is one of `keys`, its value of the right kind. */
  readonly configure: (given: KeyValues) => ModelConfig
}

const sharedKeys = {
  layers: { name: 'layers', kind: 'size', summary: 'transformer blocks', default: 4 },
  hidden: { name: 'hidden', kind: 'size', summary: 'width of the residual stream', default: 128 },
  heads: { name: 'heads', kind: 'size', summary: 'attention heads', default: 4 },
  context: { name: 'context', kind: 'size', summary: 'longest sequence, in tokens', default: 128 },
  vocab: { name: 'vocab', kind: 'size', summary: 'tokens in the vocabulary (256: bytes)', default: 256 },
  initialStd: {
    name: 'initialStd',
    kind: 'number',
    summary: 'standard deviation of initial weights',
    default: 0.02,
  },
} as const satisfies Record<string, KeyInfo>

const gpt: ModelFamily = {
  name: 'gpt',
  summary: 'GPT-2: layer norm, learned positions, tanh GELU',
  keys: [
    sharedKeys.layers,
    sharedKeys.hidden,
    sharedKeys.heads,
    { name: 'mlp', kind: 'size', summary: 'width of the feed-forward layer', default: '4 x hidden' },
    sharedKeys.context,
    sharedKeys.vocab,
    { name: 'tied', kind: 'flag', summary: 'the head is the token embedding', default: true },
    { name: 'epsilon', kind: 'number', summary: 'added to the variance by norms', default: 1e-5 },
    sharedKeys.initialStd,
  ],
  configure(given) {
    const value = reader(gpt.keys, given)
    const hidden = value('hidden') as number
    return {
      family: 'gpt',
      layers: value('layers') as number,
      hidden,
      heads: value('heads') as number,
      mlp: value('mlp', 4 * hidden) as number,
      context: value('context') as number,
      vocab: value('vocab') as number,
      tied: value('tied') as boolean,
      epsilon: value('epsilon') as number,
      initialStd: value('initialStd') as number,
    }
  },
}

const llama: ModelFamily = {
  name: 'llama',
  summary: 'Llama: RMSNorm, rotary positions, SwiGLU, grouped-query attention',
  keys: [
    sharedKeys.layers,
    sharedKeys.hidden,
    sharedKeys.heads,
    { name: 'kvHeads', kind: 'size', summary: 'heads of keys and values', default: 'heads' },
    { name: 'headDim', kind: 'size', summary: 'width of one head', default: 'hidden / heads' },
    {
      name: 'mlp',
      kind: 'size',
      summary: 'width of the feed-forward layer',
      default: '8/3 x hidden, up to a multiple of 64',
    },
    sharedKeys.context,
    sharedKeys.vocab,
    { name: 'tied', kind: 'flag', summary: 'the head is the token embedding', default: false },
    { name: 'epsilon', kind: 'number', summary: 'added to the mean square by norms', default: 1e-5 },
    { name: 'ropeTheta', kind: 'number', summary: 'base of the rotary frequencies', default: 10_000 },
    {
      name: 'ropeScaling',
      kind: 'ropeScaling',
      summary: 'none, linear/FACTOR or llama3/FACTOR/LOW/HIGH/ORIGINAL_CONTEXT',
      default: 'none',
    },
    sharedKeys.initialStd,
  ],
  configure(given) {
    const value = reader(llama.keys, given)
    const hidden = value('hidden') as number
    const heads = value('heads') as number
    return {
      family: 'llama',
      layers: value('layers') as number,
      hidden,
      heads,
      kvHeads: value('kvHeads', heads) as number,
      headDim: value('headDim', hidden / heads) as number,
      // Three matrices where GPT has two: 2/3 of the width keeps the number of parameters.
      mlp: value('mlp', 64 * Math.ceil((8 * hidden) / (3 * 64))) as number,
      context: value('context') as number,
      vocab: value('vocab') as number,
      tied: value('tied') as boolean,
      epsilon: value('epsilon') as number,
      ropeTheta: value('ropeTheta') as number,
      ropeScaling: value('ropeScaling', { kind: 'none' }) as RopeScaling,
      initialStd: value('initialStd') as number,
    }
  },
}

/** Looks a key up among the given ones, then in `derived`, then in the family's defaults. */
function reader(
  keys: readonly KeyInfo[],
  given: KeyValues,
): (name: string, derived?: KeyValue) => KeyValue | string | undefined {
  return (name, derived) => given[name] ?? derived ?? keys.find((key) => key.name === name)?.default
}

export const modelFamilies: readonly ModelFamily[] = [gpt, llama]

/** The model of a whole config. Throws `MODEL_*` for a config that no model can have. */
export function modelFromConfig(
  config: ModelConfig,
  options: { readonly name?: string; readonly notices?: readonly string[] } = {},
): Model {
  switch (config.family) {
    case 'gpt':
      return gptModel(config, options)
    case 'llama':
      return llamaModel(config, options)
    default:
      return assertNever(config)
  }
}
