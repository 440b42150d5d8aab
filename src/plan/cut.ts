import { internalError } from '../base/index.ts'

/** Work of one block: as `blockCosts` of graph/ gives it. */
export interface BlockCost {
  readonly flops: number
  /** Bytes read plus written. */
  readonly bytes: number
}

/**
 * Flops that take as long as moving one byte. An estimate for one CPU core: some 50 Gflop/s in f32 against 10 GB/s of
 * memory. It only decides how much the table lookups of the embedding weigh beside matrix products, which is little
 * for any value near it.
 */
export const flopsPerByte = 5

/** Roofline: a block takes as long as the slower of its arithmetic and its memory traffic. In flops. */
export function blockWeight({ flops, bytes }: BlockCost): number {
  return Math.max(flops, bytes * flopsPerByte)
}

export interface CutRequest {
  /** Cost of each layer, in model order. */
  readonly layers: readonly number[]
  /** Of what goes with the first layer of the first stage (embedding). */
  readonly before: number
  /** Of what goes with the last layer of the last stage (head). */
  readonly after: number
  /** Ranks that share the work of each stage. */
  readonly replicas: readonly number[]
}

/**
 * Layers of each stage so that the largest cost of a stage for each of its replicas is as small as can be. Exact. Of
 * the cuts that reach it, the most even one (least sum of squares), and of those the one with more layers in earlier
 * stages. There must be at least as many layers as stages: every stage gets one.
 */
export function cutLayers({ layers, before, after, replicas }: CutRequest): number[] {
  const stages = replicas.length
  const count = layers.length
  if (stages < 1 || count < stages) throw internalError(`${count} layers on ${stages} stages`)
  const prefix = [0]
  for (const cost of layers) prefix.push(prefix.at(-1)! + cost)
  const cost: StageCost = (stage, from, to) =>
    (prefix[to]! - prefix[from]! + (stage === 0 ? before : 0) + (stage === stages - 1 ? after : 0)) /
    replicas[stage]!

  const largest = bestBySuffix(stages, count, cost, Number.POSITIVE_INFINITY, Math.max)
  const limit = largest[0]![0]! * (1 + tolerance)
  // Among cuts within the limit, sums of squares: they only grow, so the first part alone may rule an end out too.
  const squares = bestBySuffix(
    stages,
    count,
    (stage, from, to) => cost(stage, from, to) ** 2,
    limit ** 2 * (1 + tolerance),
    (own, rest) => own + rest,
  )
  const result: number[] = []
  let from = 0
  for (let stage = 0; stage < stages - 1; stage++) {
    const best = squares[stage]![from - stage]! * (1 + tolerance)
    // The furthest end that is as good as the best one.
    let end = count - (stages - 1 - stage)
    while (end > from + 1) {
      const own = cost(stage, from, end)
      if (own <= limit && own ** 2 + squares[stage + 1]![end - stage - 1]! <= best) break
      end--
    }
    result.push(end - from)
    from = end
  }
  return [...result, count - from]
}

/** Cost of a stage that holds layers from … to - 1; never less for more layers. */
type StageCost = (stage: number, from: number, to: number) => number

/** Costs closer than this, relatively, are equal: sums of the same numbers in another order. */
const tolerance = 1e-9

/**
 * Row s, column f: the best that stages s and later can do with the layers from s + f on, joining their costs. Costs
 * over `limit` are out. A longer first part never costs less, so the search for its end stops once that part alone is
 * no better than the best found: in practice after about an even share.
 */
function bestBySuffix(
  stages: number,
  count: number,
  cost: StageCost,
  limit: number,
  join: (own: number, rest: number) => number,
): Float64Array[] {
  const width = count - stages + 1
  const rows = Array.from({ length: stages }, () => new Float64Array(width).fill(Number.POSITIVE_INFINITY))
  for (let stage = stages - 1; stage >= 0; stage--)
    for (let column = 0; column < width; column++) {
      const from = stage + column
      if (stage === stages - 1) {
        const own = cost(stage, from, count)
        if (own <= limit) rows[stage]![column] = own
        continue
      }
      let best = Number.POSITIVE_INFINITY
      for (let to = from + 1; to - stage - 1 < width; to++) {
        const own = cost(stage, from, to)
        if (own > limit || own >= best) break
        best = Math.min(best, join(own, rows[stage + 1]![to - stage - 1]!))
      }
      rows[stage]![column] = best
    }
  return rows
}
