import type { PartialReduction } from '../types.ts'
import type { PlacementRule } from './settings.ts'

/** A value as rules see it. */
export interface RuledValue {
  readonly name: string
  /** Logical axis of each dim, '' where it has none. */
  readonly axes: readonly string[]
}

/** What rules say of a value. */
export interface Ruling {
  /** Axes over which each dim is cut; undefined where no rule says. */
  readonly dims: readonly (readonly string[] | undefined)[]
  readonly partial: Readonly<Record<string, PartialReduction>>
  readonly varying: readonly string[]
  readonly keep: boolean
  /** Index of the last rule that said something. */
  readonly rule: number
}

/**
 * What the rules of a plan say of a value, mesh axes replaced by their `parts`; undefined where none fits it. Of several, the
 * later wins: a layout says all dims anew (as many as it has), a logical axis only its own. A name that is not in `parts`
 * stands for itself.
 */
export function applyRules(
  rules: readonly PlacementRule[],
  parts: Readonly<Record<string, readonly string[]>>,
  { name, axes }: RuledValue,
): Ruling | undefined {
  const expand = (names: readonly string[]): string[] => names.flatMap((axis) => partsOf(parts, axis))
  let ruling: Ruling | undefined
  for (const [rule, { match, place, keep }] of rules.entries()) {
    if (match !== null && !matchesGlob(match, name)) continue
    if (place.kind === 'layout') {
      const { dims, partial, varying } = place.layout
      ruling = {
        dims: dims.map(expand),
        partial: Object.fromEntries(
          Object.entries(partial).flatMap(([axis, reduce]) => expand([axis]).map((part) => [part, reduce])),
        ),
        varying: expand(varying),
        keep,
        rule,
      }
    } else if (axes.includes(place.axis)) {
      const before = ruling?.dims ?? axes.map(() => undefined)
      ruling = {
        dims: before.map((own, dim) => (axes[dim] === place.axis ? expand(place.over) : own)),
        partial: ruling?.partial ?? {},
        varying: ruling?.varying ?? [],
        keep: keep || ruling?.keep === true,
        rule,
      }
    }
  }
  return ruling
}

function partsOf(parts: Readonly<Record<string, readonly string[]>>, axis: string): readonly string[] {
  return Object.hasOwn(parts, axis) ? parts[axis]! : [axis]
}

/** Whether all of `text` fits the glob: `*` stands for any characters, also none. Takes time of |glob| · |text| at most. */
export function matchesGlob(glob: string, text: string): boolean {
  let [at, place] = [0, 0]
  let star = -1
  let resume = 0
  while (place < text.length)
    if (glob[at] === '*') {
      star = at++
      resume = place
    } else if (glob[at] === text[place]) {
      at++
      place++
    } else if (star >= 0) {
      at = star + 1
      place = ++resume
    } else return false
  while (glob[at] === '*') at++
  return at === glob.length
}
