import { type Goal, stepsFrom } from './candidates.ts'
import { sameLayout } from './layout.ts'
import { type Step, type StepKind, stepElements } from './steps.ts'
import { printLayout } from './text.ts'
import type { Layout } from './types.ts'

/** Layouts that are looked at before the best path known is taken: more than three axes on four dims have. */
const mostLayouts = 4000

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
  readonly weight: number
  readonly last: Step | undefined
  readonly previous: Place | undefined
}

/**
 * The steps from one layout to another that put the fewest elements on the wire of all ranks together, and of those the
 * fewest collectives (Dijkstra). Undefined where no steps lead there.
 */
export function cheapestSteps(from: Layout, goal: Goal): Step[] | undefined {
  const open = new Map<string, Place>()
  const done = new Set<string>()
  open.set(printLayout(from), { layout: from, elements: 0, weight: 0, last: undefined, previous: undefined })
  let bound: Place | undefined
  while (open.size > 0) {
    const [key, place] = cheapest(open)
    open.delete(key)
    done.add(key)
    if (sameLayout(place.layout, goal.to)) return pathTo(place)
    if (done.size > mostLayouts) return bound === undefined ? undefined : pathTo(bound)
    for (const step of stepsFrom(place.layout, goal)) {
      const next: Place = {
        layout: step.after,
        elements: place.elements + stepElements(step, goal.shape, goal.mesh),
        weight: place.weight + weights[step.kind],
        last: step,
        previous: place,
      }
      if (bound !== undefined && !isCheaper(next, bound)) continue
      const nextKey = printLayout(step.after)
      if (done.has(nextKey)) continue
      const known = open.get(nextKey)
      if (known !== undefined && !isCheaper(next, known)) continue
      open.set(nextKey, next)
      if (sameLayout(step.after, goal.to)) bound = next
    }
  }
  return undefined
}

function isCheaper(left: Place, right: Place): boolean {
  return left.elements === right.elements ? left.weight < right.weight : left.elements < right.elements
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
