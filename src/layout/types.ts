/** One axis of a mesh. A dotted name (`tensor.row`) is a part of an axis that was split. */
export interface MeshAxis {
  readonly name: string
  readonly size: number
}

/**
 * Named axes over ranks, outermost first: the last varies fastest. The same ranks may be factored more than once
 * (`checkFactorisations`).
 */
export interface Mesh {
  readonly axes: readonly MeshAxis[]
  /** Which rank of the whole launch stands at each place; left out: place p is rank p. */
  readonly ranks?: readonly number[]
}

/** Coordinate on every axis of a mesh. */
export type Coordinates = Readonly<Record<string, number>>

/** How the terms that ranks hold make up the value. */
export type PartialReduction = 'sum' | 'max' | 'mean'

/**
 * Where a tensor lives on a mesh. Along an axis that is named nowhere, ranks hold the same.
 */
export interface Layout {
  /** For each dim the axes that shard it, outermost first: the dim is cut by the first, each part by the next. */
  readonly dims: readonly (readonly string[])[]
  /** Along these axes ranks hold terms of the value. */
  readonly partial: Readonly<Record<string, PartialReduction>>
  /** Along these axes ranks hold values that differ on purpose, sorted. */
  readonly varying: readonly string[]
}

/** A box of a tensor's elements: a half-open range along each dim. */
export interface Block {
  readonly starts: readonly number[]
  readonly ends: readonly number[]
}
