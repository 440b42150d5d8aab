import { blockElements, heldBlock, partOf, type Range } from './blocks.ts'
import { sameAxes } from './layout.ts'
import { axesSize, axisSize, placeAlong } from './mesh.ts'
import type { Block, Coordinates, Layout, Mesh } from './types.ts'

type Dims = Layout['dims']

/** A block that a rank takes from what another holds, in indices of the whole tensor. */
export interface Fetch {
  readonly holder: Coordinates
  readonly block: Block
  /** The rank holds it itself. */
  readonly local: boolean
}

/** Outermost axes that both lists begin with. */
export function commonPrefix(left: readonly string[], right: readonly string[]): number {
  let length = 0
  while (length < left.length && left[length] === right[length]) length++
  return length
}

/**
 * Where the rank at `own` takes the parts of its block of `to` from, in a change of the dims of a layout and nothing
 * else. What it holds it keeps. Of several ranks that hold a part it takes the one that agrees with it along the axes
 * that shard neither layout; the ranks that want the same are dealt out over the others in order.
 */
export function fetchesOf(
  shape: readonly number[],
  mesh: Mesh,
  from: Dims,
  to: Dims,
  own: Coordinates,
): Fetch[] {
  const wanted = heldBlock({ dims: to }, shape, mesh, own)
  const fromAxes = from.flat()
  const holders = to.flat().filter((axis) => !fromAxes.includes(axis))
  const dealt = dealtCoordinates(
    mesh,
    holders,
    fromAxes.filter((axis) => !to.flat().includes(axis)),
    own,
  )
  return piecesOf(shape, mesh, from, wanted).map(({ coordinates, block }) => {
    const local = fromAxes.every((axis) => coordinates[axis] === own[axis])
    return { holder: local ? own : { ...own, ...dealt, ...coordinates }, block, local }
  })
}

/** Coordinates along `holders`, along which ranks hold the same, for one of the ranks along `receivers` that want the same. */
function dealtCoordinates(
  mesh: Mesh,
  holders: readonly string[],
  receivers: readonly string[],
  own: Coordinates,
): Coordinates {
  const place = placeAlong(mesh, receivers, own)
  let rest = Math.floor((place * axesSize(mesh, holders)) / axesSize(mesh, receivers))
  const dealt: Record<string, number> = {}
  for (const axis of [...holders].reverse()) {
    dealt[axis] = rest % axisSize(mesh, axis)
    rest = Math.floor(rest / axisSize(mesh, axis))
  }
  return dealt
}

export interface Piece {
  /** Along the axes that shard. */
  readonly coordinates: Coordinates
  readonly block: Block
}

/** The blocks of a layout that `wanted` lies in, cut to it. */
export function piecesOf(shape: readonly number[], mesh: Mesh, dims: Dims, wanted: Block): Piece[] {
  let pieces: Piece[] = [{ coordinates: {}, block: { starts: [], ends: [] } }]
  dims.forEach((axes, dim) => {
    const within = { start: wanted.starts[dim]!, end: wanted.ends[dim]! }
    const cuts = cutsOf({ start: 0, end: shape[dim]! }, axes, mesh, within)
    pieces = pieces.flatMap(({ coordinates, block: { starts, ends } }) =>
      cuts.map((cut) => ({
        coordinates: { ...coordinates, ...cut.coordinates },
        block: { starts: [...starts, cut.start], ends: [...ends, cut.end] },
      })),
    )
  })
  return pieces
}

type Cut = Range & { readonly coordinates: Coordinates }

function cutsOf(range: Range, axes: readonly string[], mesh: Mesh, within: Range): Cut[] {
  const start = Math.max(range.start, within.start)
  const end = Math.min(range.end, within.end)
  if (start >= end) return []
  const [axis, ...rest] = axes
  if (axis === undefined) return [{ start, end, coordinates: {} }]
  const size = axisSize(mesh, axis)
  return Array.from({ length: size }, (_, index) =>
    cutsOf(partOf(range, size, index), rest, mesh, within).map((cut) => ({
      ...cut,
      coordinates: { ...cut.coordinates, [axis]: index },
    })),
  ).flat()
}

/** Axes along which ranks may take from each other in a change of dims. */
export function exchangeAxes(from: Dims, to: Dims, mesh: Mesh): string[] {
  const moved = new Set(
    from.flatMap((axes, dim) => {
      const prefix = commonPrefix(axes, to[dim]!)
      return [...axes.slice(prefix), ...to[dim]!.slice(prefix)]
    }),
  )
  return mesh.axes.map(({ name }) => name).filter((name) => moved.has(name))
}

/** Whether every rank gets one whole block from one rank: blocks are even, and as many along each dim as before. */
export function isPermutation(shape: readonly number[], mesh: Mesh, from: Dims, to: Dims): boolean {
  return shape.every((size, dim) => {
    if (sameAxes(from[dim]!, to[dim]!)) return true
    const count = axesSize(mesh, from[dim]!)
    return axesSize(mesh, to[dim]!) === count && size % count === 0
  })
}

export function fetchedElements(fetches: readonly Fetch[]): number {
  return fetches.reduce((sum, { block, local }) => (local ? sum : sum + blockElements(block)), 0)
}
