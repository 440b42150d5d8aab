import { operandRows, overlap, type ValueAccess, valueAccesses } from '../accesses.ts'
import type { Region } from '../types.ts'
import type { RoleView } from './finding.ts'

interface Touch {
  readonly instruction: number
  readonly rows: Region
}

/**
 * What must come before what in one role because of the memory they share: reads after writes, writes after reads and
 * writes, slot by slot, so that reuse of a slot is an edge like any other. Pairs [earlier, later].
 */
export function memoryEdges(view: RoleView): [number, number][] {
  const { role } = view
  const edges: [number, number][] = []
  const slots = new Map<string, { writes: Touch[]; reads: Touch[] }>()
  const touchedBy = (access: ValueAccess): { writes: Touch[]; reads: Touch[] } => {
    const instance = role.values[access.value]
    const key = `${instance?.buffer}:${instance?.slot}`
    const known = slots.get(key)
    if (known !== undefined) return known
    const made = { writes: [], reads: [] }
    slots.set(key, made)
    return made
  }
  view.instructions.forEach((instruction, index) => {
    const accesses = valueAccesses(instruction)
    for (const access of accesses) {
      const { writes, reads } = touchedBy(access)
      const rows = operandRows(role, access)
      const conflicts = access.kind === 'read' ? writes : [...writes, ...reads]
      for (const earlier of conflicts)
        if (earlier.instruction !== index && overlap(earlier.rows, rows))
          edges.push([earlier.instruction, index])
    }
    for (const access of accesses) {
      const touched = touchedBy(access)
      const rows = operandRows(role, access)
      if (access.kind === 'read') {
        touched.reads.push({ instruction: index, rows })
        continue
      }
      // What this write covers is ordered through it from here on.
      const outside = ({ rows: old }: Touch): boolean => old.start < rows.start || old.end > rows.end
      touched.writes = touched.writes.filter(outside)
      touched.reads = touched.reads.filter(outside)
      touched.writes.push({ instruction: index, rows })
    }
  })
  return edges
}

/** Each instruction after the one before it in its stream. Pairs [earlier, later]. */
export function streamEdges(view: RoleView): [number, number][] {
  const last = new Map<number, number>()
  const edges: [number, number][] = []
  view.instructions.forEach((instruction, index) => {
    if (instruction.kind === 'free') return
    const before = last.get(instruction.stream)
    if (before !== undefined) edges.push([before, index])
    last.set(instruction.stream, index)
  })
  return edges
}

/** Each communication after the one issued before it, whatever their streams. Pairs [earlier, later]. */
export function issueEdges(view: RoleView): [number, number][] {
  const edges: [number, number][] = []
  let last: number | undefined
  view.instructions.forEach((instruction, index) => {
    if (instruction.kind !== 'exchange' && instruction.kind !== 'collective') return
    if (last !== undefined) edges.push([last, index])
    last = index
  })
  return edges
}
