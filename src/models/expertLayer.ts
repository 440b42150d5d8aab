import type { GraphBuilder, ValueId } from '../graph/index.ts'
import { type DecoderContext, silu, swiglu } from './decoder.ts'
import { flattenTokens, linear, unflattenTokens } from './layers.ts'
import { expertCapacity, type Routing, routeTokens } from './router.ts'
import type { MoeConfig } from './types.ts'

/** Names of the weights of an expert layer, by what they do; those of experts hold all experts, [experts, …]. */
export interface ExpertNames {
  /** Of the layer: what goes to experts is `<block>.dispatch`, what comes back `<block>.combine`. */
  readonly block: string
  readonly router: string
  readonly routerBias: string
  readonly gate: string
  readonly up: string
  readonly down: string
  /** Prefix of the shared experts. */
  readonly shared: string
}

export interface ExpertLayer {
  /** [tokens, embed] */
  readonly output: ValueId
  readonly routing: Routing
}

/**
 * A mixture of SwiGLU experts of x [tokens, embed] (Mixtral, section 2.1; DeepSeek-V3, section 2.1.2). Each token's rows go
 * to slots of its experts and come back, weighted by its gates, in the same place; a choice that found no slot adds
 * nothing. Slots are counted for each sequence by itself, so that how a batch is cut changes nothing; with
 * `capacityFactor` 0 an expert has one for every token of a sequence, so that none is dropped, at the price of products
 * over experts x tokens rows instead of the topk x tokens that hold something.
 */
export function expertLayer(
  context: DecoderContext,
  x: ValueId,
  names: ExpertNames,
  config: MoeConfig,
): ExpertLayer {
  const { builder, options, parameter } = context
  const { batch, sequence } = options
  const { experts, topk } = config
  const logits = linear(builder, x, parameter(names.router), { transposed: true, name: names.router })
  const bias = config.routerBias ? parameter(names.routerBias) : undefined
  const routing = routeTokens(builder, unflattenTokens(builder, logits, options, 'experts'), bias, config)
  const capacity = expertCapacity(config, sequence)
  const [slots, choices, tokens] = builder.op('assignSlots', [routing.experts], { experts, capacity }) as [
    ValueId,
    ValueId,
    ValueId,
  ]

  const rows = unflattenTokens(builder, x, options, 'embed')
  const sent = builder.one('route', [rows, tokens, slots], {}, `${names.block}.dispatch`)
  const done = expertProducts(context, sent, names)
  const places = builder.one('reshape', [done], {
    shape: [batch, experts * capacity, config.hidden],
    axes: ['batch', 'experts', 'embed'],
  })
  const origins = builder.one('reshape', [choices], {
    shape: [batch, experts * capacity, 1],
    axes: ['batch', 'experts', ''],
  })
  const back = builder.one('route', [places, slots, origins], {}, `${names.block}.combine`)
  const gates = builder.one('reshape', [routing.gates], { shape: [batch, sequence, topk, 1] })
  const weighted = builder.one('mul', [back, gates], {})
  const mixed = flattenTokens(builder, builder.one('reduceSum', [weighted], { dims: [2], keepDims: false }))
  const output =
    config.sharedExperts === 0 ? mixed : builder.one('add', [mixed, swiglu(context, x, names.shared)], {})
  return { output, routing }
}

/** x [batch, experts, capacity, embed] through each row's expert: one product for an expert, over all samples. */
function expertProducts({ builder, parameter }: DecoderContext, x: ValueId, names: ExpertNames): ValueId {
  const [batch, experts, capacity, width] = builder.type(x).shape as [number, number, number, number]
  const rows = builder.one('reshape', [swapFirst(builder, x)], {
    shape: [experts, batch * capacity, width],
    axes: ['experts', 'tokens', 'embed'],
  })
  const times = (value: ValueId, name: string): ValueId =>
    linear(builder, value, parameter(name), { transposed: true, name })
  const gated = builder.one('mul', [silu(builder, times(rows, names.gate)), times(rows, names.up)], {})
  const apart = builder.one('reshape', [times(gated, names.down)], {
    shape: [experts, batch, capacity, width],
    axes: ['experts', 'batch', '', 'embed'],
  })
  return swapFirst(builder, apart)
}

function swapFirst(builder: GraphBuilder, x: ValueId): ValueId {
  return builder.one('transpose', [x], { permutation: [1, 0, 2, 3] })
}
