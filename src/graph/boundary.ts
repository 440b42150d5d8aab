import { type FlowEdge, minimumCut } from './minimumCut.ts'
import { defaultRecompute, recomputeClass } from './recompute.ts'
import type { Graph, GraphInput, InputKind, Node, ValueId } from './types.ts'

/** Two tasks in turn: the first has run some nodes of `graph`, the second needs some of their results. */
export interface BoundaryProblem {
  /** Its inputs are at hand for both tasks, if they are held until the second. */
  readonly graph: Graph
  /** Nodes that the first task runs, or could. */
  readonly candidates: ReadonlySet<Node>
  /** Results of candidates, and inputs, that the second task cannot do without. */
  readonly demanded: Iterable<ValueId>
  /** Whether the second task may run this candidate (again). */
  readonly repeatable: (node: Node) => boolean
  /** Price of holding a value from the first task to the second, in bytes. */
  readonly price: (value: ValueId) => number
  /** Values that the second task has, or makes, for nothing: parameters and what follows from them alone. */
  readonly free: ReadonlySet<ValueId>
}

/**
 * The values to hold between the tasks: of all sets from which the second can make what it needs, the cheapest; among
 * equals the one with the least to run again. As a minimum cut: each value is an edge of capacity `price`, from its
 * operands if its node is repeatable, otherwise from the source; what is demanded leads to the sink. In order of ids of
 * the graph's inputs first, then of its nodes.
 */
export function chooseBoundary(problem: BoundaryProblem): ValueId[] {
  const { graph, candidates, free } = problem
  const producers = new Map<ValueId, Node>()
  for (const node of candidates) for (const output of node.outputs) producers.set(output, node)

  const source = 0
  const sink = 1
  // Each value is two nodes of the network, before and after the edge that stands for holding it.
  const before = new Map<ValueId, number>()
  const edges: FlowEdge[] = []
  const open: ValueId[] = []
  const place = (value: ValueId): number => {
    const known = before.get(value)
    if (known !== undefined) return known
    const index = 2 + 2 * before.size
    before.set(value, index)
    edges.push({ from: index, to: index + 1, capacity: problem.price(value) })
    open.push(value)
    return index
  }
  for (const value of new Set(problem.demanded))
    if (!free.has(value)) edges.push({ from: place(value) + 1, to: sink, capacity: Infinity })
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    const to = before.get(value)!
    const node = producers.get(value)
    if (node === undefined || !problem.repeatable(node)) {
      edges.push({ from: source, to, capacity: Infinity })
      continue
    }
    for (const input of node.inputs)
      if (!free.has(input)) edges.push({ from: place(input) + 1, to, capacity: Infinity })
  }

  const { sinkSide } = minimumCut(2 + 2 * before.size, edges, source, sink)
  const held = (value: ValueId): boolean => {
    const index = before.get(value)
    return index !== undefined && !sinkSide[index] && sinkSide[index + 1]!
  }
  const inputs = graph.inputs.map((input) => input.value)
  return [...inputs, ...graph.nodes.flatMap((node) => node.outputs)].filter(held)
}

/** Whether a backward starts from an input: it is there as soon as cotangents are, and not before. */
export function isSeed({ kind, name }: GraphInput): boolean {
  return kind === 'cotangent' || name === 'lossScale'
}

/**
 * The values that follow from nothing but inputs of kind `parameter` and constants, those inputs among them; with
 * `holdGathered` not through communication, whose results are then values like others.
 */
export function parameterValues(graph: Graph, holdGathered: boolean = false): ReadonlySet<ValueId> {
  return followingValues(graph, ['parameter'], ({ op }) => !holdGathered || op !== 'communicate')
}

/**
 * The values that follow from nothing but inputs of these kinds and constants, those inputs among them, by nodes that
 * `may` make them. Scalars that say where on the mesh a rank stands are constants.
 */
export function followingValues(
  graph: Graph,
  kinds: readonly InputKind[],
  may: (node: Node) => boolean = () => true,
): ReadonlySet<ValueId> {
  const found = new Set<ValueId>()
  for (const input of graph.inputs)
    if (kinds.includes(input.kind) || (input.kind === 'scalar' && !isSeed(input))) found.add(input.value)
  for (const node of graph.nodes)
    if (node.inputs.every((input) => found.has(input)) && may(node))
      for (const output of node.outputs) found.add(output)
  return found
}

/**
 * The values that follow from the batch's integers, from constants and from where a rank stands, by ops that cost no more
 * than reading and writing them: cheaper to make again than to keep.
 */
export function repeatedValues(graph: Graph): ReadonlySet<ValueId> {
  return followingValues(graph, ['data'], (node) => defaultRecompute.includes(recomputeClass(graph, node)))
}
