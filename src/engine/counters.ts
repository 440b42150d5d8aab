import { type CollectiveOperation, collectiveOperations, collectiveWireBytes } from '../program/index.ts'
import type { RankCounters } from './types.ts'

/** Counts of the collectives of one rank: for each operation calls, payload bytes, and wire bytes as around a ring. */
export class CollectiveCounts {
  /** Three for each of `collectiveOperations`, in order. */
  readonly numbers: Float64Array

  /** In `numbers` where these are given. */
  constructor(numbers: Float64Array = new Float64Array(collectiveCountLength)) {
    this.numbers = numbers
  }

  clear(): void {
    this.numbers.fill(0)
  }

  add(operation: CollectiveOperation, payloadBytes: number, members: number): void {
    const at = 3 * collectiveOperations.indexOf(operation)
    this.numbers[at]! += 1
    this.numbers[at + 1]! += payloadBytes
    this.numbers[at + 2]! += collectiveWireBytes(operation, payloadBytes, members)
  }

  /** Those that were called. */
  counters(): RankCounters['collectives'] {
    return Object.fromEntries(
      collectiveOperations.flatMap((operation, index) => {
        const [calls, payloadBytes, wireBytes] = this.numbers.subarray(3 * index, 3 * index + 3)
        return calls === 0
          ? []
          : [[operation, { calls: calls!, payloadBytes: payloadBytes!, wireBytes: wireBytes! }]]
      }),
    )
  }
}

export const collectiveCountLength: number = 3 * collectiveOperations.length

/** Counts what one rank does in a step. Bytes are those of the program's dtypes, whatever an engine computes in. */
export class RankCounts {
  readonly collectives: CollectiveCounts = new CollectiveCounts()
  private calls = 0
  private bytes = 0

  send(bytes: number): void {
    this.calls++
    this.bytes += bytes
  }

  counters(rank: number, seconds: RankCounters['seconds']): RankCounters {
    return {
      rank,
      sends: { calls: this.calls, bytes: this.bytes },
      collectives: this.collectives.counters(),
      seconds,
    }
  }
}
