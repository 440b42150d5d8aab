import { internalError } from '../../base/index.ts'
import { type Access, accesses, type Dag, type DagNode, participants, valueKey } from './dag.ts'

/** For each node, the nodes it must follow. */
export function dependences(dag: Dag): number[][] {
  const before: Set<number>[] = dag.nodes.map(() => new Set<number>())
  for (const node of dag.nodes)
    if (node.kind === 'run' && node.after !== undefined) before[node.id]!.add(node.after)
  const byValue = new Map<string, { node: number; access: Access }[]>()
  for (const node of dag.nodes)
    for (const access of accesses(node)) {
      const key = `${access.actor}:${valueKey(access.operand)}`
      const list = byValue.get(key)
      if (list === undefined) byValue.set(key, [{ node: node.id, access }])
      else list.push({ node: node.id, access })
    }
  for (const [key, list] of byValue) {
    const writers = list.filter(({ access }) => access.kind !== 'read')
    if (writers.length === 1) {
      // Whoever reads it comes after it, in whatever order the passes added them.
      for (const { node } of list) if (node !== writers[0]!.node) before[node]!.add(writers[0]!.node)
    } else {
      sequence(list, before)
    }
    // What a step leaves in a state buffer overwrites what the step was given.
    if (list[0]!.access.operand.step === 0) {
      const next = byValue.get(key.replace('[0,', '[1,')) ?? []
      for (const writer of next)
        for (const reader of list)
          if (reader.node !== writer.node && touches(reader.access, writer.access))
            before[writer.node]!.add(reader.node)
    }
  }
  return before.map((set) => [...set])
}

/** An accumulator means its accesses in the order of insertion: reads after the writes they overlap, and so on. */
function sequence(list: readonly { node: number; access: Access }[], before: Set<number>[]): void {
  let seen: { node: number; access: Access }[] = []
  for (const entry of list) {
    for (const earlier of seen) {
      if (earlier.node === entry.node) continue
      if (earlier.access.kind === 'read' && entry.access.kind === 'read') continue
      if (touches(earlier.access, entry.access)) before[entry.node]!.add(earlier.node)
    }
    // Whoever comes after a write of the whole follows it, and through it all that came before.
    const barrier = entry.access.kind !== 'read' && entry.access.operand.region === undefined
    if (barrier) seen = [entry]
    else seen.push(entry)
  }
}

function touches(a: Access, b: Access): boolean {
  const [left, right] = [a.operand.region, b.operand.region]
  return left === undefined || right === undefined || (left.start < right.end && right.start < left.end)
}

/**
 * The one final order of everything: list scheduling over all actors and streams with the plan's latencies, as JaxPP
 * orders its tasks (section "Compiler pipeline", step 6), communication included. Every actor's list is a part of one
 * global order, which is why no order of sends, receives and collectives can block.
 * Moves into the program wait until just before their first reader.
 */
export function orderNodes(dag: Dag): DagNode[] {
  const before = dependences(dag)
  const after: number[][] = dag.nodes.map(() => [])
  before.forEach((list, node) => {
    for (const earlier of list) after[earlier]!.push(node)
  })
  const waiting = before.map((list) => list.length)
  const readyAt = new Float64Array(dag.nodes.length)
  const free = new Map<string, number>()
  const startOf = (node: DagNode): number =>
    participants(node).reduce(
      (latest, actor) => Math.max(latest, free.get(`${actor}:${node.stream}`) ?? 0),
      readyAt[node.id]!,
    )
  const ready = new Heap()
  const ordered: DagNode[] = []
  const emitted = new Uint8Array(dag.nodes.length)
  const emit = (node: DagNode): void => {
    if (emitted[node.id] === 1) return
    emitted[node.id] = 1
    for (const earlier of before[node.id]!) {
      const lazy = dag.nodes[earlier]!
      if (lazy.kind === 'move' && lazy.direction === 'in') emit(lazy)
    }
    ordered.push(node)
  }
  for (const node of dag.nodes) if (waiting[node.id] === 0) ready.push(startOf(node), node)
  let done = 0
  for (let top = ready.pop(); top !== undefined; top = ready.pop()) {
    const { node } = top
    const start = startOf(node)
    if (start > top.start) {
      ready.push(start, node)
      continue
    }
    const lazy = node.kind === 'move' && node.direction === 'in'
    if (!lazy) {
      emit(node)
      for (const actor of participants(node)) free.set(`${actor}:${node.stream}`, start + node.latency)
    }
    done++
    for (const next of after[node.id]!) {
      readyAt[next] = Math.max(readyAt[next]!, start + (lazy ? 0 : node.latency))
      waiting[next]!--
      if (waiting[next] === 0) ready.push(startOf(dag.nodes[next]!), dag.nodes[next]!)
    }
  }
  if (done < dag.nodes.length)
    throw internalError(`${dag.nodes.length - done} nodes of the program wait for each other`)
  return ordered
}

/** A binary heap by start, then communication before computation, then insertion. */
class Heap {
  private readonly items: { start: number; node: DagNode }[] = []

  push(start: number, node: DagNode): void {
    const { items } = this
    items.push({ start, node })
    let at = items.length - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!precedes(items[at]!, items[parent]!)) break
      swap(items, at, parent)
      at = parent
    }
  }

  pop(): { start: number; node: DagNode } | undefined {
    const { items } = this
    const top = items[0]
    const last = items.pop()
    if (top === undefined || last === undefined || items.length === 0) return top
    items[0] = last
    let at = 0
    for (;;) {
      const left = 2 * at + 1
      const right = left + 1
      let least = at
      if (left < items.length && precedes(items[left]!, items[least]!)) least = left
      if (right < items.length && precedes(items[right]!, items[least]!)) least = right
      if (least === at) return top
      swap(items, at, least)
      at = least
    }
  }
}

function precedes(a: { start: number; node: DagNode }, b: { start: number; node: DagNode }): boolean {
  if (a.start !== b.start) return a.start < b.start
  const aRuns = a.node.kind === 'run' ? 1 : 0
  const bRuns = b.node.kind === 'run' ? 1 : 0
  return aRuns !== bRuns ? aRuns < bRuns : a.node.id < b.node.id
}

function swap<T>(items: T[], a: number, b: number): void {
  const kept = items[a]!
  items[a] = items[b]!
  items[b] = kept
}
