import { elementCount } from '../graph/index.ts'
import { type Goal, stepsFrom } from './candidates.ts'
import { certainSteps } from './certain.ts'
import { sameLayout } from './layout.ts'
import { axesSize } from './mesh.ts'
import { lackingAtLeast, wantedElements } from './overlap.ts'
import { type Step, type StepKind, stepElements } from './steps.ts'
import { printLayout } from './text.ts'
import type { Layout } from './types.ts'

/** Layouts that are looked at before the best path known is taken: more than three axes on four dims have. */
const mostLayouts = 1000

/**
 * Steps of paths that move as much are compared by these weights: a collective counts one, what is local little. An
 * exchange has no regular form, so it is taken only where it moves less.
 */
const weights: Readonly<Record<StepKind, number>> = {
  slice: 0.1,
  keepOne: 0.1,
  vary: 0,
  allGather: 1,
  reduceScatter: 1,
  allReduce: 1,
  allToAll: 1,
  permute: 1,
  exchange: 100,
}

interface Place {
  readonly layout: Layout
  readonly elements: number
  /** At least what the whole path by way of it moves. */
  readonly total: number
  readonly weight: number
  readonly last: Step | undefined
  readonly previous: Place | undefined
}

/**
 * The steps from one layout to another that put the fewest elements on the wire of all ranks together, and of those the
 * fewest collectives (A*: Hart, Nilsson and Raphael, "A formal basis for the heuristic determination of minimum cost paths",
 * 1968). Where there are too many layouts to look at, the best that was found.
 */
export function cheapestSteps(from: Layout, goal: Goal): Step[] {
  const open = new Map<string, Place>()
  const done = new Set<string>()
  const start = { layout: from, elements: 0, total: 0, weight: 0, last: undefined, previous: undefined }
  open.set(printLayout(from), start)
  let bound = certainPlace(start, goal)
  while (open.size > 0) {
    const [key, place] = cheapest(open)
    open.delete(key)
    done.add(key)
    if (sameLayout(place.layout, goal.to)) return pathTo(place)
    if (done.size > mostLayouts) break
    for (const step of stepsFrom(place.layout, goal, place.last?.kind)) {
      const elements = place.elements + stepElements(step, goal.shape, goal.mesh)
      const next: Place = {
        layout: step.after,
        elements,
        total: elements + leastElements(step.after, goal),
        weight: place.weight + weights[step.kind],
        last: step,
        previous: place,
      }
      if (!isCheaper(next, bound)) continue
      const nextKey = printLayout(step.after)
      if (done.has(nextKey)) continue
      const known = open.get(nextKey)
      if (known !== undefined && !isCheaper(next, known)) continue
      open.set(nextKey, next)
      if (sameLayout(step.after, goal.to)) bound = next
    }
  }
  return pathTo(bound)
}

/** Where the steps that always lead to the goal end. */
function certainPlace(start: Place, goal: Goal): Place {
  let place = start
  for (const step of certainSteps(start.layout, goal)) {
    const elements = place.elements + stepElements(step, goal.shape, goal.mesh)
    const weight = place.weight + weights[step.kind]
    place = { layout: step.after, elements, total: elements, weight, last: step, previous: place }
  }
  return place
}

function isCheaper(left: Place, right: Place): boolean {
  return left.total === right.total ? left.weight < right.weight : left.total < right.total
}

/**
 * What must move from a layout to the goal at least. Without terms it is what ranks lack. The n terms of an element are
 * one after n - 1 sends, and each further rank that wants it takes one more.
 */
function leastElements(layout: Layout, { shape, mesh, to }: Goal): number {
  const pending = Object.keys(layout.partial).filter((axis) => to.partial[axis] !== layout.partial[axis])
  if (pending.length === 0) return lackingAtLeast(shape, mesh, layout.dims, to.dims)
  const wanted = wantedElements(shape, mesh, to.dims) / axesSize(mesh, Object.keys(to.partial))
  return elementCount(shape) * (axesSize(mesh, pending) - 1) + wanted - elementCount(shape)
}

function cheapest(open: ReadonlyMap<string, Place>): [string, Place] {
  let best: [string, Place] | undefined
  for (const entry of open) if (best === undefined || isCheaper(entry[1], best[1])) best = entry
  return best!
}

function pathTo(place: Place): Step[] {
  const steps: Step[] = []
  for (let at: Place | undefined = place; at?.last !== undefined; at = at.previous) steps.push(at.last)
  return steps.reverse()
}
