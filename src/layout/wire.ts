/**
 * Bytes on the wire of collectives that run around a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms",
 * 2009). The payload passes the n - 1 hops of a lap: once where it is gathered or scattered, twice where it is both. An
 * all-to-all sends as much: of every member's payload all but the part that stays.
 */
export const ringLaps = {
  allGather: 1,
  reduceScatter: 1,
  allReduce: 2,
  allToAll: 1,
  broadcast: 1,
  reduce: 1,
  gather: 1,
  scatter: 1,
} as const

export type RingOperation = keyof typeof ringLaps

/**
 * Of all members together, for the payload that one of them gives or gets in whole: laps (n - 1) P. A member sends the
 * n-th part of it where blocks are even.
 */
export function ringTotal(operation: RingOperation | 'permute', payload: number, members: number): number {
  // Every member sends all it has.
  if (operation === 'permute') return members > 1 ? members * payload : 0
  return ringLaps[operation] * (members - 1) * payload
}

/** What member `place` of a ring sends to gather blocks: it passes on all but the one of the member it sends to. */
export function gatherSent(blocks: readonly number[], place: number): number {
  return sum(blocks) - blocks[(place + 1) % blocks.length]!
}

/** What member `place` sends to reduce and scatter: all blocks but the one that it ends with. */
export function scatterSent(blocks: readonly number[], place: number): number {
  return sum(blocks) - blocks[place]!
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
