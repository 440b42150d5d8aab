import { MeshwrightError } from '../base/index.ts'
import { type Graph, GraphBuilder, type ValueId } from '../graph/index.ts'
import { checkDivides, checkNumbers, checkSizes } from './checks.ts'
import {
  causalAttention,
  declareData,
  declareParameters,
  flattenTokens,
  linear,
  mergeHeads,
  outputLoss,
  splitHeads,
  unflattenTokens,
} from './layers.ts'
import { checkRopeScaling, rotaryFrequencies } from './rotary.ts'
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
  const { tokens, labels } = declareData(builder, options)
  const parameter = declareParameters(builder, parameters, options.dtype)

  const norm = (x: ValueId, name: string): ValueId =>
    builder.one('rmsNorm', [x, parameter(`${name}.weight`)], { epsilon: config.epsilon })
  const project = (x: ValueId, name: string): ValueId =>
    linear(builder, x, parameter(`${name}.weight`), { transposed: true, name })
  const addToStream = (x: ValueId, branch: ValueId, name: string): ValueId =>
    builder.one('add', [x, unflattenTokens(builder, branch, options, 'embed')], {}, name)

  // Made outside of any block: each stage that turns queries and keys has tables of its own.
  const [cos, sin] = rotaryTables(builder, config, options)

  builder.startBlock('embed')
  let x = builder.one('gather', [parameter('model.embed_tokens.weight'), tokens], {}, 'embed')

  for (let layer = 0; layer < config.layers; layer++) {
    builder.startBlock(`layers.${layer}`)
    const prefix = `model.layers.${layer}`
    const normed = flattenTokens(builder, norm(x, `${prefix}.input_layernorm`))
    const heads = (name: string, count: number, axis: 'heads' | 'kvHeads'): ValueId =>
      splitHeads(builder, project(normed, `${prefix}.self_attn.${name}`), options, count, axis)
    const q = rotate(builder, heads('q_proj', config.heads, 'heads'), cos, sin)
    const k = rotate(builder, heads('k_proj', config.kvHeads, 'kvHeads'), cos, sin)
    const v = heads('v_proj', config.kvHeads, 'kvHeads')
    const attended = mergeHeads(builder, causalAttention(builder, q, k, v))
    x = addToStream(x, project(attended, `${prefix}.self_attn.o_proj`), `layers.${layer}.self_attn`)

    const again = flattenTokens(builder, norm(x, `${prefix}.post_attention_layernorm`))
    const gate = project(again, `${prefix}.mlp.gate_proj`)
    const silu = builder.one('mul', [gate, builder.one('sigmoid', [gate], {})], {})
    const gated = builder.one('mul', [silu, project(again, `${prefix}.mlp.up_proj`)], {})
    x = addToStream(x, project(gated, `${prefix}.mlp.down_proj`), `layers.${layer}`)
  }

  builder.startBlock('head')
  const last = flattenTokens(builder, norm(x, 'model.norm'))
  const head = parameter(config.tied ? 'model.embed_tokens.weight' : 'lm_head.weight')
  outputLoss(builder, linear(builder, last, head, { transposed: true, name: 'logits' }), labels)
  return builder.build()
}

/** cos and sin, each [sequence, headDim / 2]. */
function rotaryTables(builder: GraphBuilder, config: LlamaConfig, options: BuildOptions): [ValueId, ValueId] {
  const table = (part: 'cos' | 'sin'): ValueId =>
    builder.one('rotaryTable', [], {
      part,
      positions: options.sequence,
      offset: 0,
      frequencies: rotaryFrequencies(config.headDim, config.ropeTheta, config.ropeScaling),
      dtype: options.dtype,
    })
  return [table('cos'), table('sin')]
}

/** Turns element i and i + headDim/2 of each head together, by position: x [batch, heads, sequence, headDim]. */
function rotate(builder: GraphBuilder, x: ValueId, cos: ValueId, sin: ValueId): ValueId {
  const half = builder.type(x).shape[3]! / 2
  const [first, second] = builder.op('split', [x], { dim: 3, sizes: [half, half] })
  const times = (a: ValueId | undefined, b: ValueId): ValueId => builder.one('mul', [a!, b], {})
  return builder.one(
    'concat',
    [
      builder.one('sub', [times(first, cos), times(second, sin)], {}),
      builder.one('add', [times(second, cos), times(first, sin)], {}),
    ],
    { dim: 3 },
  )
}
