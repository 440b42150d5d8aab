import { checkDivides, checkSizes } from './checks.ts'
import { irrelevantFields, refuseBeyond } from './configBeyond.ts'
import { ConfigFields, show } from './configFields.ts'
import { modelFromConfig } from './registry.ts'
import type { GptConfig, LlamaConfig, Model, RopeScaling } from './types.ts'

type Architecture = 'GPT2LMHeadModel' | 'LlamaForCausalLM' | 'MistralForCausalLM'

const architectures: Readonly<Record<string, Architecture>> = {
  gpt2: 'GPT2LMHeadModel',
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
}

/**
 * The model that a Hugging Face `config.json` (already parsed) describes. Reads `GPT2LMHeadModel`,
 * `LlamaForCausalLM`, and `MistralForCausalLM` where no sliding window applies. Absent fields have the defaults of
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
  refuseBeyond(fields, architecture)
  const notices: string[] = []
  const config =
    architecture === 'GPT2LMHeadModel'
      ? readGpt(fields, notices)
      : readLlama(fields, architecture === 'MistralForCausalLM', notices)
  const ignored = fields
    .unread()
    .filter((name) => !irrelevantFields.has(name) && fields.value(name) !== undefined)
  if (ignored.length > 0)
    notices.push(`${ignored.join(', ')}: not read, ${architecture} does not depend on it`)
  return modelFromConfig(config, { name: options.name ?? config.family, notices })
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

/** Refuses the field unless its value, or what an absent one stands for, is one of `supported`. */
function requireOneOf(
  fields: ConfigFields,
  name: string,
  otherwise: unknown,
  supported: readonly unknown[],
): void {
  const value = fields.value(name) ?? otherwise
  if (supported.includes(value)) return
  throw fields.refuse(
    'MODEL_CONFIG_UNSUPPORTED',
    name,
    `${name} is ${show(value)}${fields.has(name) ? '' : ' where it is absent'}, which is not modelled`,
    `${name} may be ${supported.map(show).join(' or ')}`,
  )
}

function readDropout(
  fields: ConfigFields,
  names: readonly string[],
  defaults: number,
  notices: string[],
): void {
  const rates = names
    .map((name) => ({ name, rate: fields.number([name], defaults) }))
    .filter(({ rate }) => rate !== 0)
  if (rates.length > 0)
    notices.push(`dropout is read as 0: ${rates.map(({ name, rate }) => `${name} ${rate}`).join(', ')}`)
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
  requireOneOf(fields, 'hidden_act', 'silu', ['silu', 'swish'])
  requireOneOf(fields, 'attention_bias', false, [false])
  requireOneOf(fields, 'mlp_bias', false, [false])
  readDropout(fields, ['attention_dropout'], 0, notices)
  const hidden = fields.number(['hidden_size'])
  const heads = fields.number(['num_attention_heads'])
  const context = fields.number(['max_position_embeddings'])
  checkWindow(fields, mistral, context)
  if (fields.value('head_dim') === undefined) {
    checkSizes({ hidden, heads })
    checkDivides('MODEL_HEADS', { name: 'hidden', size: hidden }, { name: 'heads', size: heads })
  }
  return {
    family: 'llama',
    layers: fields.number(['num_hidden_layers']),
    hidden,
    heads,
    // An absent field is 8 for Mistral, a null one never is.
    kvHeads: fields.number(
      ['num_key_value_heads'],
      mistral && !fields.has('num_key_value_heads') ? 8 : heads,
    ),
    headDim: fields.number(['head_dim'], hidden / heads),
    mlp: fields.number(['intermediate_size']),
    context,
    vocab: fields.number(['vocab_size']),
    tied: fields.flag('tie_word_embeddings', false),
    epsilon: fields.number(['rms_norm_eps'], 1e-6),
    ...readRope(fields, context),
    initialStd: fields.number(['initializer_range'], 0.02),
  }
}

/** A window as long as the context never bites: anything shorter is another model. */
function checkWindow(fields: ConfigFields, mistral: boolean, context: number): void {
  const absent = mistral && !fields.has('sliding_window')
  const window = fields.value('sliding_window') ?? (absent ? 4096 : undefined)
  if (window === undefined) return
  if (typeof window === 'number' && window >= context) return
  throw fields.refuse(
    'MODEL_CONFIG_UNSUPPORTED',
    'sliding_window',
    `sliding_window is ${show(window)}${absent ? ' where it is absent' : ''}, shorter than the ${context} positions: a sliding window is not modelled`,
    'with max_position_embeddings at most sliding_window the window never bites',
  )
}

function readRope(
  fields: ConfigFields,
  context: number,
): { readonly ropeTheta: number; readonly ropeScaling: RopeScaling } {
  requireOneOf(fields, 'partial_rotary_factor', 1, [1])
  requireOneOf(fields, 'rope_interleaved', false, [false])
  const topTheta = fields.number(['rope_theta'], 10_000)
  // transformers 5 writes rope_parameters, earlier versions rope_scaling; both hold the same.
  const scaling = fields.object('rope_scaling')
  const parameters = fields.object('rope_parameters')
  const rope = scaling !== undefined && scaling.unread().length > 0 ? scaling : parameters
  if (rope === undefined) return { ropeTheta: topTheta, ropeScaling: { kind: 'none' } }
  requireOneOf(rope, 'partial_rotary_factor', 1, [1])
  const ropeTheta = rope.number(['rope_theta'], topTheta)
  const kind = rope.value('rope_type', 'type') ?? 'default'
  // The field of that name outside of the object wins over the one inside, as in transformers.
  const inside = rope.number(['original_max_position_embeddings'], context)
  const ropeScaling = readRopeScaling(rope, kind, fields.number(['original_max_position_embeddings'], inside))
  const unknown = rope.unread().filter((name) => rope.value(name) !== undefined)
  if (unknown.length > 0)
    throw rope.refuse(
      'MODEL_CONFIG_UNSUPPORTED',
      unknown[0]!,
      `${unknown[0]} is not known of rope type ${show(kind)}`,
    )
  return { ropeTheta, ropeScaling }
}

function readRopeScaling(rope: ConfigFields, kind: unknown, originalContext: number): RopeScaling {
  switch (kind) {
    case 'default':
      return { kind: 'none' }
    case 'linear':
      return { kind: 'linear', factor: rope.number(['factor']) }
    case 'llama3':
      return {
        kind: 'llama3',
        factor: rope.number(['factor']),
        lowFactor: rope.number(['low_freq_factor']),
        highFactor: rope.number(['high_freq_factor']),
        originalContext,
      }
    default:
      throw rope.refuse(
        'MODEL_CONFIG_UNSUPPORTED',
        'rope_type',
        `the rope type is ${show(kind)}, which is not modelled`,
        'default, linear and llama3 are',
      )
  }
}
