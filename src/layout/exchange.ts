import { elementCount } from '../graph/index.ts'
import { blockElements, heldBlock, heldRange, partOf, type Range } from './blocks.ts'
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

/** Elements that all ranks together lack of their new blocks when the dims of a layout change. Ranks are not enumerated. */
export function lackingElements(shape: readonly number[], mesh: Mesh, from: Dims, to: Dims): number {
  const changed = [...shape.keys()].filter((dim) => !sameAxes(from[dim]!, to[dim]!))
  const ranks = axesSize(mesh, mesh.axes)
  const wanted = (elementCount(shape) * ranks) / axesSize(mesh, to.flat())
  // Parts of an outermost cut that both have are alike where it is even: one of them stands for all.
  let alike = 1
  const sizes = [...shape]
  const [left, right] = [[...from], [...to]]
  for (const dim of changed) {
    const prefix = commonPrefix(from[dim]!, to[dim]!)
    const count = axesSize(mesh, from[dim]!.slice(0, prefix))
    if (shape[dim]! % count !== 0) continue
    alike *= count
    sizes[dim] = shape[dim]! / count
    left[dim] = from[dim]!.slice(prefix)
    right[dim] = to[dim]!.slice(prefix)
  }
  const unchanged = shape.reduce(
    (product, size, dim) => (changed.includes(dim) ? product : product * size),
    1,
  )
  const axes = [...new Set(changed.flatMap((dim) => [...left[dim]!, ...right[dim]!]))]
  const count = axesSize(mesh, axes)
  const used = new Set([...from.flat(), ...to.flat()])
  const free = mesh.axes.reduce((product, { name, size }) => (used.has(name) ? product : product * size), 1)
  let kept = 0
  for (let place = 0; place < count; place++) {
    const own = coordinatesAlong(mesh, axes, place)
    let overlap = 1
    for (const dim of changed) {
      const held = heldRange(sizes[dim]!, left[dim]!, mesh, own)
      const next = heldRange(sizes[dim]!, right[dim]!, mesh, own)
      overlap *= Math.max(0, Math.min(held.end, next.end) - Math.max(held.start, next.start))
    }
    kept += overlap
  }
  return wanted - kept * alike * unchanged * free
}

function coordinatesAlong(mesh: Mesh, axes: readonly string[], place: number): Coordinates {
  const own: Record<string, number> = {}
  let rest = place
  for (const axis of axes) {
    own[axis] = rest % axisSize(mesh, axis)
    rest = Math.floor(rest / axisSize(mesh, axis))
  }
  return own
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
