import { internalError } from '../../base/index.ts'
import {
  type Coordinates,
  type Instruction,
  type ProgramMesh,
  peerRank,
  type Role,
  valueAccesses,
} from '../../program/index.ts'
import { type ArenaLayout, overlaps, type Place } from './arena.ts'

/** One send or receive of a step. */
export interface PlannedPart {
  readonly instruction: number
  readonly direction: 'send' | 'recv'
  readonly peer: number
  readonly stream: number
  readonly transfer: number
  readonly place: Place
  /** Parts that must be complete before this one may touch its place. */
  readonly after: readonly number[]
}

/**
 * Which sends and receives must be complete when. They are posted at their place in the list and complete when they
 * can; only an instruction that touches the same memory waits for them. Computed once, as a step repeats it.
 */
export interface TransferPlan {
  /** In the order of posting. */
  readonly parts: readonly PlannedPart[]
  /** Parts that each instruction posts. */
  readonly posts: ReadonlyMap<number, readonly number[]>
  /** Parts that must be complete before an instruction that is no exchange. */
  readonly waits: ReadonlyMap<number, readonly number[]>
}

export function planTransfers(
  role: Role,
  instructions: readonly Instruction[],
  arena: ArenaLayout,
  mesh: ProgramMesh,
  own: Coordinates,
): TransferPlan {
  const parts: PlannedPart[] = []
  const posts = new Map<number, number[]>()
  const waits = new Map<number, number[]>()
  let outstanding: number[] = []
  const conflicts = (place: Place, reads: boolean): number[] =>
    outstanding.filter((index) => {
      const part = parts[index]!
      return !(reads && part.direction === 'send') && overlaps(place, part.place)
    })
  instructions.forEach((instruction, index) => {
    if (instruction.kind !== 'exchange') {
      const needed = new Set<number>()
      for (const access of valueAccesses(instruction))
        for (const part of conflicts(arena.operand(access), access.kind === 'read')) needed.add(part)
      if (needed.size === 0) return
      waits.set(index, [...needed])
      outstanding = outstanding.filter((part) => !needed.has(part))
      return
    }
    const posted: number[] = []
    // Sends first: a receive into what the same exchange sends has to leave the old content to the send.
    for (const direction of ['send', 'recv'] as const)
      for (const part of instruction.parts) {
        if (part.direction !== direction) continue
        const peer = peerRank(mesh, own, role.peers[part.peer]!)
        if (peer === undefined)
          throw internalError(`transfer ${part.transfer} goes to a rank that does not exist`)
        const place = arena.operand(part)
        const after = conflicts(place, direction === 'send')
        const { stream } = instruction
        parts.push({ instruction: index, direction, peer, stream, transfer: part.transfer, place, after })
        posted.push(parts.length - 1)
        outstanding.push(parts.length - 1)
      }
    posts.set(index, posted)
  })
  return { parts, posts, waits }
}
