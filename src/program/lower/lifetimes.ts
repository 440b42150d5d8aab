import type { Dag, DagNode } from './dag.ts'

/**
 * By value of the access table: the last access of it in the order given, after which it may be freed; -1 for state and
 * constants, which live on. A value is of one actor, so the order of all nodes tells.
 */
export function lastUses(dag: Dag, ordered: readonly DagNode[]): Int32Array {
  const { buffer, buffers, value, values, first } = dag.accesses
  const last = new Int32Array(values)
  for (const { id } of ordered)
    for (let access = first[id]!; access < first[id + 1]!; access++) last[value[access]!] = access
  const livesOn = buffers.map(({ actor, name }) => {
    const spec = dag.buffers[actor]!.get(name)
    return spec?.state === true || spec?.constant !== undefined
  })
  for (let number = 0; number < values; number++) if (livesOn[buffer[number]!] === true) last[number] = -1
  return last
}
