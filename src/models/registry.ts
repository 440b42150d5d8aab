import { assertNever } from '../base/index.ts'
import { gptModel } from './gpt.ts'
import { llamaModel } from './llama.ts'
import { moeModel } from './moe.ts'
import type { LlamaConfig, Model, ModelConfig, MoeConfig, RopeScaling } from './types.ts'

/**
 * - `size`: a whole number from 1
 * - `count`: a whole number from 0
 * - `number`: a finite number above 0, or from 0 where that means "without"
 * - `flag`: true or false
 * - `ropeScaling`: `none`, `linear/FACTOR`, `llama3/FACTOR/LOW/HIGH/ORIGINAL_CONTEXT` or
 *   `yarn/FACTOR/ORIGINAL_CONTEXT/BETA_FAST/BETA_SLOW/MSCALE/MSCALE_ALL_DIM`
 * - a list: one of these words
 */
export type KeyKind = 'size' | 'count' | 'number' | 'flag' | 'ropeScaling' | readonly string[]

export type KeyValue = number | boolean | string | RopeScaling
export type KeyValues = Readonly<Record<string, KeyValue>>

/** One thing a person may set about a model of the family; help is made from these. */
export interface KeyInfo {
  readonly name: string
  readonly kind: KeyKind
  readonly summary: string
  /** What holds when the key is left out: a value, or how it follows from others. */
  readonly default: KeyValue
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

const llamaKeys: readonly KeyInfo[] = [
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
    summary:
      'none, linear/FACTOR, llama3/FACTOR/LOW/HIGH/ORIGINAL_CONTEXT or yarn/FACTOR/ORIGINAL_CONTEXT/BETA_FAST/BETA_SLOW/MSCALE/MSCALE_ALL_DIM',
    default: 'none',
  },
  sharedKeys.initialStd,
]

const llama: ModelFamily = {
  name: 'llama',
  summary: 'Llama: RMSNorm, rotary positions, SwiGLU, grouped-query attention',
  keys: llamaKeys,
  configure(given) {
    return { family: 'llama', ...llamaValues(llama.keys, given) }
  },
}

function llamaValues(keys: readonly KeyInfo[], given: KeyValues): Omit<LlamaConfig, 'family'> {
  const value = reader(keys, given)
  const hidden = value('hidden') as number
  const heads = value('heads') as number
  return {
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
}

const moe: ModelFamily = {
  name: 'moe',
  summary: 'Llama with experts: Mixtral and DeepSeek-V3, multi-head latent attention included',
  keys: [
    ...llamaKeys,
    {
      name: 'kvLoraRank',
      kind: 'count',
      summary: 'width that latent attention compresses keys and values to; 0: grouped-query attention',
      default: 0,
    },
    { name: 'qLoraRank', kind: 'count', summary: 'width it compresses queries to; 0: none', default: 0 },
    {
      name: 'ropeHeadDim',
      kind: 'size',
      summary: 'width of the part of a head, beside headDim, that latent attention turns by position',
      default: 'half of headDim, even; headDim without latent attention',
    },
    { name: 'valueHeadDim', kind: 'size', summary: 'width of the values of a head', default: 'headDim' },
    {
      name: 'ropeInterleaved',
      kind: 'flag',
      summary: 'neighbours are turned together, not elements half a head apart',
      default: 'true with latent attention',
    },
    { name: 'experts', kind: 'size', summary: 'experts of a layer', default: 8 },
    { name: 'topk', kind: 'size', summary: 'experts of a token', default: 2 },
    { name: 'expertMlp', kind: 'size', summary: 'width of an expert', default: 'mlp' },
    {
      name: 'denseLayers',
      kind: 'count',
      summary: 'how many of the first layers have no experts',
      default: 0,
    },
    {
      name: 'moeFrequency',
      kind: 'size',
      summary: 'of the others, layers that it divides have experts',
      default: 1,
    },
    {
      name: 'sharedExperts',
      kind: 'count',
      summary: 'experts that every token passes, as one layer',
      default: 0,
    },
    {
      name: 'scoring',
      kind: ['softmax', 'sigmoid'],
      summary: 'how the router scores experts: softmax or sigmoid',
      default: 'softmax',
    },
    { name: 'normalizeGates', kind: 'flag', summary: 'gates of a token add up to 1', default: true },
    { name: 'gateScale', kind: 'number', summary: 'gates are multiplied by it', default: 1 },
    {
      name: 'routerBias',
      kind: 'flag',
      summary: 'a bias of each expert to choose by (sigmoid only; nothing updates it)',
      default: false,
    },
    { name: 'groups', kind: 'size', summary: 'groups of experts', default: 1 },
    {
      name: 'groupsPerToken',
      kind: 'size',
      summary: "groups that a token's experts may be of",
      default: 'groups',
    },
    {
      name: 'capacityFactor',
      kind: 'number',
      summary:
        'slots of an expert in a sequence over an even share, choices beyond are dropped; 0: none is dropped',
      default: 0,
    },
    {
      name: 'balance',
      kind: ['switch', 'sequence'],
      summary: "formula of the load-balancing loss: switch (Mixtral's) or sequence (DeepSeek-V3's)",
      default: 'switch',
    },
    {
      name: 'balanceWeight',
      kind: 'number',
      summary: 'weight of the load-balancing loss; 0: none',
      default: 0.01,
    },
    { name: 'zLossWeight', kind: 'number', summary: "weight of the router's z-loss; 0: none", default: 0 },
  ],
  configure(given) {
    const value = reader(moe.keys, given)
    const base = llamaValues(moe.keys, given)
    const kvLoraRank = value('kvLoraRank') as number
    const isLatent = kvLoraRank > 0
    const groups = value('groups') as number
    return {
      family: 'moe',
      ...base,
      kvLoraRank,
      qLoraRank: value('qLoraRank') as number,
      ropeHeadDim: value('ropeHeadDim', isLatent ? 2 * Math.ceil(base.headDim / 4) : base.headDim) as number,
      valueHeadDim: value('valueHeadDim', base.headDim) as number,
      ropeInterleaved: value('ropeInterleaved', isLatent) as boolean,
      experts: value('experts') as number,
      topk: value('topk') as number,
      expertMlp: value('expertMlp', base.mlp) as number,
      denseLayers: value('denseLayers') as number,
      moeFrequency: value('moeFrequency') as number,
      sharedExperts: value('sharedExperts') as number,
      scoring: value('scoring') as MoeConfig['scoring'],
      normalizeGates: value('normalizeGates') as boolean,
      gateScale: value('gateScale') as number,
      routerBias: value('routerBias') as boolean,
      groups,
      groupsPerToken: value('groupsPerToken', groups) as number,
      capacityFactor: value('capacityFactor') as number,
      balance: value('balance') as MoeConfig['balance'],
      balanceWeight: value('balanceWeight') as number,
      zLossWeight: value('zLossWeight') as number,
    }
  },
}

/** Looks a key up among the given ones, then in `derived`, then in the family's defaults. */
function reader(
  keys: readonly KeyInfo[],
  given: KeyValues,
): (name: string, derived?: KeyValue) => KeyValue | undefined {
  return (name, derived) => given[name] ?? derived ?? keys.find((key) => key.name === name)?.default
}

export const modelFamilies: readonly ModelFamily[] = [gpt, llama, moe]

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
    case 'moe':
      return moeModel(config, options)
    default:
      return assertNever(config)
  }
}
