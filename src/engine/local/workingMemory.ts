import { bytesPerElement, elementCount, type Graph, type ValueId } from '../../graph/index.ts'

/**
 * Most bytes of values inside the graph that are live at once when its nodes run in their order: made and still to be
 * read. Inputs and outputs are not among them, as they have their place outside; a reshape is another view of its
 * operand. What one op needs for itself is not known here.
 */
export function workingBytes(graph: Graph): number {
  const outside = new Set([...graph.inputs, ...graph.outputs].map(({ value }) => value))
  /** The value whose elements these are. */
  const origin = new Map<ValueId, ValueId>()
  const originOf = (value: ValueId): ValueId => origin.get(value) ?? value
  const lastRead = new Map<ValueId, number>()
  for (const [index, { op, inputs, outputs }] of graph.nodes.entries()) {
    for (const input of inputs) lastRead.set(originOf(input), index)
    if (op === 'reshape') origin.set(outputs[0]!, originOf(inputs[0]!))
  }
  const bytesOf = (value: ValueId): number => {
    const { dtype, shape } = graph.values[value]!.type
    return elementCount(shape) * bytesPerElement[dtype]
  }
  let live = 0
  let most = 0
  for (const [index, { inputs, outputs }] of graph.nodes.entries()) {
    const made = outputs.filter((value) => !outside.has(value) && originOf(value) === value)
    for (const value of made) live += bytesOf(value)
    most = Math.max(most, live)
    for (const value of new Set([...inputs, ...made].map(originOf)))
      if (!outside.has(value) && (lastRead.get(value) ?? index) === index) live -= bytesOf(value)
  }
  return most
}
