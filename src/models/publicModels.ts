import type { KeyValues } from './registry.ts'
import type { ModelConfig, RopeScaling } from './types.ts'

/** A public model by the name people know it by: keys of its family. */
export interface PublicModel {
  readonly name: string
  readonly family: ModelConfig['family']
  readonly summary: string
  readonly keys: KeyValues
}

/** Sizes of the released GPT-2 models (openai/gpt-2, `hparams.json` of each). */
function gpt2(name: string, size: string, layers: number, hidden: number, heads: number): PublicModel {
  return {
    name,
    family: 'gpt',
    summary: `GPT-2, ${size} parameters`,
    keys: { layers, hidden, heads, context: 1024, vocab: 50_257 },
  }
}

/** The stretching of Llama 3.1 and later (meta-llama/llama-models, `apply_scaling`). */
function llama3Scaling(factor: number): RopeScaling {
  return { kind: 'llama3', factor, lowFactor: 1, highFactor: 4, originalContext: 8192 }
}

/** Sizes as in `config.json` of each model's repository on Hugging Face (meta-llama/…). */
function llama(name: string, summary: string, keys: KeyValues): PublicModel {
  return { name, family: 'llama', summary, keys }
}

const llama2: KeyValues = { context: 4096, vocab: 32_000 }
const llama3: KeyValues = { kvHeads: 8, context: 8192, vocab: 128_256, ropeTheta: 500_000 }
const llama31: KeyValues = { ...llama3, context: 131_072, ropeScaling: llama3Scaling(8) }
const llama32: KeyValues = { ...llama3, context: 131_072, ropeScaling: llama3Scaling(32), tied: true }
const size7b: KeyValues = { layers: 32, hidden: 4096, heads: 32, mlp: 11_008 }
const size8b: KeyValues = { layers: 32, hidden: 4096, heads: 32, mlp: 14_336 }
const size70b: KeyValues = { layers: 80, hidden: 8192, heads: 64, kvHeads: 8, mlp: 28_672 }

/** Sizes as in `config.json` of each model's repository on Hugging Face (mistralai/…, deepseek-ai/…). */
function moe(name: string, summary: string, keys: KeyValues): PublicModel {
  return { name, family: 'moe', summary, keys }
}

const mixtral: KeyValues = { kvHeads: 8, ropeTheta: 1_000_000, experts: 8, topk: 2 }
const deepseekV3: KeyValues = {
  layers: 61,
  hidden: 7168,
  heads: 128,
  headDim: 128,
  mlp: 18_432,
  context: 163_840,
  vocab: 129_280,
  epsilon: 1e-6,
  ropeScaling: {
    kind: 'yarn',
    factor: 40,
    originalContext: 4096,
    betaFast: 32,
    betaSlow: 1,
    mscale: 1,
    mscaleAllDim: 1,
  },
  qLoraRank: 1536,
  kvLoraRank: 512,
  experts: 256,
  topk: 8,
  expertMlp: 2048,
  denseLayers: 3,
  sharedExperts: 1,
  scoring: 'sigmoid',
  gateScale: 2.5,
  routerBias: true,
  groups: 8,
  groupsPerToken: 4,
  balance: 'sequence',
  balanceWeight: 0.0001,
}

export const publicModels: readonly PublicModel[] = [
  gpt2('gpt2', '124M', 12, 768, 12),
  gpt2('gpt2-medium', '355M', 24, 1024, 16),
  gpt2('gpt2-large', '774M', 36, 1280, 20),
  gpt2('gpt2-xl', '1.5B', 48, 1600, 25),
  llama('llama-2-7b', 'Llama 2, 7B', { ...llama2, ...size7b }),
  llama('llama-2-13b', 'Llama 2, 13B', { ...llama2, layers: 40, hidden: 5120, heads: 40, mlp: 13_824 }),
  llama('llama-2-70b', 'Llama 2, 70B', { ...llama2, ...size70b }),
  llama('llama-3-8b', 'Llama 3, 8B', { ...llama3, ...size8b }),
  llama('llama-3-70b', 'Llama 3, 70B', { ...llama3, ...size70b }),
  llama('llama-3.1-8b', 'Llama 3.1, 8B', { ...llama31, ...size8b }),
  llama('llama-3.1-70b', 'Llama 3.1, 70B', { ...llama31, ...size70b }),
  llama('llama-3.1-405b', 'Llama 3.1, 405B', {
    ...llama31,
    layers: 126,
    hidden: 16_384,
    heads: 128,
    mlp: 53_248,
  }),
  llama('llama-3.2-1b', 'Llama 3.2, 1B', { ...llama32, layers: 16, hidden: 2048, heads: 32, mlp: 8192 }),
  llama('llama-3.2-3b', 'Llama 3.2, 3B', { ...llama32, layers: 28, hidden: 3072, heads: 24, mlp: 8192 }),
  moe('mixtral-8x7b', 'Mixtral 8x7B', {
    ...mixtral,
    layers: 32,
    hidden: 4096,
    heads: 32,
    mlp: 14_336,
    context: 32_768,
    vocab: 32_000,
    balanceWeight: 0.02,
  }),
  moe('mixtral-8x22b', 'Mixtral 8x22B', {
    ...mixtral,
    layers: 56,
    hidden: 6144,
    heads: 48,
    mlp: 16_384,
    context: 65_536,
    vocab: 32_768,
    balanceWeight: 0.001,
  }),
  moe('deepseek-v3', 'DeepSeek-V3, without its prediction of further tokens', deepseekV3),
]
