/** the loss of a small mixture of experts, one sequence and one token at a time, in plain loops. */
import type { MoeConfig } from '../../src/models/index.ts'

type Vector = readonly number[]
/** Elements of a parameter by its full name, row-major. */
export type Weights = (name: string) => ArrayLike<number>

const times = (x: Vector, weight: ArrayLike<number>, rows: number, start = 0): number[] =>
  Array.from({ length: rows }, (_, row) =>
    x.reduce((sum, value, column) => sum + value * weight[start + row * x.length + column]!, 0),
  )
const plus = (a: Vector, b: Vector): number[] => a.map((value, at) => value + b[at]!)
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x))
const total = (x: Vector): number => x.reduce((sum, value) => sum + value, 0)
const softmax = (x: Vector): number[] => {
  const exponentials = x.map((value) => Math.exp(value - Math.max(...x)))
  return exponentials.map((value) => value / total(exponentials))
}

function norm(x: Vector, weight: ArrayLike<number>, epsilon: number): number[] {
  const scale = 1 / Math.sqrt(total(x.map((value) => value * value)) / x.length + epsilon)
  return x.map((value, at) => value * scale * weight[at]!)
}

/** Names of an expert layer's weights in Mixtral's checkpoints and in DeepSeek's. */
export interface NaiveNames {
  readonly block: string
  readonly gate: string
  readonly up: string
  readonly down: string
}

/**
 * Grouped-query attention only. `dropped` counts choices that found no slot of `capacity`; `loss` is the summed cross-entropy
 * plus the auxiliary losses, those as they are defined, times the number of tokens.
 */
export function naiveMoe(
  config: MoeConfig,
  names: NaiveNames,
  weights: Weights,
  sequence: { readonly tokens: Vector; readonly labels: Vector },
  capacity: number,
): { readonly loss: number; readonly dropped: number } {
  const { hidden, heads, kvHeads, headDim, epsilon } = config
  const length = sequence.tokens.length
  let auxiliary = 0
  let dropped = 0
  const embedding = weights('model.embed_tokens.weight')
  let stream: number[][] = sequence.tokens.map((token) =>
    Array.from({ length: hidden }, (_, at) => embedding[token * hidden + at]!),
  )

  const turn = (head: Vector, position: number): number[] => {
    const half = headDim / 2
    return head.map((value, at) => {
      const angle = position * config.ropeTheta ** ((-2 * (at % half)) / headDim)
      const other = at < half ? -head[at + half]! : head[at - half]!
      return value * Math.cos(angle) + other * Math.sin(angle)
    })
  }
  const feedForward = (x: Vector, prefix: string, width: number): number[] => {
    const gate = times(x, weights(`${prefix}.gate_proj.weight`), width)
    const up = times(x, weights(`${prefix}.up_proj.weight`), width)
    const inner = gate.map((value, at) => value * sigmoid(value) * up[at]!)
    return times(inner, weights(`${prefix}.down_proj.weight`), hidden)
  }

  for (let layer = 0; layer < config.layers; layer++) {
    const prefix = `model.layers.${layer}`
    const normed = stream.map((x) => norm(x, weights(`${prefix}.input_layernorm.weight`), epsilon))
    const project = (name: string, count: number): number[][][] =>
      normed.map((x) => {
        const all = times(x, weights(`${prefix}.self_attn.${name}.weight`), count * headDim)
        return Array.from({ length: count }, (_, head) => all.slice(head * headDim, (head + 1) * headDim))
      })
    const q = project('q_proj', heads).map((all, position) => all.map((head) => turn(head, position)))
    const k = project('k_proj', kvHeads).map((all, position) => all.map((head) => turn(head, position)))
    const v = project('v_proj', kvHeads)
    stream = stream.map((x, position) => {
      const mixed = q[position]!.flatMap((query, head) => {
        const kv = Math.floor(head / (heads / kvHeads))
        const scores = k
          .slice(0, position + 1)
          .map((keys) => total(query.map((value, at) => value * keys[kv]![at]!)) / Math.sqrt(headDim))
        const seen = softmax(scores)
        return query.map((_, at) => total(seen.map((weight, key) => weight * v[key]![kv]![at]!)))
      })
      return plus(x, times(mixed, weights(`${prefix}.self_attn.o_proj.weight`), hidden))
    })

    const inputs = stream.map((x) => norm(x, weights(`${prefix}.post_attention_layernorm.weight`), epsilon))
    if (layer < config.denseLayers || layer % config.moeFrequency !== 0) {
      stream = stream.map((x, at) => plus(x, feedForward(inputs[at]!, `${prefix}.mlp`, config.mlp)))
      continue
    }
    const block = `${prefix}.${names.block}`
    const taken = new Array<number>(config.experts).fill(0)
    const chosenCounts = new Array<number>(config.experts).fill(0)
    const shareSums = new Array<number>(config.experts).fill(0)
    let squares = 0
    stream = stream.map((x, at) => {
      const input = inputs[at]!
      const logits = times(input, weights(`${block}.gate.weight`), config.experts)
      squares += Math.log(total(logits.map(Math.exp))) ** 2
      const scores = config.scoring === 'softmax' ? softmax(logits) : logits.map(sigmoid)
      scores.forEach((score, expert) => {
        shareSums[expert]! += score / total(scores)
      })
      const bias = config.routerBias ? weights(`${block}.gate.e_score_correction_bias`) : undefined
      const merit = scores.map((score, expert) => score + (bias?.[expert] ?? 0))
      const order = (values: Vector): number[] =>
        [...values.keys()].sort((a, b) => values[b]! - values[a]! || a - b)
      const size = config.experts / config.groups
      const groupMerit = Array.from({ length: config.groups }, (_, group) => {
        const own = merit.slice(group * size, (group + 1) * size).sort((a, b) => b - a)
        return total(own.slice(0, config.scoring === 'sigmoid' ? 2 : 1))
      })
      const groups = config.groups === 1 ? [0] : order(groupMerit).slice(0, config.groupsPerToken)
      const chosen = order(merit)
        .filter((expert) => groups.includes(Math.floor(expert / size)))
        .slice(0, config.topk)
      const gates = chosen.map((expert) => scores[expert]!)
      const scale = config.gateScale / (config.normalizeGates ? total(gates) : 1)
      let result: number[] = [...x]
      chosen.forEach((expert, rank) => {
        chosenCounts[expert]!++
        if (taken[expert]!++ >= capacity) {
          dropped++
          return
        }
        const start = expert * config.expertMlp * hidden
        const weight = (name: string): ArrayLike<number> => weights(`${block}.experts.${name}.weight`)
        const gate = times(input, weight(names.gate), config.expertMlp, start)
        const up = times(input, weight(names.up), config.expertMlp, start)
        const inner = gate.map((value, index) => value * sigmoid(value) * up[index]!)
        const output = times(inner, weight(names.down), hidden, start)
        result = plus(
          result,
          output.map((value) => value * gates[rank]! * scale),
        )
      })
      return config.sharedExperts === 0
        ? result
        : plus(result, feedForward(input, `${block}.shared_experts`, config.sharedExperts * config.expertMlp))
    })
    const products = total(
      chosenCounts.map((count, expert) => (count / length) * (shareSums[expert]! / length)),
    )
    const balance = (config.experts / (config.balance === 'sequence' ? config.topk : 1)) * products
    auxiliary += config.balanceWeight * balance + config.zLossWeight * (squares / length)
  }

  const crossEntropy = stream.map((x, at) => {
    const label = sequence.labels[at]!
    if (label < 0) return 0
    const last = norm(x, weights('model.norm.weight'), epsilon)
    return -Math.log(softmax(times(last, weights('lm_head.weight'), config.vocab))[label]!)
  })
  return { loss: total(crossEntropy) + length * auxiliary, dropped }
}
