import type { RankCounters } from './types.ts'

/**
 * How an all-reduce works in a shared memory, for whoever counts its bytes: a reduce-scatter and an all-gather, both
 * direct. Of a payload of P bytes each member puts out what others reduce (P less its own slice) and, once for all
 * readers, the slice it has reduced itself: P bytes in all. (A ring of n would send 2 (n - 1) / n P.)
 */
export const allReduceAlgorithm = 'direct reduce-scatter + all-gather in shared memory'

/** Bytes that one of `members` ranks puts out to all-reduce `payloadBytes`. */
export function allReduceWireBytes(payloadBytes: number, members: number): number {
  return members === 1 ? 0 : payloadBytes
}

/** Counts what one rank does in a step. Bytes are those of the program's dtypes, whatever an engine computes in. */
export class RankCounts {
  private calls = 0
  private bytes = 0
  private readonly collectives = new Map<string, { calls: number; payloadBytes: number; wireBytes: number }>()

  send(bytes: number): void {
    this.calls++
    this.bytes += bytes
  }

  allReduce(payloadBytes: number, members: number): void {
    const count = this.collectives.get('allReduce') ?? { calls: 0, payloadBytes: 0, wireBytes: 0 }
    count.calls++
    count.payloadBytes += payloadBytes
    count.wireBytes += allReduceWireBytes(payloadBytes, members)
    this.collectives.set('allReduce', count)
  }

  counters(rank: number, seconds: RankCounters['seconds']): RankCounters {
    return {
      rank,
      sends: { calls: this.calls, bytes: this.bytes },
      collectives: Object.fromEntries([...this.collectives].map(([name, count]) => [name, { ...count }])),
      seconds,
    }
  }
}
