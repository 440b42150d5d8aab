import { internalError } from '../../base/index.ts'
import { isFloat } from '../../graph/index.ts'
import { type CollectiveOperation, collectiveBlocks, type Instruction } from '../../program/index.ts'
import { type ArenaLayout, type Place, placeBytes } from './arena.ts'
import { align } from './hostLayout.ts'

type Collective = Extract<Instruction, { kind: 'collective' }>

/** A range of every block of one part, small enough for the areas of the group. */
export interface Piece {
  readonly source: Place
  readonly result: Place
  readonly mode: 'set' | 'add'
  /** Bytes of one block of the source, and of the result. */
  readonly sourceBlock: number
  readonly resultBlock: number
  /** The range, in bytes of a block. */
  readonly offset: number
  readonly bytes: number
  /** Where it begins in the areas, in which the blocks of a source lie `stride` apart. */
  readonly at: number
  readonly stride: number
}

/** What the members exchange between two meetings. */
export type Round = readonly Piece[]

/**
 * Cuts a collective into rounds that fit into areas of `areaBytes`, the same on all members. Several small parts share
 * one round.
 */
export function planRounds(
  { operation, parts }: Collective,
  members: number,
  arena: ArenaLayout,
  areaBytes: number,
): Round[] {
  const blocks = collectiveBlocks(operation, members)
  const rounds: Piece[][] = [[]]
  let used = 0
  for (const part of parts) {
    const source = arena.operand(part.source)
    const result = arena.operand(part.result)
    requireReducible(operation, source)
    const sourceBlock = placeBytes(source) / blocks.source
    const resultBlock = placeBytes(result) / blocks.result
    for (let offset = 0; offset < sourceBlock; ) {
      const room = Math.floor((areaBytes - used) / blocks.source / 64) * 64
      if (room === 0) {
        if (used === 0) throw internalError(`an area of ${areaBytes} bytes for ${blocks.source} blocks`)
        rounds.push([])
        used = 0
        continue
      }
      const bytes = Math.min(room, sourceBlock - offset)
      const stride = align(bytes)
      const { mode } = part.result
      rounds.at(-1)!.push({ source, result, mode, sourceBlock, resultBlock, offset, bytes, at: used, stride })
      used += blocks.source * stride
      offset += bytes
    }
  }
  return rounds
}

function requireReducible(operation: CollectiveOperation, { dtype }: Place): void {
  if (operation !== 'allReduce' && operation !== 'reduceScatter' && operation !== 'reduce') return
  if (!isFloat(dtype)) throw internalError(`${operation} of ${dtype}`)
}
