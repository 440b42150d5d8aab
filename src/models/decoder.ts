import type { GraphBuilder, ValueId } from '../graph/index.ts'
import { flattenTokens, linear, mergeHeads, selfAttention, splitHeads, unflattenTokens } from './layers.ts'
import { rotaryFactor, rotaryFrequencies } from './rotary.ts'
import type { BuildOptions, RopeScaling } from './types.ts'

// What llama and its variants share: norms, rotary positions, attention, SwiGLU.

/** What a layer is built with. */
export interface DecoderContext {
  readonly builder: GraphBuilder
  readonly options: BuildOptions
  /** A parameter by its full name. */
  readonly parameter: (name: string) => ValueId
  /** Which keys each query sees, where attention is not just causal. */
  readonly visible: ValueId | undefined
}

/** RMSNorm with the weight `<name>.weight`. */
export function rmsNorm(
  { builder, parameter }: DecoderContext,
  x: ValueId,
  name: string,
  epsilon: number,
): ValueId {
  return builder.one('rmsNorm', [x, parameter(`${name}.weight`)], { epsilon })
}

/** x [tokens, in] times the weight `<name>.weight` [out, in]. */
export function project({ builder, parameter }: DecoderContext, x: ValueId, name: string): ValueId {
  return linear(builder, x, parameter(`${name}.weight`), { transposed: true, name })
}

/** The residual stream [batch, sequence, embed] plus a branch [tokens, embed]. */
export function addToStream(
  { builder, options }: DecoderContext,
  x: ValueId,
  branch: ValueId,
  name: string,
): ValueId {
  return builder.one('add', [x, unflattenTokens(builder, branch, options, 'embed')], {}, name)
}

/** silu(x gate) * (x up), times down: x [tokens, embed] and weights `<prefix>.gate_proj`, `up_proj`, `down_proj`. */
export function swiglu(context: DecoderContext, x: ValueId, prefix: string): ValueId {
  const gate = project(context, x, `${prefix}.gate_proj`)
  const gated = context.builder.one(
    'mul',
    [silu(context.builder, gate), project(context, x, `${prefix}.up_proj`)],
    {},
  )
  return project(context, gated, `${prefix}.down_proj`)
}

export function silu(builder: GraphBuilder, x: ValueId): ValueId {
  return builder.one('mul', [x, builder.one('sigmoid', [x], {})], {})
}

export interface RotaryTables {
  readonly cos: ValueId
  readonly sin: ValueId
}

/** cos and sin, each [sequence, width / 2]. To be made outside of any block: each stage that turns has its own. */
export function rotaryTables(
  builder: GraphBuilder,
  config: { readonly width: number; readonly ropeTheta: number; readonly ropeScaling: RopeScaling },
  options: BuildOptions,
): RotaryTables {
  const factor = rotaryFactor(config.ropeScaling)
  const table = (part: 'cos' | 'sin'): ValueId => {
    const plain = builder.one('rotaryTable', [], {
      part,
      positions: options.sequence,
      offset: 0,
      frequencies: rotaryFrequencies(config.width, config.ropeTheta, config.ropeScaling),
      dtype: options.dtype,
    })
    if (factor === 1) return plain
    const scale = builder.one('fill', [], { shape: [], dtype: options.dtype, value: factor })
    return builder.one('mul', [plain, scale], {})
  }
  return { cos: table('cos'), sin: table('sin') }
}

/** Turns element i and i + width/2 of each head together, by position: x [batch, heads, sequence, width]. */
export function rotate(builder: GraphBuilder, x: ValueId, { cos, sin }: RotaryTables): ValueId {
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

/**
 * Grouped-query attention of x [tokens, embed] with weights `<prefix>.q_proj`, `k_proj`, `v_proj`, `o_proj`; gives
 * [tokens, embed].
 */
export function groupedQueryAttention(
  context: DecoderContext,
  x: ValueId,
  prefix: string,
  sizes: { readonly heads: number; readonly kvHeads: number },
  tables: RotaryTables,
): ValueId {
  const { builder, options, visible } = context
  const heads = (name: string, count: number, axis: 'heads' | 'kvHeads'): ValueId =>
    splitHeads(builder, project(context, x, `${prefix}.${name}`), options, count, axis)
  const q = rotate(builder, heads('q_proj', sizes.heads, 'heads'), tables)
  const k = rotate(builder, heads('k_proj', sizes.kvHeads, 'kvHeads'), tables)
  const v = heads('v_proj', sizes.kvHeads, 'kvHeads')
  return project(context, mergeHeads(builder, selfAttention(builder, [q, k, v], visible)), `${prefix}.o_proj`)
}

/** `<name>` of the residual stream, normed and as [tokens, embed]. */
export function normedTokens(context: DecoderContext, x: ValueId, name: string, epsilon: number): ValueId {
  return flattenTokens(context.builder, rmsNorm(context, x, name, epsilon))
}
