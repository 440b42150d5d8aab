import { type Graph, GraphBuilder, type ValueId } from '../graph/index.ts'
import { checkDivides, checkNumbers, checkSizes } from './checks.ts'
import {
  declareData,
  declareParameters,
  flattenTokens,
  linear,
  mergeHeads,
  outputLoss,
  selfAttention,
  splitHeads,
  unflattenTokens,
} from './layers.ts'
import { type ModelOptions, transformerModel } from './transformer.ts'
import type { BuildOptions, GptConfig, InitialValue, Model, ParameterSpec } from './types.ts'

const zeros: InitialValue = { kind: 'zeros' }
const ones: InitialValue = { kind: 'ones' }

/**
 * GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, GELU in its tanh form, embedding and head tied
 * unless `tied` is false. Parameters are named and laid out as in Hugging Face's `GPT2LMHeadModel`, whose linear
 * weights are [in, out]. Throws `MODEL_*` for a config that no model can have.
 */
export function gptModel(config: GptConfig, options: ModelOptions = {}): Model {
  const { layers, hidden, heads, mlp, context, vocab } = config
  checkSizes({ layers, hidden, heads, mlp, context, vocab })
  checkNumbers({ epsilon: config.epsilon, initialStd: config.initialStd })
  checkDivides('MODEL_HEADS', { name: 'hidden', size: hidden }, { name: 'heads', size: heads })
  const family = { layerName: 'h', parameters: gptParameters(config), build: buildGpt }
  return transformerModel(config, family, options)
}

function gptParameters(config: GptConfig): ParameterSpec[] {
  const { layers, hidden, mlp, initialStd } = config
  const normal: InitialValue = { kind: 'normal', std: initialStd }
  // Each block adds to the residual stream twice: scaled so that its variance does not grow with depth.
  const residual: InitialValue = { kind: 'normal', std: initialStd / Math.sqrt(2 * layers) }
  const parameters: ParameterSpec[] = []
  const add = (name: string, shape: number[], axes: string[], initial: InitialValue): void => {
    parameters.push({ name, shape, axes, initial, decay: shape.length >= 2 })
  }
  const norm = (name: string): void => {
    add(`${name}.weight`, [hidden], ['embed'], ones)
    add(`${name}.bias`, [hidden], ['embed'], zeros)
  }
  add('transformer.wte.weight', [config.vocab, hidden], ['vocab', 'embed'], normal)
  add('transformer.wpe.weight', [config.context, hidden], ['position', 'embed'], normal)
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `transformer.h.${layer}`
    norm(`${prefix}.ln_1`)
    add(`${prefix}.attn.c_attn.weight`, [hidden, 3 * hidden], ['embed', 'qkv'], normal)
    add(`${prefix}.attn.c_attn.bias`, [3 * hidden], ['qkv'], zeros)
    add(`${prefix}.attn.c_proj.weight`, [hidden, hidden], ['heads', 'embed'], residual)
    add(`${prefix}.attn.c_proj.bias`, [hidden], ['embed'], zeros)
    norm(`${prefix}.ln_2`)
    add(`${prefix}.mlp.c_fc.weight`, [hidden, mlp], ['embed', 'mlp'], normal)
    add(`${prefix}.mlp.c_fc.bias`, [mlp], ['mlp'], zeros)
    add(`${prefix}.mlp.c_proj.weight`, [mlp, hidden], ['mlp', 'embed'], residual)
    add(`${prefix}.mlp.c_proj.bias`, [hidden], ['embed'], zeros)
  }
  norm('transformer.ln_f')
  if (!config.tied) add('lm_head.weight', [config.vocab, hidden], ['vocab', 'embed'], normal)
  return parameters
}

function buildGpt(config: GptConfig, parameters: readonly ParameterSpec[], options: BuildOptions): Graph {
  const builder = new GraphBuilder()
  const { tokens, labels, visible } = declareData(builder, options)
  const parameter = declareParameters(builder, parameters, options.dtype)

  const norm = (x: ValueId, name: string): ValueId =>
    builder.one('layerNorm', [x, parameter(`${name}.weight`), parameter(`${name}.bias`)], {
      epsilon: config.epsilon,
    })
  const project = (x: ValueId, name: string): ValueId =>
    linear(builder, x, parameter(`${name}.weight`), {
      transposed: false,
      bias: parameter(`${name}.bias`),
      name,
    })
  const addToStream = (x: ValueId, branch: ValueId, name: string): ValueId =>
    builder.one('add', [x, unflattenTokens(builder, branch, options, 'embed')], {}, name)

  builder.startBlock('embed')
  const embedded = builder.one('gather', [parameter('transformer.wte.weight'), tokens], {})
  let positions = parameter('transformer.wpe.weight')
  if (options.sequence < config.context)
    positions = builder.one('slice', [positions], { starts: [0, 0], ends: [options.sequence, config.hidden] })
  let x = builder.one('add', [embedded, positions], {}, 'embed')

  for (let layer = 0; layer < config.layers; layer++) {
    builder.startBlock(`h.${layer}`)
    const prefix = `transformer.h.${layer}`
    const normed = flattenTokens(builder, norm(x, `${prefix}.ln_1`))
    const qkv = builder.op('split', [project(normed, `${prefix}.attn.c_attn`)], {
      dim: 1,
      sizes: [config.hidden, config.hidden, config.hidden],
    })
    const heads = qkv.map((part) => splitHeads(builder, part, options, config.heads, 'heads'))
    const attended = mergeHeads(builder, selfAttention(builder, heads, visible))
    x = addToStream(x, project(attended, `${prefix}.attn.c_proj`), `h.${layer}.attn`)

    const widened = project(flattenTokens(builder, norm(x, `${prefix}.ln_2`)), `${prefix}.mlp.c_fc`)
    const activated = builder.one('geluTanh', [widened], {})
    x = addToStream(x, project(activated, `${prefix}.mlp.c_proj`), `h.${layer}`)
  }

  builder.startBlock('head')
  const last = flattenTokens(builder, norm(x, 'transformer.ln_f'))
  const head = parameter(config.tied ? 'transformer.wte.weight' : 'lm_head.weight')
  outputLoss(builder, linear(builder, last, head, { transposed: true, name: 'logits' }), labels)
  return builder.build()
}
