import type { Graph, Node, ValueId } from '../../../graph/index.ts'

/** What one loop over all elements needs to know of a graph. */
export interface Fusion {
  readonly graph: Graph
  /** Elements that one group of vector registers holds: 2 where everything is f64, else 4. */
  readonly lanes: 2 | 4
  /** For each value: the same for all elements, so computed once before the loop. */
  readonly uniform: readonly boolean[]
  /** For each value: has other than one element. */
  readonly long: readonly boolean[]
}

/** Ops that WebAssembly has exactly, and those that only rename their operand in such a graph. */
const fusibleOps: ReadonlySet<Node['op']> = new Set([
  ...(['fill', 'neg', 'abs', 'sqrt', 'reciprocal', 'cast', 'reshape', 'broadcast'] as const),
  ...(['add', 'sub', 'mul', 'div', 'max', 'min', 'equal', 'less', 'and', 'not', 'where'] as const),
])

/** Bounds the code that hostile graphs can ask for; functions take at most 1000 parameters by specification. */
const nodeLimit = 2000
const portLimit = 500

/** How `graph` becomes one loop, or as a string why it does not. */
export function planFusion(graph: Graph): Fusion | string {
  if (graph.nodes.length > nodeLimit) return `it has more than ${nodeLimit} nodes`
  if (graph.inputs.length + graph.outputs.length > portLimit) return `it has more than ${portLimit} ports`
  const counts = graph.values.map((value) => value.type.shape.reduce((product, size) => product * size, 1))
  const used = usedValues(graph)
  const lengths = new Set([...used].map((value) => counts[value]!).filter((count) => count !== 1))
  if (lengths.size > 1) return `it has values of ${[...lengths].join(' and ')} elements`
  for (const value of used)
    if (graph.values[value]!.type.dtype === 'i32') return `value ${value} is of dtype i32`
  for (const { name, value } of [...graph.inputs, ...graph.outputs])
    if (graph.values[value]!.type.dtype === 'bool') return `port ${name} is of dtype bool`
  const uniform = counts.map((count) => count === 1)
  for (const node of graph.nodes) {
    if (!fusibleOps.has(node.op)) return `op ${node.op} has no instruction`
    for (const output of node.outputs) uniform[output] = node.inputs.every((input) => uniform[input])
  }
  const narrow = [...used].some((value) => graph.values[value]!.type.dtype === 'f32')
  return { graph, lanes: narrow ? 4 : 2, uniform, long: counts.map((count) => count !== 1) }
}

function usedValues(graph: Graph): Set<ValueId> {
  const ports = [...graph.inputs, ...graph.outputs].map((port) => port.value)
  return new Set([...ports, ...graph.nodes.flatMap((node) => [...node.inputs, ...node.outputs])])
}
