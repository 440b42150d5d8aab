import { assertNever } from '../base/index.ts'
import { ringLaps } from '../layout/index.ts'
import { operandBytes } from './accesses.ts'
import type { CollectiveOperation, Instruction, Role } from './types.ts'

type Collective = Extract<Instruction, { kind: 'collective' }>

export const collectiveOperations: readonly CollectiveOperation[] = [
  ...(Object.keys(ringLaps) as (keyof typeof ringLaps)[]),
  'permute',
]

/** How many blocks of equal length a member's source and its result are. */
export function collectiveBlocks(
  operation: CollectiveOperation,
  members: number,
): { readonly source: number; readonly result: number } {
  switch (operation) {
    case 'allReduce':
    case 'broadcast':
    case 'reduce':
    case 'permute':
      return { source: 1, result: 1 }
    case 'reduceScatter':
    case 'scatter':
      return { source: members, result: 1 }
    case 'allGather':
    case 'gather':
      return { source: 1, result: members }
    case 'allToAll':
      return { source: members, result: members }
    default:
      return assertNever(operation)
  }
}

/** Bytes that a collective is about on one rank: of its sources or of its results, whichever are the whole. */
export function collectivePayloadBytes(role: Role, { parts }: Pick<Collective, 'parts'>): number {
  const total = (side: 'source' | 'result'): number =>
    parts.reduce((sum, part) => sum + operandBytes(role, part[side]), 0)
  return Math.max(total('source'), total('result'))
}

/**
 * Bytes that each of `members` ranks puts on the wire where the collective runs around a ring (Patarasuk and Yuan,
 * "Bandwidth optimal all-reduce algorithms", 2009): 2 (n - 1) / n P for an all-reduce of P bytes, P for a permutation,
 * (n - 1) / n P for everything else. A fraction where blocks are uneven: the mean over the ranks.
 */
export function collectiveWireBytes(
  operation: CollectiveOperation,
  payloadBytes: number,
  members: number,
): number {
  if (operation === 'permute') return members === 1 ? 0 : payloadBytes
  return (ringLaps[operation] * (members - 1) * payloadBytes) / members
}
