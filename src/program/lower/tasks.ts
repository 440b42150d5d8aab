import { canonicalHash, type Graph } from '../../graph/index.ts'
import type { GraphTask } from '../types.ts'

/** A task whose operands are its graph's inputs and outputs one by one. */
export function plainTask(name: string, graph: Graph): GraphTask {
  return {
    kind: 'graph',
    name,
    hash: canonicalHash(graph),
    graph,
    reads: graph.inputs.map((_, input) => ({ kind: 'tensor', input })),
    writes: graph.outputs.map((_, output) => ({ kind: 'tensor', output })),
  }
}
