import type { NodeProto } from 'onnx-buf'

/**
 * Joins a Transpose with the one before it where nothing else reads that one's result, as where a product was taken
 * transposed and its heads are then merged. `kept` are the tensors that are read from outside.
 */
export function joinTransposes(nodes: readonly NodeProto[], kept: readonly string[]): NodeProto[] {
  const producers = new Map<string, NodeProto>()
  const uses = new Map<string, number>(kept.map((name) => [name, 1]))
  for (const node of nodes) {
    for (const output of node.output) producers.set(output, node)
    for (const input of node.input) uses.set(input, (uses.get(input) ?? 0) + 1)
  }
  const joined = new Set<NodeProto>()
  for (const node of nodes) {
    if (node.opType !== 'Transpose') continue
    const [input] = node.input as [string]
    const first = producers.get(input)
    if (first?.opType !== 'Transpose' || uses.get(input) !== 1) continue
    const order = node.attribute[0]!
    const before = first.attribute[0]!.ints
    order.ints = order.ints.map((dim) => before[Number(dim)]!)
    node.input = [...first.input]
    joined.add(first)
  }
  return nodes.filter((node) => !joined.has(node))
}
