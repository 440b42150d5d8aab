import { type Graph, GraphBuilder, type ValueId } from '../graph/index.ts'
import {
  addToStream,
  type DecoderContext,
  groupedQueryAttention,
  normedTokens,
  rotaryTables,
  swiglu,
} from './decoder.ts'
import { expertLayer } from './expertLayer.ts'
import { latentAttention } from './latentAttention.ts'
import { declareData, declareParameters, linear, outputLoss } from './layers.ts'
import { checkMoeConfig, checkTokens } from './moeChecks.ts'
import { expertNames, hasExperts, moeParameters } from './moeParameters.ts'
import { auxiliaryLoss } from './router.ts'
import { type ModelOptions, transformerModel } from './transformer.ts'
import type { BuildOptions, Model, MoeConfig, ParameterSpec } from './types.ts'

/**
 * A mixture of experts on the skeleton of Llama, with the options of Mixtral (Jiang et al. 2024) and DeepSeek-V3 (2024):
 * see `MoeConfig`. Parameters are named and laid out as in Hugging Face's checkpoints, Mixtral's where the config is one,
 * else DeepSeek's; but all experts of a layer are one parameter [experts, …] (`ParameterSpec.perExpert`). Auxiliary losses
 * are part of the output `loss`. Throws `MODEL_*` for a config that no model can have.
 */
export function moeModel(config: MoeConfig, options: ModelOptions = {}): Model {
  checkMoeConfig(config)
  const notices = [...(options.notices ?? [])]
  if (config.routerBias)
    notices.push('the bias by which experts are chosen stays as it is: no balancing updates it')
  const family = { layerName: 'layers', parameters: moeParameters(config), build: buildMoe }
  return transformerModel(config, family, { ...options, notices })
}

function buildMoe(config: MoeConfig, parameters: readonly ParameterSpec[], options: BuildOptions): Graph {
  checkTokens(config, options)
  const builder = new GraphBuilder()
  const { tokens, labels, visible } = declareData(builder, options)
  const parameter = declareParameters(builder, parameters, options.dtype)
  const context: DecoderContext = { builder, options, parameter, visible }
  const { epsilon } = config
  const tables = rotaryTables(builder, { ...config, width: config.ropeHeadDim }, options)

  builder.startBlock('embed')
  let x = builder.one('gather', [parameter('model.embed_tokens.weight'), tokens], {}, 'embed')
  // Every layer passes it on, be it unchanged, so that it crosses stages where the residual stream does and no other.
  let auxiliary: ValueId | undefined

  for (let layer = 0; layer < config.layers; layer++) {
    builder.startBlock(`layers.${layer}`)
    const prefix = `model.layers.${layer}`
    const normed = normedTokens(context, x, `${prefix}.input_layernorm`, epsilon)
    const attended =
      config.kvLoraRank === 0
        ? groupedQueryAttention(context, normed, `${prefix}.self_attn`, config, tables)
        : latentAttention(context, normed, `${prefix}.self_attn`, config, tables)
    x = addToStream(context, x, attended, `layers.${layer}.self_attn`)
    const again = normedTokens(context, x, `${prefix}.post_attention_layernorm`, epsilon)
    if (hasExperts(config, layer)) {
      const { output, routing } = expertLayer(context, again, expertNames(config, layer), config)
      x = addToStream(context, x, output, `layers.${layer}`)
      // Behind the stream, so that among what crosses a cut that comes first, with or without this.
      const own = auxiliaryLoss(builder, routing, config)
      auxiliary = sum(builder, auxiliary, own, `layers.${layer}.auxiliary`)
    } else {
      x = addToStream(context, x, swiglu(context, again, `${prefix}.mlp`), `layers.${layer}`)
      if (auxiliary !== undefined) {
        const zero = builder.one('fill', [], { shape: [], dtype: options.dtype, value: 0 })
        auxiliary = sum(builder, auxiliary, zero, `layers.${layer}.auxiliary`)
      }
    }
  }

  builder.startBlock('head')
  const last = normedTokens(context, x, 'model.norm', epsilon)
  const head = parameter(config.tied ? 'model.embed_tokens.weight' : 'lm_head.weight')
  outputLoss(builder, linear(builder, last, head, { transposed: true, name: 'logits' }), labels, auxiliary)
  return builder.build()
}

function sum(
  builder: GraphBuilder,
  before: ValueId | undefined,
  own: ValueId | undefined,
  name: string,
): ValueId | undefined {
  return before === undefined || own === undefined
    ? (own ?? before)
    : builder.one('add', [before, own], {}, name)
}
