/** Union-find over 0 .. size - 1. */
export class Merged {
  private readonly parent: Int32Array

  constructor(size: number) {
    this.parent = new Int32Array(size)
    for (let item = 0; item < size; item++) this.parent[item] = item
  }

  find(item: number): number {
    let root = item
    while (this.parent[root] !== root) root = this.parent[root]!
    for (let at = item; at !== root; ) {
      const next = this.parent[at]!
      this.parent[at] = root
      at = next
    }
    return root
  }

  merge(a: number, b: number): void {
    this.parent[this.find(a)] = this.find(b)
  }

  mergeAll({ from, to }: GraphEdges): void {
    for (let pair = 0; pair < from.length; pair++) this.merge(from[pair]!, to[pair]!)
  }

  findAll(items: Int32Array): Int32Array {
    const found = new Int32Array(items.length)
    for (let index = 0; index < items.length; index++) found[index] = this.find(items[index]!)
    return found
  }
}

/** Edges of a graph: from[i] comes before to[i]. */
export interface GraphEdges {
  readonly from: Int32Array
  readonly to: Int32Array
}

interface Edge {
  readonly from: number
  readonly to: number
  readonly index: number
}

/** A shortest cycle through some node that lies on one, as indices of its edges in order; undefined when there is none. */
export function findCycle(nodes: number, { from, to }: GraphEdges): number[] | undefined {
  if (isAcyclic(nodes, { from, to })) return undefined
  const edges = Array.from(from, (node, index): Edge => ({ from: node, to: to[index]!, index }))
  const remaining = nodesOnCycles(nodes, edges)
  const out = new Map<number, Edge[]>()
  for (const edge of edges) {
    if (!remaining.has(edge.from) || !remaining.has(edge.to)) continue
    const list = out.get(edge.from)
    if (list === undefined) out.set(edge.from, [edge])
    else list.push(edge)
  }
  let best: Edge[] | undefined
  let tries = 0
  for (const start of remaining) {
    // Each try is linear; a few dozen starts are enough to show a short cycle rather than the first one met.
    if (best !== undefined && ++tries > 64) break
    const cycle = shortestCycleFrom(start, out)
    if (cycle !== undefined && (best === undefined || cycle.length < best.length)) best = cycle
  }
  return best?.map(({ index }) => index)
}

/** Whether all nodes can be taken away one by one, each when it has no predecessor left. */
function isAcyclic(nodes: number, { from, to }: GraphEdges): boolean {
  const start = new Int32Array(nodes + 1)
  const waiting = new Int32Array(nodes)
  for (const node of from) start[node + 1]!++
  for (const node of to) waiting[node]!++
  for (let node = 0; node < nodes; node++) start[node + 1]! += start[node]!
  const next = start.slice()
  const successors = new Int32Array(from.length)
  for (let edge = 0; edge < from.length; edge++) successors[next[from[edge]!]!++] = to[edge]!
  const queue = new Int32Array(nodes)
  let length = 0
  for (let node = 0; node < nodes; node++) if (waiting[node] === 0) queue[length++] = node
  for (let at = 0; at < length; at++) {
    const node = queue[at]!
    for (let edge = start[node]!; edge < start[node + 1]!; edge++)
      if (--waiting[successors[edge]!]! === 0) queue[length++] = successors[edge]!
  }
  return length === nodes
}

/** Nodes left after taking away, again and again, those without a predecessor or without a successor. */
function nodesOnCycles(nodes: number, edges: readonly Edge[]): Set<number> {
  const remaining = new Set<number>(Array.from({ length: nodes }, (_, index) => index))
  for (const [near, far] of [
    ['from', 'to'],
    ['to', 'from'],
  ] as const) {
    const degree = new Int32Array(nodes)
    const next = new Map<number, number[]>()
    for (const edge of edges) {
      if (!remaining.has(edge.from) || !remaining.has(edge.to)) continue
      degree[edge[far]]!++
      const list = next.get(edge[near])
      if (list === undefined) next.set(edge[near], [edge[far]])
      else list.push(edge[far])
    }
    const queue = [...remaining].filter((node) => degree[node] === 0)
    for (let node = queue.pop(); node !== undefined; node = queue.pop()) {
      remaining.delete(node)
      for (const other of next.get(node) ?? []) if (--degree[other]! === 0) queue.push(other)
    }
  }
  return remaining
}

function shortestCycleFrom(start: number, out: ReadonlyMap<number, readonly Edge[]>): Edge[] | undefined {
  const reachedBy = new Map<number, Edge>()
  const queue = [start]
  for (let at = 0; at < queue.length; at++) {
    for (const edge of out.get(queue[at]!) ?? []) {
      if (edge.to === start) {
        const cycle = [edge]
        for (let node = edge.from; node !== start; ) {
          const back = reachedBy.get(node)!
          cycle.unshift(back)
          node = back.from
        }
        return cycle
      }
      if (reachedBy.has(edge.to)) continue
      reachedBy.set(edge.to, edge)
      queue.push(edge.to)
    }
  }
  return undefined
}
