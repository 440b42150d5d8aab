import { elementCount } from '../graph/index.ts'
import { heldRange } from './blocks.ts'
import { commonPrefix } from './exchange.ts'
import { sameAxes } from './layout.ts'
import { axesSize, axisSize } from './mesh.ts'
import type { Coordinates, Layout, Mesh } from './types.ts'

type Dims = Layout['dims']

/** Two cuts of a tensor, less what they have in common. */
interface Difference {
  readonly sizes: readonly number[]
  readonly from: Dims
  readonly to: Dims
  /** How often the overlap of what is left counts in that of all. */
  readonly times: number
  /** Ranks that the axes of `from` and `to` span. */
  readonly places: number
}

/** Elements that all ranks together lack of their new blocks when the dims of a layout change. */
export function lackingElements(shape: readonly number[], mesh: Mesh, from: Dims, to: Dims): number {
  const difference = differenceOf(shape, mesh, from, to)
  const kept = alignedOverlap(difference, mesh) ?? countedOverlap(difference, mesh)
  return wantedElements(shape, mesh, to) - kept * difference.times
}

/** At most what `lackingElements` gives: 0 where that would take long. */
export function lackingAtLeast(shape: readonly number[], mesh: Mesh, from: Dims, to: Dims): number {
  const difference = differenceOf(shape, mesh, from, to)
  const aligned = alignedOverlap(difference, mesh)
  if (aligned === undefined && difference.places > 256) return 0
  const kept = aligned ?? countedOverlap(difference, mesh)
  return wantedElements(shape, mesh, to) - kept * difference.times
}

/** Elements that all ranks together hold: blocks tile the tensor, so that it is there as often as it has copies, even or not. */
export function wantedElements(shape: readonly number[], mesh: Mesh, dims: Dims): number {
  return elementCount(shape) * (axesSize(mesh, mesh.axes) / axesSize(mesh, dims.flat()))
}

function differenceOf(shape: readonly number[], mesh: Mesh, from: Dims, to: Dims): Difference {
  const changed = [...shape.keys()].filter((dim) => !sameAxes(from[dim]!, to[dim]!))
  let times = shape.reduce((product, size, dim) => (changed.includes(dim) ? product : product * size), 1)
  const sizes: number[] = []
  const left: (readonly string[])[] = []
  const right: (readonly string[])[] = []
  for (const dim of changed) {
    // Parts of an outermost cut that both have are alike where it is even: one of them stands for all.
    const prefix = commonPrefix(from[dim]!, to[dim]!)
    const count = axesSize(mesh, from[dim]!.slice(0, prefix))
    const isEven = shape[dim]! % count === 0
    if (isEven) times *= count
    sizes.push(isEven ? shape[dim]! / count : shape[dim]!)
    left.push(isEven ? from[dim]!.slice(prefix) : from[dim]!)
    right.push(isEven ? to[dim]!.slice(prefix) : to[dim]!)
  }
  const used = new Set([...from.flat(), ...to.flat()])
  for (const { name, size } of mesh.axes) if (!used.has(name)) times *= size
  const places = axesSize(mesh, axesOf(left, right))
  return { sizes, from: left, to: right, times, places }
}

function axesOf(from: Dims, to: Dims): string[] {
  return [...new Set([...from.flat(), ...to.flat()])]
}

/** Sum over all coordinates of what a rank's two blocks have in common. */
function countedOverlap({ sizes, from, to, places }: Difference, mesh: Mesh): number {
  const axes = axesOf(from, to)
  let kept = 0
  for (let place = 0; place < places; place++) {
    const own: Record<string, number> = {}
    let rest = place
    for (const axis of axes) {
      own[axis] = rest % axisSize(mesh, axis)
      rest = Math.floor(rest / axisSize(mesh, axis))
    }
    kept += overlapAt(sizes, from, to, mesh, own)
  }
  return kept
}

function overlapAt(sizes: readonly number[], from: Dims, to: Dims, mesh: Mesh, own: Coordinates): number {
  return sizes.reduce((product, size, dim) => {
    if (product === 0) return 0
    const held = heldRange(size, from[dim]!, mesh, own)
    const next = heldRange(size, to[dim]!, mesh, own)
    return product * Math.max(0, Math.min(held.end, next.end) - Math.max(held.start, next.start))
  }, 1)
}

/**
 * The same without looking at ranks, where all axes are powers of two and all cuts even: the bits of an axis's coordinate
 * are leading bits of the position along the dim that it cuts. Blocks overlap where the bits that both cuts fix are equal,
 * and then by what neither fixes; the coordinates for which they are equal are as many as there are choices of bits that no
 * equation joins.
 */
function alignedOverlap({ sizes, from, to }: Difference, mesh: Mesh): number | undefined {
  const axes = axesOf(from, to)
  if (!axes.every((axis) => Number.isInteger(Math.log2(axisSize(mesh, axis))))) return undefined
  const joined = new Map<string, string>()
  const rootOf = (bit: string): string => {
    let root = bit
    for (let next = joined.get(root); next !== undefined; next = joined.get(root)) root = next
    return root
  }
  let overlap = 1
  let choices = axes.reduce((product, axis) => product * axisSize(mesh, axis), 1)
  for (const [dim, size] of sizes.entries()) {
    const left = bitsOf(from[dim]!, mesh)
    const right = bitsOf(to[dim]!, mesh)
    const parts = 2 ** Math.max(left.length, right.length)
    if (size % parts !== 0) return undefined
    overlap *= size / parts
    for (let at = 0; at < Math.min(left.length, right.length); at++) {
      const [one, other] = [rootOf(left[at]!), rootOf(right[at]!)]
      if (one === other) continue
      joined.set(one, other)
      choices /= 2
    }
  }
  return overlap * choices
}

/** Names of the bits of the coordinates along axes, most significant first. */
function bitsOf(axes: readonly string[], mesh: Mesh): string[] {
  return axes.flatMap((axis) =>
    Array.from({ length: Math.log2(axisSize(mesh, axis)) }, (_, bit) => `${axis} ${bit}`),
  )
}
