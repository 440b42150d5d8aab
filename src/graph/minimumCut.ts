import { internalError } from '../base/index.ts'

export interface FlowEdge {
  readonly from: number
  readonly to: number
  /** Not negative; whole numbers, or Infinity for an edge that must not be cut. */
  readonly capacity: number
}

export interface MinimumCut {
  /** Sum of the capacities of the edges that are cut. */
  readonly capacity: number
  /** For each node whether it is on the sink's side. */
  readonly sinkSide: readonly boolean[]
}

/**
 * A cheapest set of edges that parts `source` from `sink`, by Dinic's algorithm (blocking flows over breadth-first
 * levels; Dinic 1970). Of several cheapest cuts it gives the one nearest to the sink. Exact while the flow stays below
 * 2^53. Throws an internal error when only an edge of infinite capacity could be cut.
 */
export function minimumCut(
  nodeCount: number,
  edges: readonly FlowEdge[],
  source: number,
  sink: number,
): MinimumCut {
  const network = new ResidualNetwork(nodeCount, edges)
  let capacity = 0
  while (true) {
    const level = network.levels(source)
    if (level[sink]! < 0) break
    capacity += network.blockingFlow(level, source, sink)
    if (capacity === Infinity) throw internalError('every cut of the graph has infinite capacity')
  }
  return { capacity, sinkSide: network.reaching(sink) }
}

/** What can still flow along each edge. Edge 2k is the k-th given one, 2k + 1 its reverse. */
class ResidualNetwork {
  private readonly nodeCount: number
  private readonly target: Int32Array
  private readonly remaining: Float64Array
  private readonly edgesOf: readonly number[][]

  constructor(nodeCount: number, edges: readonly FlowEdge[]) {
    this.nodeCount = nodeCount
    this.target = new Int32Array(2 * edges.length)
    this.remaining = new Float64Array(2 * edges.length)
    this.edgesOf = Array.from({ length: nodeCount }, () => [])
    edges.forEach((edge, index) => {
      this.target[2 * index] = edge.to
      this.target[2 * index + 1] = edge.from
      this.remaining[2 * index] = edge.capacity
      this.edgesOf[edge.from]!.push(2 * index)
      this.edgesOf[edge.to]!.push(2 * index + 1)
    })
  }

  /** Fewest edges from `source` to each node over edges that can carry more; -1 where there is no way. */
  levels(source: number): Int32Array {
    const level = new Int32Array(this.nodeCount).fill(-1)
    level[source] = 0
    const queue = [source]
    for (const node of queue) {
      for (const edge of this.edgesOf[node]!) {
        const next = this.target[edge]!
        if (level[next]! >= 0 || this.remaining[edge]! <= 0) continue
        level[next] = level[node]! + 1
        queue.push(next)
      }
    }
    return level
  }

  /** Fills every shortest way from source to sink; returns what was sent. Walks with a stack: ways may be long. */
  blockingFlow(level: Int32Array, source: number, sink: number): number {
    const cursor = new Int32Array(this.nodeCount)
    const way: number[] = []
    let sent = 0
    let node = source
    while (true) {
      if (node === sink) {
        let amount = Infinity
        for (const edge of way) amount = Math.min(amount, this.remaining[edge]!)
        if (amount === Infinity) return Infinity
        sent += amount
        for (const edge of way) {
          this.remaining[edge]! -= amount
          this.remaining[edge ^ 1]! += amount
        }
        const firstFull = way.findIndex((edge) => this.remaining[edge] === 0)
        node = this.target[way[firstFull]! ^ 1]!
        way.length = firstFull
        continue
      }
      const candidates = this.edgesOf[node]!
      const edge = candidates[cursor[node]!]
      if (edge === undefined) {
        const last = way.pop()
        if (last === undefined) return sent
        node = this.target[last ^ 1]!
        cursor[node]! += 1
      } else if (this.remaining[edge]! > 0 && level[this.target[edge]!] === level[node]! + 1) {
        way.push(edge)
        node = this.target[edge]!
      } else {
        cursor[node]! += 1
      }
    }
  }

  /** The nodes from which more could still reach `sink`. */
  reaching(sink: number): boolean[] {
    const reached = new Array<boolean>(this.nodeCount).fill(false)
    reached[sink] = true
    const queue = [sink]
    for (const node of queue) {
      for (const edge of this.edgesOf[node]!) {
        const previous = this.target[edge]!
        if (reached[previous] || this.remaining[edge ^ 1]! <= 0) continue
        reached[previous] = true
        queue.push(previous)
      }
    }
    return reached
  }
}
