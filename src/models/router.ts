import type { GraphBuilder, ValueId } from '../graph/index.ts'
import type { MoeConfig } from './types.ts'

/** What a router decides about the tokens of a micro-batch. */
export interface Routing {
  /** i32 [batch, sequence, topk], best first. */
  readonly experts: ValueId
  /** [batch, sequence, topk] */
  readonly gates: ValueId
  /** Of all experts, [batch, sequence, experts]: the router's logits, and scores without bias. */
  readonly logits: ValueId
  readonly scores: ValueId
}

/** Slots that each expert has for one sequence of so many tokens. */
export function expertCapacity(config: MoeConfig, sequence: number): number {
  if (config.capacityFactor === 0) return sequence
  const even = (config.capacityFactor * sequence * config.topk) / config.experts
  // A product that is whole but for rounding is not one more.
  return Math.min(sequence, Math.max(1, Math.ceil(even - 1e-9)))
}

/**
 * Chooses experts from the router's logits [batch, sequence, experts].
 *
 * Scores are a softmax over all experts (Mixtral with `normalizeGates`, which makes of it a softmax over the chosen; Qwen
 * and DeepSeek-V2 without) or a sigmoid of each (DeepSeek-V3, section 2.1.2). A bias, where there is one, shifts what is
 * chosen by, never the gates. With several groups only experts of the best `groupsPerToken` are chosen from: a group is as
 * good as its best expert with softmax (DeepSeek-V2), as its two best together with sigmoid (DeepSeek-V3). Of equal experts
 * or groups the lower is taken. Which are chosen has no derivative.
 */
export function routeTokens(
  builder: GraphBuilder,
  logits: ValueId,
  bias: ValueId | undefined,
  config: MoeConfig,
): Routing {
  const scores = builder.one(config.scoring, [logits], {})
  const shifted = bias === undefined ? scores : builder.one('add', [scores, bias], {})
  const eligible = config.groups === 1 ? shifted : withinBestGroups(builder, shifted, config)
  const [best, experts] = builder.op('topK', [eligible], { k: config.topk }) as [ValueId, ValueId]
  let gates = eligible === scores ? best : builder.one('gatherElements', [scores, experts], {})
  if (config.normalizeGates) gates = builder.one('div', [gates, sumOverLast(builder, gates)], {})
  if (config.gateScale !== 1) gates = scaled(builder, gates, config.gateScale)
  return { experts, gates, logits, scores }
}

/** Scores [batch, sequence, experts], those outside of a token's best groups far below any. */
function withinBestGroups(builder: GraphBuilder, scores: ValueId, config: MoeConfig): ValueId {
  const { dtype, shape, axes } = builder.type(scores)
  const [batch, sequence, experts] = shape as [number, number, number]
  const { groups } = config
  const grouped = builder.one('reshape', [scores], { shape: [batch, sequence, groups, experts / groups] })
  const best = builder.one('topK', [grouped], { k: config.scoring === 'sigmoid' ? 2 : 1 })
  const merit = builder.one('reduceSum', [best], { dims: [3], keepDims: false })
  const chosen = builder.op('topK', [merit], { k: config.groupsPerToken })[1]!
  const ones = builder.one('fill', [], { shape: [batch, sequence, config.groupsPerToken], dtype, value: 1 })
  const marks = builder.one('scatterElements', [chosen, ones], { size: groups })
  const constant = (value: number): ValueId => builder.one('fill', [], { shape: [], dtype, value })
  const isOut = builder.one(
    'less',
    [builder.one('reshape', [marks], { shape: [batch, sequence, groups, 1] }), constant(0.5)],
    {},
  )
  const kept = builder.one('where', [isOut, constant(-1e30), grouped], {})
  return builder.one('reshape', [kept], { shape, ...(axes === undefined ? {} : { axes }) })
}

/**
 * Auxiliary losses of each sequence of T tokens, [batch], times T; undefined where the config asks for none. Losses are summed over tokens, so that after the
 * division by their number a weight means what it does in the papers. All T tokens count, labelled or not.
 *
 * With c_i the number of tokens that chose expert i of E, as chosen (bias and groups included), K experts a token, and P_i
 * the mean over tokens of the score of i (sigmoids divided by their sum over all experts):
 *
 * - `switch`: E sum_i (c_i / T) P_i, as in Switch Transformers (Fedus et al. 2021, equation 4) and, for K > 1, Mixtral's
 *   code; but for each sequence and layer by itself
 * - `sequence`: E / K sum_i (c_i / T) P_i, DeepSeek-V3's sequence-wise loss (equations 17 to 20)
 *
 * The z-loss is the mean over tokens of the squared log-sum-exp of the logits (ST-MoE, Zoph et al. 2022, equation 5).
 */
export function auxiliaryLoss(
  builder: GraphBuilder,
  { logits, scores, experts }: Routing,
  config: MoeConfig,
): ValueId | undefined {
  const { shape } = builder.type(experts)
  const { dtype } = builder.type(logits)
  const losses: ValueId[] = []
  if (config.balanceWeight > 0) {
    const shares =
      config.scoring === 'softmax' ? scores : builder.one('div', [scores, sumOverLast(builder, scores)], {})
    const ones = builder.one('fill', [], { shape, dtype, value: 1 })
    const marks = builder.one('scatterElements', [experts, ones], { size: config.experts })
    const overTokens = { dims: [1], keepDims: false }
    const counts = builder.one('reduceSum', [marks], overTokens)
    const products = builder.one('mul', [counts, builder.one('reduceSum', [shares], overTokens)], {})
    const sum = builder.one('reduceSum', [products], overTokens)
    const perChoice = config.balance === 'sequence' ? config.topk : 1
    losses.push(scaled(builder, sum, (config.balanceWeight * config.experts) / (perChoice * shape[1]!)))
  }
  if (config.zLossWeight > 0) {
    const size = logSumExp(builder, logits)
    const squares = builder.one('reduceSum', [builder.one('mul', [size, size], {})], {
      dims: [1, 2],
      keepDims: false,
    })
    losses.push(scaled(builder, squares, config.zLossWeight))
  }
  return losses.length === 0 ? undefined : losses.reduce((sum, loss) => builder.one('add', [sum, loss], {}))
}

/** Over the last dim, kept with size 1. */
function logSumExp(builder: GraphBuilder, x: ValueId): ValueId {
  const last = [builder.type(x).shape.length - 1]
  const largest = builder.one('reduceMax', [x], { dims: last, keepDims: true })
  const exponentials = builder.one('exp', [builder.one('sub', [x, largest], {})], {})
  return builder.one('add', [largest, builder.one('log', [sumOverLast(builder, exponentials)], {})], {})
}

function sumOverLast(builder: GraphBuilder, x: ValueId): ValueId {
  return builder.one('reduceSum', [x], { dims: [builder.type(x).shape.length - 1], keepDims: true })
}

function scaled(builder: GraphBuilder, x: ValueId, factor: number): ValueId {
  const dtype = builder.type(x).dtype
  return builder.one('mul', [x, builder.one('fill', [], { shape: [], dtype, value: factor })], {})
}
