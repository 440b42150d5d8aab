import type { GraphBuilder, ValueId } from '../graph/index.ts'
import { type DecoderContext, project, type RotaryTables, rmsNorm, rotate } from './decoder.ts'
import { mergeHeads, selfAttention, splitHeads } from './layers.ts'
import { latentScoreFactor } from './rotary.ts'
import type { MoeConfig } from './types.ts'

/** Of the norms between the two halves of a low-rank product: not configurable in DeepSeek's models. */
const latentEpsilon = 1e-6

/**
 * Multi-head latent attention (DeepSeek-V2, section 2.1) of x [tokens, embed]; gives [tokens, embed]. Keys and values come
 * from one narrow vector a token, `kv_a_proj_with_mqa` then `kv_b_proj`; beside it stands the part of a key that is turned
 * by position, which all heads share. Queries come from `q_a_proj` then `q_b_proj`, or `q_proj` alone.
 */
export function latentAttention(
  context: DecoderContext,
  x: ValueId,
  prefix: string,
  config: MoeConfig,
  tables: RotaryTables,
): ValueId {
  const { builder, options, visible } = context
  const { heads, headDim, ropeHeadDim, valueHeadDim, kvLoraRank } = config
  const split = (value: ValueId, dim: number, sizes: readonly number[]): [ValueId, ValueId] =>
    builder.op('split', [value], { dim, sizes }) as unknown as [ValueId, ValueId]
  const turned = (value: ValueId): ValueId =>
    rotate(builder, config.ropeInterleaved ? pairsApart(builder, value) : value, tables)

  const inner =
    config.qLoraRank === 0 ? x : latent(context, project(context, x, `${prefix}.q_a_proj`), `${prefix}.q_a`)
  const queries = project(context, inner, `${prefix}.${config.qLoraRank === 0 ? 'q_proj' : 'q_b_proj'}`)
  const [q, qTurned] = split(splitHeads(builder, queries, options, heads, 'heads'), 3, [headDim, ropeHeadDim])

  const compressed = project(context, x, `${prefix}.kv_a_proj_with_mqa`)
  const [narrow, shared] = split(compressed, 1, [kvLoraRank, ropeHeadDim])
  const wide = project(context, latent(context, narrow, `${prefix}.kv_a`), `${prefix}.kv_b_proj`)
  const [k, v] = split(splitHeads(builder, wide, options, heads, 'heads'), 3, [headDim, valueHeadDim])
  const oneHead = builder.one('reshape', [shared], {
    shape: [options.batch, 1, options.sequence, ropeHeadDim],
    axes: ['batch', '', 'sequence', 'headDim'],
  })
  const kTurned = builder.one('broadcast', [turned(oneHead)], {
    shape: [options.batch, heads, options.sequence, ropeHeadDim],
  })

  const whole = (still: ValueId, moved: ValueId): ValueId => builder.one('concat', [still, moved], { dim: 3 })
  const attended = selfAttention(
    builder,
    [whole(q, turned(qTurned)), whole(k, kTurned), v],
    visible,
    latentScoreFactor(config.ropeScaling),
  )
  return project(context, mergeHeads(builder, attended), `${prefix}.o_proj`)
}

function latent(context: DecoderContext, x: ValueId, name: string): ValueId {
  return rmsNorm(context, x, `${name}_layernorm`, latentEpsilon)
}

/** Elements 0, 2, 4, … of each head, then 1, 3, 5, …: neighbours become pairs half a head apart. */
function pairsApart(builder: GraphBuilder, x: ValueId): ValueId {
  const { shape, axes } = builder.type(x)
  const pairs = builder.one('reshape', [x], {
    shape: [...shape.slice(0, 3), shape[3]! / 2, 2],
    axes: [...(axes ?? ['', '', '', '']).slice(0, 3), '', ''],
  })
  const swapped = builder.one('transpose', [pairs], { permutation: [0, 1, 2, 4, 3] })
  return builder.one('reshape', [swapped], { shape, ...(axes === undefined ? {} : { axes }) })
}
