import { irrelevantFields, refuseBeyond } from './configBeyond.ts'
import { ConfigFields, show } from './configFields.ts'
import { checkWindow, readDecoder, readDropout, readHeadDim, requireOneOf } from './configReaders.ts'
import { readDeepseek, readMixtral } from './readMoe.ts'
import { modelFromConfig } from './registry.ts'
import type { GptConfig, LlamaConfig, Model, ModelConfig } from './types.ts'

type Architecture =
  | 'GPT2LMHeadModel'
  | 'LlamaForCausalLM'
  | 'MistralForCausalLM'
  | 'MixtralForCausalLM'
  | 'DeepseekV3ForCausalLM'

const architectures: Readonly<Record<string, Architecture>> = {
  gpt2: 'GPT2LMHeadModel',
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
  mixtral: 'MixtralForCausalLM',
  deepseek_v3: 'DeepseekV3ForCausalLM',
}

/** Fields by which these say what others do not have at all. */
const ownFields: Readonly<Partial<Record<Architecture, readonly string[]>>> = {
  MixtralForCausalLM: ['num_local_experts', 'num_experts_per_tok'],
  DeepseekV3ForCausalLM: ['n_routed_experts', 'num_experts_per_tok'],
}

/**
 * The model that a Hugging Face `config.json` (already parsed) describes. Reads `GPT2LMHeadModel`,
 * `LlamaForCausalLM`, `MistralForCausalLM` and `MixtralForCausalLM` where no sliding window applies, and
 * `DeepseekV3ForCausalLM` without prediction of further tokens. Absent fields have the defaults of
 * transformers, except sizes, which must be there. `source` is the file, for errors; `name` what the model is called.
 *
 * Throws `MODEL_CONFIG_UNSUPPORTED` naming the field for anything declared that is not modelled,
 * `MODEL_CONFIG_MISSING`, `MODEL_CONFIG_VALUE`, `MODEL_CONFIG_SHAPE`, and what the family says of its sizes.
 */
export function modelFromHuggingFaceConfig(
  json: unknown,
  options: { readonly source: string; readonly name?: string },
): Model {
  const fields = new ConfigFields(json, options.source)
  const architecture = architectureOf(fields)
  refuseBeyond(fields, architecture, ownFields[architecture])
  const notices: string[] = []
  const config = readConfig(fields, architecture, notices)
  const ignored = fields
    .unread()
    .filter((name) => !irrelevantFields.has(name) && fields.value(name) !== undefined)
  const [unknown] = ignored
  // Of these there are many variants: a field that is not known may be what makes one.
  if (unknown !== undefined && ownFields[architecture] !== undefined)
    throw fields.refuse(
      'MODEL_CONFIG_UNSUPPORTED',
      unknown,
      `${unknown} is ${show(fields.value(unknown))}, which is not known of ${architecture}`,
      'leave it out if the model does not depend on it',
    )
  if (ignored.length > 0)
    notices.push(`${ignored.join(', ')}: not read, ${architecture} does not depend on it`)
  return modelFromConfig(config, { name: options.name ?? config.family, notices })
}

function readConfig(fields: ConfigFields, architecture: Architecture, notices: string[]): ModelConfig {
  switch (architecture) {
    case 'GPT2LMHeadModel':
      return readGpt(fields, notices)
    case 'LlamaForCausalLM':
    case 'MistralForCausalLM':
      return readLlama(fields, architecture === 'MistralForCausalLM', notices)
    case 'MixtralForCausalLM':
      return readMixtral(fields, notices)
    case 'DeepseekV3ForCausalLM':
      return readDeepseek(fields, notices)
  }
}

function architectureOf(fields: ConfigFields): Architecture {
  const named = fields.value('architectures')
  const type = fields.value('model_type')
  const known = Object.values(architectures)
  if (named !== undefined) {
    const only = Array.isArray(named) && named.length === 1 ? named[0] : undefined
    const found = known.find((name) => name === only)
    if (found === undefined)
      throw fields.refuse(
        'MODEL_CONFIG_UNSUPPORTED',
        'architectures',
        `the architecture is ${show(named)}`,
        `one of ${known.join(', ')} can be read`,
      )
    if (type !== undefined && architectures[String(type)] !== found)
      throw fields.refuse(
        'MODEL_CONFIG_VALUE',
        'model_type',
        `model_type is ${show(type)} but the architecture is ${found}`,
      )
    return found
  }
  if (type === undefined)
    throw fields.refuse(
      'MODEL_CONFIG_MISSING',
      'architectures',
      'the config says neither architectures nor model_type',
      'is this the config.json of a language model?',
    )
  const found = Object.hasOwn(architectures, String(type)) ? architectures[String(type)] : undefined
  if (found === undefined)
    throw fields.refuse(
      'MODEL_CONFIG_UNSUPPORTED',
      'model_type',
      `model_type is ${show(type)}`,
      `one of ${Object.keys(architectures).join(', ')} can be read`,
    )
  return found
}

function readGpt(fields: ConfigFields, notices: string[]): GptConfig {
  requireOneOf(fields, 'activation_function', 'gelu_new', ['gelu_new', 'gelu_pytorch_tanh'])
  requireOneOf(fields, 'scale_attn_weights', true, [true])
  requireOneOf(fields, 'scale_attn_by_inverse_layer_idx', false, [false])
  // Only the order in which the same numbers are rounded.
  fields.flag('reorder_and_upcast_attn', false)
  readDropout(fields, ['resid_pdrop', 'embd_pdrop', 'attn_pdrop'], 0.1, notices)
  const hidden = fields.number(['n_embd', 'hidden_size'])
  return {
    family: 'gpt',
    layers: fields.number(['n_layer', 'num_hidden_layers']),
    hidden,
    heads: fields.number(['n_head', 'num_attention_heads']),
    mlp: fields.number(['n_inner'], 4 * hidden),
    context: fields.number(['n_positions', 'max_position_embeddings', 'n_ctx']),
    vocab: fields.number(['vocab_size']),
    tied: fields.flag('tie_word_embeddings', true),
    epsilon: fields.number(['layer_norm_epsilon'], 1e-5),
    initialStd: fields.number(['initializer_range'], 0.02),
  }
}

function readLlama(fields: ConfigFields, mistral: boolean, notices: string[]): LlamaConfig {
  const decoder = readDecoder(fields, notices, {
    ...(mistral ? { kvHeads: 8 } : {}),
    epsilon: 1e-6,
    theta: 10_000,
  })
  checkWindow(fields, mistral, decoder.context)
  return {
    family: 'llama',
    ...decoder,
    headDim: readHeadDim(fields, decoder),
    mlp: fields.number(['intermediate_size']),
  }
}
