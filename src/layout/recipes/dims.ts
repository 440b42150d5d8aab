import { axisSize } from '../mesh.ts'
import type { WantedValue } from '../partition/types.ts'
import type { Mesh } from '../types.ts'

/** Axes that cut a value, by the logical axis that they cut. */
export type Cuts = Readonly<Record<string, readonly string[]>>

/**
 * Axes that cut each dim of a value (every factor one). A logical axis that is several factors (`sequence.0`,
 * `sequence.1`) is cut from the outermost on: by as many of the axes as divide the first, the rest go on to the next. An
 * axis cuts a value once: the first dim that it is meant for.
 */
export function cutDims({ type }: Pick<WantedValue, 'type'>, cuts: Cuts, mesh: Mesh): string[][] {
  const { shape, axes = [] } = type
  const keys = shape.map((_, dim) => keyOf(axes[dim] ?? '', cuts))
  const open = new Map(Object.entries(cuts).map(([key, over]) => [key, [...over]]))
  const used = new Set<string>()
  return shape.map((size, dim) => {
    const key = keys[dim]
    if (key === undefined) return []
    const over = open.get(key)!
    // Whatever does not divide stays with the last factor: the want is refused there, with its numbers.
    const isLast = keys.lastIndexOf(key) === dim
    const taken: string[] = []
    let rest = size
    while (over.length > 0) {
      const parts = axisSize(mesh, over[0]!)
      if (rest % parts !== 0 && !isLast) break
      const axis = over.shift()!
      if (used.has(axis)) continue
      used.add(axis)
      taken.push(axis)
      rest /= parts
    }
    return taken
  })
}

function keyOf(name: string, cuts: Cuts): string | undefined {
  if (Object.hasOwn(cuts, name)) return name
  const base = name.replace(/\.\d+$/, '')
  return Object.hasOwn(cuts, base) ? base : undefined
}

/** Whether some dim of the value is this logical axis, or a part of it. */
export function hasAxis({ type }: Pick<WantedValue, 'type'>, axis: string): boolean {
  return type.axes?.some((name) => name === axis || name.replace(/\.\d+$/, '') === axis) === true
}
