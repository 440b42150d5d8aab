/** Union-find over 0 .. size - 1. */
export class Merged {
  private readonly parent: Int32Array

  constructor(size: number) {
    this.parent = Int32Array.from({ length: size }, (_, index) => index)
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
}

export interface Edge<T> {
  readonly from: number
  readonly to: number
  readonly label: T
}

/** A shortest cycle through some node that lies on one, as its edges in order; undefined when there is none. */
export function findCycle<T>(nodes: number, edges: readonly Edge<T>[]): Edge<T>[] | undefined {
  if (isAcyclic(nodes, edges)) return undefined
  const remaining = nodesOnCycles(nodes, edges)
  const out = new Map<number, Edge<T>[]>()
  for (const edge of edges) {
    if (!remaining.has(edge.from) || !remaining.has(edge.to)) continue
    const list = out.get(edge.from)
    if (list === undefined) out.set(edge.from, [edge])
    else list.push(edge)
  }
  let best: Edge<T>[] | undefined
  let tries = 0
  for (const start of remaining) {
    // Each try is linear; a few dozen starts are enough to show a short cycle rather than the first one met.
    if (best !== undefined && ++tries > 64) break
    const cycle = shortestCycleFrom(start, out)
    if (cycle !== undefined && (best === undefined || cycle.length < best.length)) best = cycle
  }
  return best
}

/** Whether all nodes can be taken away one by one, each when it has no predecessor left. */
function isAcyclic<T>(nodes: number, edges: readonly Edge<T>[]): boolean {
  const start = new Int32Array(nodes + 1)
  const waiting = new Int32Array(nodes)
  for (const { from, to } of edges) {
    start[from + 1]!++
    waiting[to]!++
  }
  for (let node = 0; node < nodes; node++) start[node + 1]! += start[node]!
  const next = start.slice()
  const successors = new Int32Array(edges.length)
  for (const { from, to } of edges) successors[next[from]!++] = to
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
function nodesOnCycles<T>(nodes: number, edges: readonly Edge<T>[]): Set<number> {
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

function shortestCycleFrom<T>(
  start: number,
  out: ReadonlyMap<number, readonly Edge<T>[]>,
): Edge<T>[] | undefined {
  const reachedBy = new Map<number, Edge<T>>()
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
