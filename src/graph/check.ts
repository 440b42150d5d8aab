import { internalError } from '../base/index.ts'
import { ruleOf } from './ops/index.ts'
import { formatType, sameShape } from './tensor.ts'
import type { Graph, Node, TensorType, ValueId } from './types.ts'

/**
 * Throws unless the graph is well formed: every value is made once and before it is used, names of inputs and of
 * outputs differ, block marks exist, and each op's shape rule gives the types that the values have (axis names aside).
 */
export function checkGraph(graph: Graph): void {
  const known = new Set<ValueId>()
  const define = (value: ValueId, what: string): void => {
    if (graph.values[value] === undefined) throw internalError(`${what}: there is no value ${value}`)
    if (known.has(value)) throw internalError(`${what}: value ${value} is made twice`)
    known.add(value)
  }
  const use = (value: ValueId, what: string): void => {
    if (!known.has(value)) throw internalError(`${what}: value ${value} is used before it is made`)
  }
  for (const input of graph.inputs) define(input.value, `input ${input.name}`)
  requireDistinct('input', graph.inputs)
  graph.nodes.forEach((node, index) => {
    const what = `node ${index} (${node.op})`
    for (const input of node.inputs) use(input, what)
    for (const output of node.outputs) define(output, what)
    if (node.block !== -1 && graph.blocks[node.block] === undefined)
      throw internalError(`${what}: there is no block ${node.block}`)
    const problem = typeProblem(graph, node)
    if (problem !== undefined) throw internalError(`${what}: ${problem}`)
  })
  for (const output of graph.outputs) use(output.value, `output ${output.name}`)
  requireDistinct('output', graph.outputs)
}

/** What is wrong with the types of a node's outputs, if anything. Throws `GRAPH_SHAPE` where its operands do not fit. */
export function typeProblem(graph: Pick<Graph, 'values'>, node: Node): string | undefined {
  const typesOf = (values: readonly ValueId[]): TensorType[] =>
    values.map((value) => graph.values[value]!.type)
  const expected = ruleOf(node.op).infer(typesOf(node.inputs), node.attributes)
  const actual = typesOf(node.outputs)
  const agree = (type: TensorType, index: number): boolean =>
    type.dtype === actual[index]?.dtype && sameShape(type.shape, actual[index].shape)
  if (expected.length === actual.length && expected.every(agree)) return undefined
  return `makes ${expected.map(formatType).join(', ')}, not ${actual.map(formatType).join(', ')}`
}

function requireDistinct(what: string, named: readonly { readonly name: string }[]): void {
  if (new Set(named.map(({ name }) => name)).size < named.length)
    throw internalError(`two ${what}s have one name`)
}
