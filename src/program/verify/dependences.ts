import { elementCount } from '../../graph/index.ts'
import { operandElements } from '../accesses.ts'
import { columnAccess, columnKinds, visitColumnAccesses } from '../columnAccesses.ts'
import type { Region } from '../types.ts'
import type { RoleView } from './finding.ts'
import { PairList, type Pairs } from './meetings.ts'

/** Of a value without a buffer. */
const none: Region = { start: 0, end: 1 }

/** Who wrote and who read a slot, as far as it still matters: instruction, first element, end, one after the other. */
interface Slot {
  readonly writes: number[]
  readonly reads: number[]
}

/**
 * What must come before what in one role because of the memory they share: reads after writes, writes after reads and
 * writes, slot by slot, so that reuse of a slot is an edge like any other. Each edge once.
 */
export function memoryEdges({ role, code, values }: RoleView): Pairs {
  const edges = new PairList()
  const slots = Array.from({ length: values.slots }, (): Slot => ({ writes: [], reads: [] }))
  const whole = role.buffers.map(({ shape }): Region => ({ start: 0, end: elementCount(shape) }))
  // Latest instruction that was put after each.
  const follower = new Int32Array(code.length).fill(-1)
  let index = 0
  const follow = (earlier: readonly number[], { start, end }: Region): void => {
    for (let touch = 0; touch < earlier.length; touch += 3) {
      const instruction = earlier[touch]!
      if (instruction === index || follower[instruction] === index) continue
      if (earlier[touch + 1]! >= end || start >= earlier[touch + 2]!) continue
      follower[instruction] = index
      edges.add(instruction, index)
    }
  }
  const visit = (value: number, region: number, access: number): void => {
    const slot = slots[values.slot[value] ?? -1]
    if (slot === undefined) return
    const range =
      (region < 0 ? whole[values.buffer[value]!] : operandElements(role, { value, region })) ?? none
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
  return edges
}

function dropCovered(touches: number[], { start, end }: Region): void {
  let kept = 0
  for (let touch = 0; touch < touches.length; touch += 3) {
    if (touches[touch + 1]! >= start && touches[touch + 2]! <= end) continue
    if (kept < touch) for (let field = 0; field < 3; field++) touches[kept + field] = touches[touch + field]!
    kept += 3
  }
  touches.length = kept
}

/** Each instruction after the one before it in its stream. */
export function streamEdges({ code }: RoleView): Pairs {
  const last = new Map<number, number>()
  const edges = new PairList()
  for (let index = 0; index < code.length; index++) {
    if (code.kind[index] === columnKinds.free) continue
    const stream = code.stream[index]!
    const before = last.get(stream)
    if (before !== undefined) edges.add(before, index)
    last.set(stream, index)
  }
  return edges
}

/** Each communication after the one issued before it, whatever their streams. */
export function issueEdges({ code }: RoleView): Pairs {
  const edges = new PairList()
  let last: number | undefined
  for (let index = 0; index < code.length; index++) {
    if (code.kind[index] !== columnKinds.exchange && code.kind[index] !== columnKinds.collective) continue
    if (last !== undefined) edges.add(last, index)
    last = index
  }
  return edges
}
