import type { Graph, InputKind, TensorType } from '../../graph/index.ts'
import type { Redistribution } from '../redistribute.ts'
import type { Assignment } from '../rules/assignment.ts'
import type { CuttableOp } from '../rules/cuttable.ts'
import type { Layout, Mesh } from '../types.ts'

/** A value of a graph, as wants see it. */
export interface WantedValue {
  readonly role: 'input' | 'output' | 'result'
  /** Of an input and an output its name; of a result of a node the hint, where it has one. */
  readonly name: string | undefined
  /** Of the whole value. */
  readonly type: TensorType
  /** Of an input. */
  readonly kind?: InputKind
}

/**
 * Where a value must lie; undefined where any layout will do (an input then lies whole on every rank, an output as it
 * comes). Must give the same answer for the same value.
 */
export type Wants = (value: WantedValue) => Layout | undefined

/** A value in one of the layouts that it has in the course of a partitioned graph. */
export interface PlacedValue {
  readonly name: string
  /** Of the whole value. */
  readonly type: TensorType
  readonly layout: Layout
}

/** An op as ranks compute it, from and to placed values. */
export interface ComputeItem {
  readonly kind: 'compute'
  readonly op: CuttableOp
  readonly assignment: Assignment
  readonly operands: readonly string[]
  readonly results: readonly string[]
  readonly block: number
  /** Made in every piece that uses it. */
  readonly isFree: boolean
}

/** A placed value in another layout. */
export interface MoveItem {
  readonly kind: 'redistribute'
  readonly from: string
  readonly to: string
  readonly redistribution: Redistribution
}

/** Where the part of a rank begins in a dim of `size` elements that `axes` cut: an i32 scalar (`startAt`). */
export interface StartScalar {
  readonly name: string
  readonly size: number
  readonly axes: readonly string[]
}

/** What ranks compute between communication. */
export interface Piece {
  readonly kind: 'compute'
  /** Placed values that it takes, by the names of the graphs' inputs. */
  readonly inputs: readonly string[]
  readonly starts: readonly StartScalar[]
  /** Placed values that are needed after it, by the names of the graphs' outputs. */
  readonly outputs: readonly string[]
  /** Cuts whose parts are not of one size. */
  readonly uneven: readonly Pick<StartScalar, 'size' | 'axes'>[]
  /** One for each combination of sizes of uneven parts, by those (`pieceGraph`); a single one where all are even. */
  readonly graphs: Readonly<Record<string, Graph>>
}

/** A graph as the ranks of a mesh compute it together. */
export interface Partition {
  readonly mesh: Mesh
  /** In an order in which they can be done. */
  readonly steps: readonly (Piece | MoveItem)[]
  readonly values: ReadonlyMap<string, PlacedValue>
  /** Names of the graph's inputs, which are placed values. */
  readonly inputs: readonly string[]
  /** Outputs of the graph, and the placed value that each is. */
  readonly outputs: readonly { readonly name: string; readonly value: string }[]
  /** That all ranks together put on the wire. */
  readonly wireBytes: number
}
