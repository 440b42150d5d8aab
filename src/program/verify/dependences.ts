import { operandElements, overlap, visitAccesses } from '../accesses.ts'
import type { Region, Role } from '../types.ts'
import type { RoleView } from './finding.ts'

interface Touch {
  readonly instruction: number
  readonly range: Region
}

/** Who wrote and who read a slot, as far as it still matters. */
interface Slot {
  writes: Touch[]
  reads: Touch[]
}

/**
 * What must come before what in one role because of the memory they share: reads after writes, writes after reads and
 * writes, slot by slot, so that reuse of a slot is an edge like any other. Pairs [earlier, later], each once.
 */
export function memoryEdges(view: RoleView): [number, number][] {
  const { role } = view
  const edges: [number, number][] = []
  const slots = slotsOf(role)
  // Latest instruction that was put after each.
  const follower = new Int32Array(view.instructions.length).fill(-1)
  const follow = (earlier: readonly Touch[], range: Region, index: number): void => {
    for (const { instruction, range: old } of earlier) {
      if (instruction === index || follower[instruction] === index || !overlap(old, range)) continue
      follower[instruction] = index
      edges.push([instruction, index])
    }
  }
  view.instructions.forEach((instruction, index) => {
    visitAccesses(instruction, (operand, kind) => {
      const slot = slots[operand.value]
      if (slot === undefined) return
      const range = operandElements(role, operand)
      follow(slot.writes, range, index)
      if (kind === 'read') {
        slot.reads.push({ instruction: index, range })
        return
      }
      follow(slot.reads, range, index)
      // What this write covers is ordered through it from here on.
      slot.writes = uncovered(slot.writes, range)
      slot.reads = uncovered(slot.reads, range)
      slot.writes.push({ instruction: index, range })
    })
  })
  return edges
}

function uncovered(touches: Touch[], range: Region): Touch[] {
  if (touches.length === 0) return touches
  return touches.filter(({ range: old }) => old.start < range.start || old.end > range.end)
}

/** The slot of every value: one object for all values that live there. */
function slotsOf({ buffers, values }: Role): Slot[] {
  const pools = new Map<number, Map<number, Slot>>()
  return values.map(({ buffer, slot }) => {
    const pool = buffers[buffer]?.pool ?? -1
    const bySlot = pools.get(pool) ?? new Map<number, Slot>()
    pools.set(pool, bySlot)
    const shared = bySlot.get(slot) ?? { writes: [], reads: [] }
    bySlot.set(slot, shared)
    return shared
  })
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
