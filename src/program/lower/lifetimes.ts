import type { Dag, DagNode } from './dag.ts'

/**
 * Values of one actor that no later node uses, by the id of the node that uses them last, in the order of its operands.
 * `nodes` are the actor's, in order. State and constants live on. Values are numbers of the access table.
 */
export function lastUses(dag: Dag, actor: number, nodes: readonly DagNode[]): Map<number, number[]> {
  const { values, value, first } = dag.accesses
  const usedLater = new Uint8Array(values.length)
  const frees = new Map<number, number[]>()
  for (let index = nodes.length - 1; index >= 0; index--) {
    const { id } = nodes[index]!
    const freed: number[] = []
    for (let access = first[id + 1]! - 1; access >= first[id]!; access--) {
      const number = value[access]!
      const used = values[number]!
      if (used.actor !== actor || usedLater[number] === 1) continue
      usedLater[number] = 1
      const buffer = dag.buffers[actor]!.get(used.value.buffer)
      if (buffer?.state !== true && buffer?.constant === undefined) freed.push(number)
    }
    if (freed.length > 0) frees.set(id, freed.reverse())
  }
  return frees
}
