import { type Dag, type DagNode, type DagValue, visitAccesses } from './dag.ts'

/**
 * Values of one actor that no later node uses, by the id of the node that uses them last, in the order of its operands.
 * `nodes` are the actor's, in order; `keeps` names buffers whose values live on (state, constants).
 */
export function lastUses(
  dag: Dag,
  actor: number,
  nodes: readonly DagNode[],
  keeps: (buffer: string) => boolean,
): Map<number, DagValue[]> {
  const usedLater = new Set<number>()
  const frees = new Map<number, DagValue[]>()
  for (const node of nodes.toReversed()) {
    const operands: DagValue[] = []
    visitAccesses(node, (at, operand) => {
      if (at === actor && !keeps(operand.buffer)) operands.push(operand)
    })
    const freed: DagValue[] = []
    for (const operand of operands.reverse()) {
      const value = dag.valueNumber(actor, operand)
      if (usedLater.has(value)) continue
      usedLater.add(value)
      freed.push(operand)
    }
    if (freed.length > 0) frees.set(node.id, freed.reverse())
  }
  return frees
}
