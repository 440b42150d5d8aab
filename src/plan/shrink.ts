import { greatestCommonDivisor, leastCommonMultiple } from '../base/index.ts'
import type { ModelConfig, MoeConfig } from '../models/index.ts'

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

/** Parts into which the ranks of a miniature cut sizes of its model, as those of the plan cut the model's. */
export interface ShrunkParts {
  /** Some size is cut, so that none may be left as it is. */
  readonly isCut: boolean
  readonly heads: number
  readonly kvHeads: number
  /** What the feed-forward layers and experts must divide by. */
  readonly mlp: number
  readonly expertMlp: number
  /** Parts of the experts, and whether a part is one expert. */
  readonly experts: number
  readonly isOneExpert: boolean
  /** Parts of the vocabulary, before and after. */
  readonly vocabulary: readonly [number, number]
}

/**
 * At most four experts, or two for each of more parts. Kept: whether a token has several or all of them, whether there are
 * groups and a token's experts are of all of them, whether some layers have none; at least one layer has experts.
 */
function fewerExperts(
  config: MoeConfig,
  layers: number,
  parts: ShrunkParts,
): Pick<MoeConfig, 'experts' | 'topk' | 'groups' | 'groupsPerToken' | 'denseLayers' | 'moeFrequency'> {
  const groups = Math.min(config.groups, 2)
  const groupsPerToken = config.groupsPerToken === config.groups ? groups : 1
  let perGroup = Math.min(config.experts / config.groups, groups === 1 ? 4 : 2)
  if (parts.experts > 1) {
    const wanted = parts.experts * (parts.isOneExpert ? 1 : 2)
    const fewest = config.topk === config.experts ? 1 : Math.min(config.topk, 2) + 1
    perGroup = Math.max(Math.ceil(wanted / groups), Math.ceil(fewest / groupsPerToken))
    while ((groups * perGroup) % parts.experts !== 0) perGroup++
  }
  const experts = groups * perGroup
  const eligible = groupsPerToken * perGroup
  const topk = config.topk === config.experts ? experts : Math.min(config.topk, 2, eligible)
  const moeFrequency = Math.min(config.moeFrequency, 2)
  const lastWithExperts = moeFrequency * Math.floor((layers - 1) / moeFrequency)
  return {
    experts,
    topk,
    groups,
    groupsPerToken,
    denseLayers: Math.min(config.denseLayers, 1, lastWithExperts),
    moeFrequency,
  }
}

/**
 * The model with few layers and narrow ones. Kept: whether there are several heads, how heads share keys and values,
 * the ratio of the feed-forward layer, tying, what `fewerExperts` keeps, and everything that is not a size.
 */
export function shrinkModel(
  config: ModelConfig,
  {
    layers,
    context,
    parts,
  }: { readonly layers: number; readonly context: number; readonly parts: ShrunkParts },
): ModelConfig {
  const { heads, kvHeads } = parts
  const vocab = shrinkVocabulary(config.vocab, parts.vocabulary)
  const hidden = heads * headWidth
  const few = config.family === 'moe' ? fewerExperts(config, layers, parts) : {}
  if (hidden >= config.hidden && !parts.isCut) return { ...config, ...few, layers, context, vocab }
  const toMultiple = (size: number, unit: number): number => Math.max(1, Math.ceil(size / unit)) * unit
  const mlp = toMultiple(Math.ceil((config.mlp / config.hidden) * hidden), parts.mlp)
  const narrow = { layers, context, vocab, hidden, heads, mlp }
  if (config.family === 'gpt') return { ...config, ...narrow }
  const decoder = {
    ...narrow,
    headDim: headWidth,
    kvHeads,
  }
  if (config.family === 'llama') return { ...config, ...decoder }
  const ratio = hidden / config.hidden
  const narrowed = (size: number): number => (size === 0 ? 0 : Math.max(1, Math.ceil(size * ratio)))
  const isLatent = config.kvLoraRank > 0
  return {
    ...config,
    ...few,
    ...decoder,
    qLoraRank: narrowed(config.qLoraRank),
    kvLoraRank: narrowed(config.kvLoraRank),
    ropeHeadDim: isLatent ? headWidth / 2 : headWidth,
    valueHeadDim: headWidth,
    // Shared experts are feed-forward layers of some times that width.
    expertMlp: toMultiple(narrowed(config.expertMlp), leastCommonMultiple(parts.expertMlp, parts.mlp)),
  }
}

/** Few rows, which divide into parts where they did. */
function shrinkVocabulary(vocab: number, [before, after]: readonly [number, number]): number {
  let rows = Math.min(vocab, byteVocabulary)
  while (after > 1 && (rows % after === 0) !== (vocab % before === 0)) rows++
  return rows
}
