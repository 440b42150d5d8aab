import { MeshwrightError } from '../base/index.ts'
import { type Graph, GraphBuilder } from '../graph/index.ts'
import { checkDivides, checkNumbers, checkSizes } from './checks.ts'
import { addToStream, groupedQueryAttention, normedTokens, rotaryTables, swiglu } from './decoder.ts'
import { declareData, declareParameters, linear, outputLoss } from './layers.ts'
import { checkRopeScaling } from './rotary.ts'
import { type ModelOptions, transformerModel } from './transformer.ts'
import type { BuildOptions, InitialValue, LlamaConfig, Model, ParameterSpec } from './types.ts'

/**
 * Llama (Touvron et al. 2023): RMSNorm, rotary positions in the half-rotation convention, SwiGLU, grouped-query
 * attention, no biases. Parameters are named and laid out as in Hugging Face's `LlamaForCausalLM`, whose linear
 * weights are [out, in]. Throws `MODEL_*` for a config that no model can have.
 */
export function llamaModel(config: LlamaConfig, options: ModelOptions = {}): Model {
  const { layers, hidden, heads, kvHeads, headDim, mlp, context, vocab } = config
  checkSizes({ layers, hidden, heads, kvHeads, headDim, mlp, context, vocab })
  const { epsilon, ropeTheta, initialStd } = config
  checkNumbers({ epsilon, ropeTheta, initialStd })
  checkRopeScaling(config.ropeScaling)
  checkDivides('MODEL_KV_HEADS', { name: 'heads', size: heads }, { name: 'kvHeads', size: kvHeads })
  if (headDim % 2 !== 0)
    throw new MeshwrightError('MODEL_HEAD_DIM', `headDim is ${headDim}: rotary positions turn pairs`, {
      hint: `headDim ${headDim === 1 ? '2' : `${headDim - 1} or ${headDim + 1}`} would work`,
    })
  const family = { layerName: 'layers', parameters: llamaParameters(config), build: buildLlama }
  return transformerModel(config, family, options)
}

function llamaParameters(config: LlamaConfig): ParameterSpec[] {
  const { hidden, mlp, vocab } = config
  const queries = config.heads * config.headDim
  const keys = config.kvHeads * config.headDim
  const normal: InitialValue = { kind: 'normal', std: config.initialStd }
  const parameters: ParameterSpec[] = []
  const matrix = (name: string, shape: number[], axes: string[]): void => {
    parameters.push({ name, shape, axes, initial: normal, decay: true })
  }
  const norm = (name: string): void => {
    parameters.push({ name, shape: [hidden], axes: ['embed'], initial: { kind: 'ones' }, decay: false })
  }
  matrix('model.embed_tokens.weight', [vocab, hidden], ['vocab', 'embed'])
  for (let layer = 0; layer < config.layers; layer++) {
    const prefix = `model.layers.${layer}`
    matrix(`${prefix}.self_attn.q_proj.weight`, [queries, hidden], ['heads', 'embed'])
    matrix(`${prefix}.self_attn.k_proj.weight`, [keys, hidden], ['kvHeads', 'embed'])
    matrix(`${prefix}.self_attn.v_proj.weight`, [keys, hidden], ['kvHeads', 'embed'])
    matrix(`${prefix}.self_attn.o_proj.weight`, [hidden, queries], ['embed', 'heads'])
    matrix(`${prefix}.mlp.gate_proj.weight`, [mlp, hidden], ['mlp', 'embed'])
    matrix(`${prefix}.mlp.up_proj.weight`, [mlp, hidden], ['mlp', 'embed'])
    matrix(`${prefix}.mlp.down_proj.weight`, [hidden, mlp], ['embed', 'mlp'])
    norm(`${prefix}.input_layernorm.weight`)
    norm(`${prefix}.post_attention_layernorm.weight`)
  }
  norm('model.norm.weight')
  if (!config.tied) matrix('lm_head.weight', [vocab, hidden], ['vocab', 'embed'])
  return parameters
}

function buildLlama(config: LlamaConfig, parameters: readonly ParameterSpec[], options: BuildOptions): Graph {
  const builder = new GraphBuilder()
  const { tokens, labels, visible } = declareData(builder, options)
  const parameter = declareParameters(builder, parameters, options.dtype)
  const context = { builder, options, parameter, visible }
  const { epsilon } = config
  const tables = rotaryTables(builder, { ...config, width: config.headDim }, options)

  builder.startBlock('embed')
  let x = builder.one('gather', [parameter('model.embed_tokens.weight'), tokens], {}, 'embed')

  for (let layer = 0; layer < config.layers; layer++) {
    builder.startBlock(`layers.${layer}`)
    const prefix = `model.layers.${layer}`
    const normed = normedTokens(context, x, `${prefix}.input_layernorm`, epsilon)
    const attended = groupedQueryAttention(context, normed, `${prefix}.self_attn`, config, tables)
    x = addToStream(context, x, attended, `layers.${layer}.self_attn`)
    const again = normedTokens(context, x, `${prefix}.post_attention_layernorm`, epsilon)
    x = addToStream(context, x, swiglu(context, again, `${prefix}.mlp`), `layers.${layer}`)
  }

  builder.startBlock('head')
  const last = normedTokens(context, x, 'model.norm', epsilon)
  const head = parameter(config.tied ? 'model.embed_tokens.weight' : 'lm_head.weight')
  outputLoss(builder, linear(builder, last, head, { transposed: true, name: 'logits' }), labels)
  return builder.build()
}
