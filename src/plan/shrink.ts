import { greatestCommonDivisor } from '../base/index.ts'
import type { ModelConfig } from '../models/index.ts'

/** Width of a head of a miniature: even, as rotary positions need. */
const headWidth = 8
/** Bytes are tokens: a smaller vocabulary would not hold every text. */
const byteVocabulary = 256

/** Equal numbers stay equal, larger stay larger, one stays one and several stay several: the smallest such. */
export function shrinkLayers(layers: readonly number[]): number[] {
  const distinct = [...new Set(layers)].sort((a, b) => a - b)
  const first = distinct[0] === 1 ? 1 : 2
  return layers.map((count) => Math.min(count, first + distinct.indexOf(count)))
}

/**
 * Replicas of each actor, few enough for `limit` ranks in all: the same ratios if they fit, else the same order and, of
 * actors that are `neighbours`, the same answers to which divides which, else one each.
 */
export function shrinkReplicas(
  replicas: readonly number[],
  limit: number,
  neighbours: readonly (readonly [number, number])[],
): number[] {
  const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0)
  if (total(replicas) <= limit) return [...replicas]
  const divisor = replicas.reduce(greatestCommonDivisor)
  const ratios = replicas.map((count) => count / divisor)
  const isKept = ratios.every((count, actor) => count > 1 === replicas[actor]! > 1)
  const scaled = isKept ? ratios : ratios.map((count) => 2 * count)
  if (total(scaled) <= limit) return scaled
  return shrinkClasses(replicas, limit, neighbours) ?? replicas.map(() => 1)
}

/** Most different numbers of replicas that are searched: the search is over all assignments. */
const maximumDistinct = 4

function shrinkClasses(
  replicas: readonly number[],
  limit: number,
  neighbours: readonly (readonly [number, number])[],
): number[] | undefined {
  const distinct = [...new Set(replicas)].sort((a, b) => a - b)
  if (distinct.length > maximumDistinct) return undefined
  const divides = (a: number, b: number): boolean => b % a === 0
  let best: { readonly counts: number[]; readonly total: number } | undefined
  const search = (chosen: readonly number[]): void => {
    if (chosen.length < distinct.length) {
      const isOne = distinct[chosen.length] === 1
      const lowest = isOne ? 1 : Math.max(2, (chosen.at(-1) ?? 0) + 1)
      for (let next = lowest; next <= (isOne ? 1 : limit); next++) search([...chosen, next])
      return
    }
    const counts = replicas.map((count) => chosen[distinct.indexOf(count)]!)
    const total = counts.reduce((sum, count) => sum + count, 0)
    if (total > (best === undefined ? limit : best.total - 1)) return
    const keeps = neighbours.every(([a, b]) => {
      const [before, now] = [replicas[a]!, replicas[b]!]
      return (
        divides(before, now) === divides(counts[a]!, counts[b]!) &&
        divides(now, before) === divides(counts[b]!, counts[a]!)
      )
    })
    if (keeps) best = { counts, total }
  }
  search([])
  return best?.counts
}

/**
 * The model with few layers and narrow ones. Kept: whether there are several heads, how heads share keys and values,
 * the ratio of the feed-forward layer, tying, and everything that is not a size.
 */
export function shrinkModel(
  config: ModelConfig,
  { layers, context }: { readonly layers: number; readonly context: number },
): ModelConfig {
  const vocab = Math.min(config.vocab, byteVocabulary)
  const kvHeads = config.family === 'llama' ? config.kvHeads : config.heads
  const sharesSome = kvHeads > 1 && kvHeads < config.heads
  const heads = Math.min(config.heads, sharesSome ? 4 : 2)
  const hidden = heads * headWidth
  if (hidden >= config.hidden) return { ...config, layers, context, vocab }
  const mlp = Math.max(1, Math.ceil((config.mlp / config.hidden) * hidden))
  const narrow = { layers, context, vocab, hidden, heads, mlp }
  if (config.family === 'gpt') return { ...config, ...narrow }
  return {
    ...config,
    ...narrow,
    headDim: headWidth,
    kvHeads: kvHeads === config.heads ? heads : sharesSome ? 2 : 1,
  }
}
