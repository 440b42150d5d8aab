import { accesses, type DagNode, type DagValue, participants, valueKey } from './dag.ts'

/**
 * Values of one actor that no later node uses, by the id of the node that uses them last, in the order of its list.
 * `keeps` names buffers whose values live on (state, constants).
 */
export function lastUses(
  actor: number,
  ordered: readonly DagNode[],
  keeps: (buffer: string) => boolean,
): Map<number, DagValue[]> {
  const last = new Map<string, { readonly node: number; readonly value: DagValue }>()
  for (const node of ordered) {
    if (!participants(node).includes(actor)) continue
    for (const { actor: at, operand } of accesses(node)) {
      if (at !== actor || keeps(operand.buffer)) continue
      const key = valueKey(operand)
      // Behind what was there, so that a node's frees are in the order of its operands.
      last.delete(key)
      last.set(key, { node: node.id, value: operand })
    }
  }
  const frees = new Map<number, DagValue[]>()
  for (const { node, value } of last.values()) {
    const list = frees.get(node)
    if (list === undefined) frees.set(node, [value])
    else list.push(value)
  }
  return frees
}
