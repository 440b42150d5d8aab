import { operandElements } from '../accesses.ts'
import { columnAccess, columnKinds, visitColumnAccesses } from '../columnAccesses.ts'
import type { Region, Role } from '../types.ts'
import type { RoleView } from './finding.ts'
import type { Pairs } from './meetings.ts'

/** Who wrote and who read a slot, as far as it still matters: instruction, first element, end, one after the other. */
interface Slot {
  readonly writes: number[]
  readonly reads: number[]
}

/**
 * What must come before what in one role because of the memory they share: reads after writes, writes after reads and
 * writes, slot by slot, so that reuse of a slot is an edge like any other. Each edge once.
 */
export function memoryEdges({ role, code }: RoleView): Pairs {
  const from: number[] = []
  const to: number[] = []
  const slots = slotsOf(role)
  const whole = role.values.map((_, value) => operandElements(role, { value }))
  // Latest instruction that was put after each.
  const follower = new Int32Array(code.length).fill(-1)
  let index = 0
  const follow = (earlier: readonly number[], { start, end }: Region): void => {
    for (let touch = 0; touch < earlier.length; touch += 3) {
      const instruction = earlier[touch]!
      if (instruction === index || follower[instruction] === index) continue
      if (earlier[touch + 1]! >= end || start >= earlier[touch + 2]!) continue
      follower[instruction] = index
      from.push(instruction)
      to.push(index)
    }
  }
  const visit = (value: number, region: number, access: number): void => {
    const slot = slots[value]
    if (slot === undefined) return
    const range = region < 0 ? whole[value]! : operandElements(role, { value, region })
    follow(slot.writes, range)
    if (access === columnAccess.read) {
      slot.reads.push(index, range.start, range.end)
      return
    }
    follow(slot.reads, range)
    // What this write covers is ordered through it from here on.
    dropCovered(slot.writes, range)
    dropCovered(slot.reads, range)
    slot.writes.push(index, range.start, range.end)
  }
  for (; index < code.length; index++) visitColumnAccesses(code, index, visit)
  return { from, to }
}

function dropCovered(touches: number[], { start, end }: Region): void {
  let kept = 0
  for (let touch = 0; touch < touches.length; touch += 3) {
    if (touches[touch + 1]! >= start && touches[touch + 2]! <= end) continue
    touches.copyWithin(kept, touch, touch + 3)
    kept += 3
  }
  touches.length = kept
}

/** The slot of every value: one object for all values that live there. */
function slotsOf({ buffers, values }: Role): Slot[] {
  const pools = new Map<number, Map<number, Slot>>()
  return values.map(({ buffer, slot }) => {
    const pool = buffers[buffer]?.pool ?? -1
    let bySlot = pools.get(pool)
    if (bySlot === undefined) {
      bySlot = new Map()
      pools.set(pool, bySlot)
    }
    let shared = bySlot.get(slot)
    if (shared === undefined) {
      shared = { writes: [], reads: [] }
      bySlot.set(slot, shared)
    }
    return shared
  })
}

/** Each instruction after the one before it in its stream. */
export function streamEdges({ code }: RoleView): Pairs {
  const last = new Map<number, number>()
  const from: number[] = []
  const to: number[] = []
  for (let index = 0; index < code.length; index++) {
    if (code.kind[index] === columnKinds.free) continue
    const stream = code.stream[index]!
    const before = last.get(stream)
    if (before !== undefined) {
      from.push(before)
      to.push(index)
    }
    last.set(stream, index)
  }
  return { from, to }
}

/** Each communication after the one issued before it, whatever their streams. */
export function issueEdges({ code }: RoleView): Pairs {
  const from: number[] = []
  const to: number[] = []
  let last: number | undefined
  for (let index = 0; index < code.length; index++) {
    if (code.kind[index] !== columnKinds.exchange && code.kind[index] !== columnKinds.collective) continue
    if (last !== undefined) {
      from.push(last)
      to.push(index)
    }
    last = index
  }
  return { from, to }
}
