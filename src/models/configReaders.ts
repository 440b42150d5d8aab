import { checkDivides, checkSizes } from './checks.ts'
import { type ConfigFields, show } from './configFields.ts'
import type { LlamaConfig, RopeScaling } from './types.ts'

// Fields that several architectures have.

/** Refuses the field unless its value, or what an absent one stands for, is one of `supported`. */
export function requireOneOf(
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

export function readDropout(
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

/**
 * What all decoders on the skeleton of Llama have. `kvHeads` is what an absent `num_key_value_heads` stands for; a null one
 * is as many as there are heads.
 */
export function readDecoder(
  fields: ConfigFields,
  notices: string[],
  defaults: { readonly kvHeads?: number; readonly epsilon: number; readonly theta: number },
): Omit<LlamaConfig, 'family' | 'headDim' | 'mlp'> {
  requireOneOf(fields, 'hidden_act', 'silu', ['silu', 'swish'])
  requireOneOf(fields, 'attention_bias', false, [false])
  requireOneOf(fields, 'mlp_bias', false, [false])
  requireOneOf(fields, 'rope_interleaved', false, [false])
  readDropout(fields, ['attention_dropout'], 0, notices)
  const heads = fields.number(['num_attention_heads'])
  const context = fields.number(['max_position_embeddings'])
  return {
    layers: fields.number(['num_hidden_layers']),
    hidden: fields.number(['hidden_size']),
    heads,
    kvHeads: fields.number(
      ['num_key_value_heads'],
      fields.has('num_key_value_heads') ? heads : (defaults.kvHeads ?? heads),
    ),
    context,
    vocab: fields.number(['vocab_size']),
    tied: fields.flag('tie_word_embeddings', false),
    epsilon: fields.number(['rms_norm_eps'], defaults.epsilon),
    ...readRope(fields, context, defaults.theta),
    initialStd: fields.number(['initializer_range'], 0.02),
  }
}

/** Width of a head, `hidden / heads` where it is not given. Throws `MODEL_HEADS`. */
export function readHeadDim(
  fields: ConfigFields,
  { hidden, heads }: { readonly hidden: number; readonly heads: number },
): number {
  if (fields.value('head_dim') === undefined) {
    checkSizes({ hidden, heads })
    checkDivides('MODEL_HEADS', { name: 'hidden', size: hidden }, { name: 'heads', size: heads })
  }
  return fields.number(['head_dim'], hidden / heads)
}

/** A window as long as the context never bites: anything shorter is another model. */
export function checkWindow(fields: ConfigFields, mistral: boolean, context: number): void {
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

export function readRope(
  fields: ConfigFields,
  context: number,
  theta = 10_000,
): { readonly ropeTheta: number; readonly ropeScaling: RopeScaling } {
  requireOneOf(fields, 'partial_rotary_factor', 1, [1])
  const topTheta = fields.number(['rope_theta'], theta)
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
    case 'yarn':
      requireOneOf(rope, 'truncate', true, [true])
      return {
        kind: 'yarn',
        factor: rope.number(['factor']),
        originalContext,
        betaFast: rope.number(['beta_fast'], 32),
        betaSlow: rope.number(['beta_slow'], 1),
        mscale: rope.number(['mscale'], 0),
        mscaleAllDim: rope.number(['mscale_all_dim'], 0),
      }
    default:
      throw rope.refuse(
        'MODEL_CONFIG_UNSUPPORTED',
        'rope_type',
        `the rope type is ${show(kind)}, which is not modelled`,
        'default, linear, llama3 and yarn are',
      )
  }
}
