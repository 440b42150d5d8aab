import { type Access, type Dag, visitAccesses } from './dag.ts'

/** For each node, some other nodes, each once, in the order in which they were added. */
export interface Neighbours {
  readonly count: (node: number) => number
  readonly of: (node: number) => Int32Array
}

/** For each node, the nodes it must follow, and those that must follow it. */
export function dependences(dag: Dag): { readonly before: Neighbours; readonly after: Neighbours } {
  const edges = new Edges()
  for (const node of dag.nodes)
    if (node.kind === 'run' && node.after !== undefined) edges.add(node.after, node.id)
  for (const { accesses, next } of valueUses(dag)) {
    const writers = accesses.filter(({ kind }) => kind !== 'read')
    // With one writer, whoever reads the value comes after it, in whatever order the passes added them.
    if (writers.length === 1) for (const { node } of accesses) edges.add(writers[0]!.node, node)
    else sequence(accesses, edges)
    // What a step leaves in a state buffer overwrites what the step was given.
    for (const writer of next)
      for (const reader of accesses) if (touches(reader, writer)) edges.add(reader.node, writer.node)
  }
  return edges.neighbours(dag.nodes.length)
}

interface Use {
  readonly node: number
  readonly kind: Access['kind']
  readonly region: Access['operand']['region']
}

interface ValueUses {
  /** In the order of insertion. */
  readonly accesses: Use[]
  /** Those of what the step leaves in the same state. */
  next: readonly Use[]
}

/** Uses of every value, values in the order of their first access. */
function valueUses(dag: Dag): Iterable<ValueUses> {
  const byValue = new Map<number, ValueUses>()
  const states: { readonly now: ValueUses; readonly next: number }[] = []
  for (const node of dag.nodes)
    visitAccesses(node, (actor, operand, kind) => {
      const value = dag.valueNumber(actor, operand)
      let uses = byValue.get(value)
      if (uses === undefined) {
        uses = { accesses: [], next: [] }
        byValue.set(value, uses)
        if (operand.step === 0)
          states.push({ now: uses, next: dag.valueNumber(actor, { ...operand, step: 1 }) })
      }
      uses.accesses.push({ node: node.id, kind, region: operand.region })
    })
  for (const { now, next } of states) now.next = byValue.get(next)?.accesses ?? []
  return byValue.values()
}

/** An accumulator means its accesses in the order of insertion: reads after the writes they overlap, and so on. */
function sequence(accesses: readonly Use[], edges: Edges): void {
  let writes: Use[] = []
  let reads: Use[] = []
  const follow = (use: Use, earlier: readonly Use[]): void => {
    for (const other of earlier) if (touches(other, use)) edges.add(other.node, use.node)
  }
  for (const use of accesses) {
    follow(use, writes)
    if (use.kind === 'read') {
      reads.push(use)
      continue
    }
    follow(use, reads)
    // Whoever comes after a write of the whole follows it, and through it all that came before.
    if (use.region === undefined) {
      writes = []
      reads = []
    }
    writes.push(use)
  }
}

function touches({ region: a }: Use, { region: b }: Use): boolean {
  return a === undefined || b === undefined || (a.start < b.end && b.start < a.end)
}

class Edges {
  private readonly from: number[] = []
  private readonly to: number[] = []

  /** A node does not wait for itself. */
  add(from: number, to: number): void {
    if (from === to) return
    this.from.push(from)
    this.to.push(to)
  }

  neighbours(nodes: number): { before: Neighbours; after: Neighbours } {
    return { before: grouped(nodes, this.to, this.from), after: grouped(nodes, this.from, this.to) }
  }
}

/** `others` by the node at the same place in `keys`. */
function grouped(nodes: number, keys: readonly number[], others: readonly number[]): Neighbours {
  const start = new Int32Array(nodes + 1)
  for (const key of keys) start[key + 1]!++
  for (let node = 0; node < nodes; node++) start[node + 1]! += start[node]!
  const end = start.slice(0, nodes)
  const list = new Int32Array(keys.length)
  keys.forEach((key, index) => {
    list[end[key]!++] = others[index]!
  })
  // Each once: what was seen for a node bears its mark.
  const mark = new Int32Array(nodes).fill(-1)
  for (let node = 0; node < nodes; node++) {
    let kept = start[node]!
    for (let at = start[node]!; at < end[node]!; at++) {
      const other = list[at]!
      if (mark[other] === node) continue
      mark[other] = node
      list[kept++] = other
    }
    end[node] = kept
  }
  return {
    count: (node) => end[node]! - start[node]!,
    of: (node) => list.subarray(start[node]!, end[node]!),
  }
}
