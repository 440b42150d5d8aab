import type { GraphBuilder, OpAttributes, OpName, TensorType, ValueId } from '../../graph/index.ts'
import type { Block, PartialReduction } from '../types.ts'

/**
 * What an op does to layouts, in index notation: each dim of an operand or a result has the name of the index that runs
 * along it, or '' where every rank needs the whole dim. Dims with one index are cut alike. Where they differ in size (a
 * reshape, query heads and kv heads), the cut must be even on each.
 *
 * - An index of operands that a result lacks is contracted: where it is cut, ranks hold terms of that result.
 * - An index of results that no operand has is made: any cut of it costs nothing.
 */
export interface OpSignature {
  readonly inputs: readonly (readonly string[])[]
  readonly outputs: readonly (readonly string[])[]
  /** What contracting is: `sum` unless given. */
  readonly contraction?: 'sum' | 'max'
  /** Ways in which operands may be terms; none where left out. */
  readonly terms?: readonly TermRule[]
  /** Indices whose first element the local form asks for: where such a dim has several factors, the inner ones stay whole. */
  readonly starts?: readonly string[]
  /** Indices that are cut into single elements or not at all. */
  readonly single?: readonly string[]
}

/**
 * Where all of these operands are terms of one reduction along an axis, and the others are whole along it, so are the
 * results: sums pass what is linear in these operands together.
 */
export interface TermRule {
  readonly inputs: readonly number[]
  readonly reductions: readonly PartialReduction[]
}

export interface SignatureContext<K extends OpName> {
  readonly attributes: OpAttributes[K]
  /** Of the whole tensors. */
  readonly inputs: readonly TensorType[]
  readonly outputs: readonly TensorType[]
}

/** What a rank's own form of an op is made of. Values are ids in `builder`'s graph. */
export interface LocalOperands {
  readonly builder: GraphBuilder
  /** The rank's blocks of the operands. */
  readonly operands: readonly ValueId[]
  readonly inputBlocks: readonly Block[]
  readonly outputBlocks: readonly Block[]
  /**
   * Where the rank's part of an index begins, as an i32 scalar; undefined where the index is not cut. A value and not a
   * number, so that ranks share one task.
   */
  readonly start: (index: string) => ValueId | undefined
  /** Axes that cut an index, outermost first. */
  readonly axes: (index: string) => readonly string[]
}

export type LocalContext<K extends OpName> = SignatureContext<K> & LocalOperands

/** Everything that is to be known about how one op may be cut. */
export interface LayoutRule<K extends OpName> {
  readonly signature: (context: SignatureContext<K>) => OpSignature
  /** The op on blocks; left out where it is the op itself with the same attributes. */
  readonly local?: (context: LocalContext<K>) => readonly ValueId[]
}

export type LayoutRules = { readonly [K in OpName]: LayoutRule<K> }

export const linear: readonly PartialReduction[] = ['sum', 'mean']

/** For what only moves elements. */
export const anyReduction: readonly PartialReduction[] = ['sum', 'mean', 'max']

/** Index names of the dims of a shape: `d0`, `d1`, … */
export function dimIndices(rank: number, letter: string = 'd'): string[] {
  return Array.from({ length: rank }, (_, dim) => `${letter}${dim}`)
}
