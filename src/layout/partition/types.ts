import type { Graph, InputKind, OpName, TensorType } from '../../graph/index.ts'
import type { Redistribution } from '../redistribute.ts'
import type { Assignment } from '../rules/assignment.ts'
import type { CuttableOp } from '../rules/cuttable.ts'
import type { WantedLayout } from '../rules/target.ts'
import type { Layout } from '../types.ts'
import type { Panels } from './panels.ts'

/** A value of a graph, as wants see it. */
export interface WantedValue {
  readonly role: 'input' | 'output' | 'result'
  /** Of an input and an output its name; of a result of a node the hint, where it has one. */
  readonly name: string | undefined
  /** Of the whole value, every factor a dim (`factorGraph`); `axes` are their logical axes. */
  readonly type: TensorType
  /** How many factors each dim of the value has. */
  readonly factors: readonly number[]
  /** Of an input. */
  readonly kind?: InputKind
  /** Of a result: the op that makes it, and those that use it. */
  readonly madeBy?: OpName
  readonly usedBy?: readonly OpName[]
}

/**
 * Where a value must lie; undefined where any layout will do (an input then lies whole on every rank, an output as it
 * comes). Must give the same answer for the same value.
 */
export interface Wants {
  (value: WantedValue): WantedLayout | undefined
  /** Left out: ops are cut in whatever way moves the fewest bytes. */
  readonly products?: ProductStyle
}

/**
 * Ways to compute products, look-ups and gradients of tables that are taken wherever layouts allow them, though others may
 * move less.
 *
 * - `panels`: on a square of two axes no matrix that both of them cut is gathered, but goes around by panels (`panelsOf`)
 * - `still`: parameters stay where they are, and what they are multiplied with comes to them
 * - `blocks`: on a cube of three axes each of them cuts one index of a product, so that of every matrix each rank gathers what
 *   one axis has of it
 */
export interface ProductStyle {
  readonly kind: 'panels' | 'blocks' | 'still'
  readonly axes: readonly string[]
}

/** A value in one of the layouts that it has in the course of a partitioned graph. */
export interface PlacedValue {
  readonly name: string
  /** Of the whole value, every factor a dim. */
  readonly type: TensorType
  /** How many factors each dim of the value has. */
  readonly factors: readonly number[]
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
  /** Of an op that goes along an index by panels, which the assignment has whole. */
  readonly panels?: Panels
}

/** A placed value in another layout. */
export interface MoveItem {
  readonly kind: 'redistribute'
  readonly from: string
  readonly to: string
  readonly redistribution: Redistribution
  readonly block: number
}

/** A number that each rank has by its coordinates, as an input of kind `scalar` of its graph. */
export type RankScalar =
  /** i32: the place along `axes`, the first slowest, times `step`. */
  | {
      readonly kind: 'start'
      readonly name: string
      readonly axes: readonly string[]
      readonly step: number
    }
  /** Float: 1 where the coordinate along all of `axes` is 0, else 0. */
  | {
      readonly kind: 'isZero'
      readonly name: string
      readonly axes: readonly string[]
      readonly dtype: 'f32' | 'f64'
    }

/** Where an input or an output of a local graph lies. */
export type PlacedType = Pick<PlacedValue, 'type' | 'factors' | 'layout'>

/** A graph as every rank of a mesh runs it: values are the rank's blocks, communication is an op. */
export interface LocalGraph {
  /** Inputs and outputs by the names of the whole graph, and an input for each of `scalars`. */
  readonly graph: Graph
  readonly scalars: readonly RankScalar[]
  readonly inputs: ReadonlyMap<string, PlacedType>
  readonly outputs: ReadonlyMap<string, PlacedType>
  /** Names of further outputs: values that are held for the backward wherever it takes them. */
  readonly kept: readonly string[]
  /** That all ranks together put on the wire. */
  readonly wireBytes: number
}
