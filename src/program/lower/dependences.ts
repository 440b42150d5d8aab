import { columnAccess } from '../columnAccesses.ts'
import { IntList } from '../intList.ts'
import type { AccessTable } from './accesses.ts'
import type { Dag } from './dag.ts'
import { Grouped } from './grouped.ts'

/** For each node, the nodes it must follow, and those that must follow it, each once. */
export function dependences(dag: Dag): { readonly before: Grouped; readonly after: Grouped } {
  const table = dag.accesses
  const { node, kind } = table
  const edges = new Edges()
  for (const { id, after } of dag.nodes)
    if (after !== undefined) for (const earlier of after) edges.add(earlier, id)
  const accesses = new Grouped(table.values, table.value)
  const { start, end, list } = accesses
  for (let number = 0; number < table.values; number++) {
    let writers = 0
    let writer = -1
    for (let at = start[number]!; at < end[number]!; at++) {
      const use = list[at]!
      if (kind[use] !== columnAccess.read && node[use] !== writer) {
        writers++
        writer = node[use]!
      }
    }
    // With one writer, whoever reads the value comes after it, in whatever order the passes added them.
    if (writers === 1)
      for (let at = start[number]!; at < end[number]!; at++) edges.add(writer, node[list[at]!]!)
    else sequence(table, { node, kind }, accesses.of(number), edges)
    // What a step leaves in a state buffer overwrites what the step was given.
    const left = table.nextVersion(number)
    if (left === undefined) continue
    for (const writer of accesses.of(left))
      for (const use of accesses.of(number))
        if (touches(table, use, writer)) edges.add(node[use]!, node[writer]!)
  }
  const { from, to } = edges
  const nodes = dag.nodes.length
  return {
    before: new Grouped(nodes, to, from).dropRepeated(nodes),
    after: new Grouped(nodes, from, to).dropRepeated(nodes),
  }
}

/** An accumulator means its accesses in the order of insertion: reads after the writes they overlap, and so on. */
function sequence(
  table: AccessTable,
  { node, kind }: { readonly node: Int32Array; readonly kind: Int32Array },
  uses: Int32Array,
  edges: Edges,
): void {
  let writes: number[] = []
  let reads: number[] = []
  for (const use of uses) {
    const isRead = kind[use] === columnAccess.read
    for (const write of writes) if (touches(table, write, use)) edges.add(node[write]!, node[use]!)
    if (isRead) {
      reads.push(use)
      continue
    }
    for (const read of reads) if (touches(table, read, use)) edges.add(node[read]!, node[use]!)
    // Whoever meets what a write covers follows the write, and through it all that came before.
    writes = writes.filter((write) => !covers(table, use, write))
    reads = reads.filter((read) => !covers(table, use, read))
    writes.push(use)
  }
}

function touches(table: AccessTable, a: number, b: number): boolean {
  const [left, right] = [table.region(a), table.region(b)]
  return left === undefined || right === undefined || (left.start < right.end && right.start < left.end)
}

function covers(table: AccessTable, a: number, b: number): boolean {
  const [outer, inner] = [table.region(a), table.region(b)]
  return outer === undefined || (inner !== undefined && outer.start <= inner.start && inner.end <= outer.end)
}

class Edges {
  private readonly earlier = new IntList()
  private readonly later = new IntList()

  get from(): Int32Array {
    return this.earlier.view()
  }

  get to(): Int32Array {
    return this.later.view()
  }

  /** A node does not wait for itself. */
  add(from: number, to: number): void {
    if (from === to) return
    this.earlier.push(from)
    this.later.push(to)
  }
}
