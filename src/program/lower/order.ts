import { internalError } from '../../base/index.ts'
import { Heap } from '../heap.ts'
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
  const waiting = dag.nodes.map(({ id }) => before.count(id))
  const readyAt = new Float64Array(dag.nodes.length)
  const lanes = lanesOf(dag)
  const free = new Map<number, number>()
  const startOf = (node: DagNode): number => {
    let start = readyAt[node.id]!
    for (const lane of lanes[node.id]!) start = Math.max(start, free.get(lane) ?? 0)
    return start
  }
  // By start, then communication before computation, then insertion.
  const ready = new Heap<{ readonly start: number; readonly node: DagNode }>((a, b) => {
    if (a.start !== b.start) return a.start < b.start
    const aRuns = a.node.kind === 'run' ? 1 : 0
    const bRuns = b.node.kind === 'run' ? 1 : 0
    return aRuns !== bRuns ? aRuns < bRuns : a.node.id < b.node.id
  })
  const ordered: DagNode[] = []
  const emitted = new Uint8Array(dag.nodes.length)
  const emit = (node: DagNode): void => {
    if (emitted[node.id] === 1) return
    emitted[node.id] = 1
    for (const earlier of before.of(node.id)) {
      const other = dag.nodes[earlier]!
      if (isLazy(other)) emit(other)
    }
    ordered.push(node)
  }
  for (const node of dag.nodes) if (waiting[node.id] === 0) ready.push({ start: startOf(node), node })
  let done = 0
  for (let top = ready.pop(); top !== undefined; top = ready.pop()) {
    const { node } = top
    const start = startOf(node)
    if (start > top.start) {
      ready.push({ start, node })
      continue
    }
    const lazy = isLazy(node)
    const end = lazy ? start : start + node.latency
    if (!lazy) {
      emit(node)
      for (const lane of lanes[node.id]!) free.set(lane, end)
    }
    done++
    for (const next of after.of(node.id)) {
      readyAt[next] = Math.max(readyAt[next]!, end)
      waiting[next]!--
      if (waiting[next] === 0) ready.push({ start: startOf(dag.nodes[next]!), node: dag.nodes[next]! })
    }
  }
  if (done < dag.nodes.length)
    throw internalError(`${dag.nodes.length - done} nodes of the program wait for each other`)
  return ordered
}

/** Issued only where somebody needs it. */
function isLazy(node: DagNode): boolean {
  return node.kind === 'move' && node.direction === 'in'
}

/** For each node, the streams of actors that it occupies: one number for each. */
function lanesOf(dag: Dag): number[][] {
  const streams = new Map<string, number>()
  return dag.nodes.map((node) => {
    const stream = streams.get(node.stream) ?? streams.size
    streams.set(node.stream, stream)
    return participants(node).map((actor) => stream * dag.actors + actor)
  })
}
