import { internalError } from '../../base/index.ts'
import { IntList } from '../intList.ts'
import { type Dag, type DagNode, participants } from './dag.ts'
import { dependences } from './dependences.ts'

/**
 * The one final order of everything: list scheduling over all actors and streams with the plan's latencies, as JaxPP
 * orders its tasks (section "Compiler pipeline", step 6), communication included. Every actor's list is a part of one
 * global order, which is why no order of sends, receives and collectives can block.
 * Moves into the program wait until just before their first reader.
 */
export function orderNodes(dag: Dag): DagNode[] {
  const { before, after } = dependences(dag)
  const { nodes } = dag
  const waiting = new Int32Array(nodes.length)
  const readyAt = new Float64Array(nodes.length)
  const lanes = lanesOf(dag)
  const free = new Float64Array(lanes.count)
  const isLazy = new Uint8Array(nodes.length)
  const runs = new Uint8Array(nodes.length)
  const latency = new Float64Array(nodes.length)
  for (const node of nodes) {
    const { id } = node
    waiting[id] = before.count(id)
    latency[id] = node.latency
    if (node.kind === 'run') runs[id] = 1
    else if (isLazyMove(node)) isLazy[id] = 1
  }
  const startOf = (id: number): number => {
    let start = readyAt[id]!
    for (let lane = lanes.first[id]!; lane < lanes.first[id + 1]!; lane++) {
      const since = free[lanes.list[lane]!]!
      if (since > start) start = since
    }
    return start
  }
  const ready = new ReadyNodes(runs)
  const ordered: DagNode[] = []
  const emitted = new Uint8Array(nodes.length)
  const emit = (id: number): void => {
    if (emitted[id] === 1) return
    emitted[id] = 1
    for (let at = before.start[id]!; at < before.end[id]!; at++) {
      const earlier = before.list[at]!
      if (isLazy[earlier] === 1) emit(earlier)
    }
    ordered.push(nodes[id]!)
  }
  for (let id = 0; id < nodes.length; id++) if (waiting[id] === 0) ready.push(id, startOf(id))
  let done = 0
  for (let id = ready.pop(); id >= 0; id = ready.pop()) {
    const start = startOf(id)
    if (start > ready.startOf(id)) {
      ready.push(id, start)
      continue
    }
    const end = isLazy[id] === 1 ? start : start + latency[id]!
    if (isLazy[id] === 0) {
      emit(id)
      for (let lane = lanes.first[id]!; lane < lanes.first[id + 1]!; lane++) free[lanes.list[lane]!] = end
    }
    done++
    for (let at = after.start[id]!; at < after.end[id]!; at++) {
      const next = after.list[at]!
      if (end > readyAt[next]!) readyAt[next] = end
      waiting[next]!--
      if (waiting[next] === 0) ready.push(next, startOf(next))
    }
  }
  if (done < nodes.length)
    throw internalError(`${nodes.length - done} nodes of the program wait for each other`)
  return ordered
}

/** Issued only where somebody needs it. */
function isLazyMove(node: DagNode): boolean {
  return node.kind === 'move' && node.direction === 'in'
}

/** Nodes that may run, as a heap: by start, then communication before computation, then insertion. */
class ReadyNodes {
  private readonly heap: number[] = []
  private readonly start: Float64Array
  private readonly runs: Uint8Array

  constructor(runs: Uint8Array) {
    this.runs = runs
    this.start = new Float64Array(runs.length)
  }

  /** The start with which a node was pushed last. */
  startOf(node: number): number {
    return this.start[node]!
  }

  push(node: number, start: number): void {
    const { heap } = this
    this.start[node] = start
    let at = heap.length
    heap.push(node)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!this.precedes(node, heap[parent]!)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = node
  }

  /** -1 where there is none. */
  pop(): number {
    const { heap } = this
    const top = heap[0] ?? -1
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return top
    let at = 0
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && this.precedes(heap[child + 1]!, heap[child]!)) child++
      if (!this.precedes(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
    return top
  }

  private precedes(a: number, b: number): boolean {
    const [left, right] = [this.start[a]!, this.start[b]!]
    if (left !== right) return left < right
    return this.runs[a] === this.runs[b] ? a < b : this.runs[a]! < this.runs[b]!
  }
}

/** The streams of actors that each node occupies, a number for each: list[first[node]] up to list[first[node + 1]]. */
function lanesOf(dag: Dag): {
  readonly first: Int32Array
  readonly list: Int32Array
  readonly count: number
} {
  const streams = new Map<string, number>()
  const first = new Int32Array(dag.nodes.length + 1)
  const list = new IntList()
  for (const node of dag.nodes) {
    const stream = streams.get(node.stream) ?? streams.size
    streams.set(node.stream, stream)
    if (node.kind === 'run' || node.kind === 'move') list.push(stream * dag.actors + node.actor)
    else for (const actor of participants(node)) list.push(stream * dag.actors + actor)
    first[node.id + 1] = list.length
  }
  return { first, list: list.view(), count: streams.size * dag.actors }
}
