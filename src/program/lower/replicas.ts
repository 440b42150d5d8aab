import { greatestCommonDivisor, internalError } from '../../base/index.ts'
import type { Peer, Region } from '../types.ts'

/** One end of a transfer between `own` replicas that hold equal, contiguous shares of the rows and `other` that do too. */
export interface Split {
  readonly own: number
  readonly other: number
  /** Rows (size of the first dim) that one replica holds on each side. */
  readonly ownRows: number
  readonly otherRows: number
  /** Relative pipeline coordinate of the other side. */
  readonly pipeline: number
}

export interface Piece {
  readonly peer: Peer
  readonly region: Region | undefined
}

/**
 * Ranks of `own` replicas do the same up to their coordinate when one count divides the other; otherwise only those
 * that agree modulo this number do.
 */
export function splitModulus(own: number, other: number): number {
  return own % other === 0 || other % own === 0 ? 1 : own / greatestCommonDivisor(own, other)
}

/**
 * What the ranks with `data` congruent to `remainder` send to, or receive from, whom (DAPPLE's split and concatenation
 * between unequal replica counts). Pieces in order of the other side's coordinate.
 */
export function splitPieces(split: Split, remainder: number): Piece[] {
  const { own, other, ownRows, otherRows, pipeline } = split
  if (own * ownRows !== other * otherRows)
    throw internalError(`${own} x ${ownRows} rows cannot become ${other} x ${otherRows}`)
  if (own === other) return [{ peer: { pipeline, axes: [] }, region: undefined }]
  const start = remainder * ownRows
  const pieces: Piece[] = []
  for (
    let there = Math.floor(start / otherRows);
    there < other && there * otherRows < start + ownRows;
    there++
  ) {
    const from = Math.max(start, there * otherRows)
    const to = Math.min(start + ownRows, (there + 1) * otherRows)
    pieces.push({
      // Equals `there` at `remainder`, and moves with the coordinate: floor((own coordinate x other + offset) / own).
      peer: {
        pipeline,
        axes: [{ name: 'data', scale: other, offset: there * own - other * remainder, divisor: own }],
      },
      region: from === start && to === start + ownRows ? undefined : { start: from - start, end: to - start },
    })
  }
  return pieces
}
