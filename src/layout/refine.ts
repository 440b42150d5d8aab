import { MeshwrightError, nearestWorking } from '../base/index.ts'
import { checkFactorisations, checkMesh, printMesh } from './mesh.ts'
import type { MeshAxis } from './types.ts'

/** Axes that cut ranks as two factorisations do, both at once. */
export interface RefinedAxes {
  /** Outermost first, none of size 1: `<dense>` where one of the first is not split, else `<dense>.<expert>`. */
  readonly axes: readonly MeshAxis[]
  /** What makes up each axis of the first factorisation, outermost first; nothing where its size is 1. */
  readonly dense: Readonly<Record<string, readonly string[]>>
  readonly experts: Readonly<Record<string, readonly string[]>>
}

/** A stretch of ranks that is within one axis of each factorisation. */
interface Part {
  readonly dense: string
  readonly expert: string
  readonly size: number
}

/**
 * The coarsest axes from which both of two factorisations of the same ranks can be put together (outermost first, the last axis
 * fastest): data=4, tensor=1 and expertData=2, expert=2 give `data.expertData`=2, `data.expert`=2. Nothing of the kind
 * exists where an axis of one ends inside an axis of the other at a number of ranks that does not divide it.
 *
 * @throws MeshwrightError `LAYOUT_FACTORISATION` where the products differ or the two do not nest
 */
export function refineAxes(dense: readonly MeshAxis[], experts: readonly MeshAxis[]): RefinedAxes {
  checkMesh({ axes: dense })
  checkMesh({ axes: experts })
  checkFactorisations({ 'the dense part': { axes: dense }, 'the expert part': { axes: experts } })
  const found = partsOf(dense, experts)
  if ('crossing' in found) throw crossingError(dense, experts, found.crossing)
  const counts = new Map<string, number>()
  for (const part of found) counts.set(part.dense, (counts.get(part.dense) ?? 0) + 1)
  const named = found.map((part) => ({
    ...part,
    name: counts.get(part.dense) === 1 ? part.dense : `${part.dense}.${part.expert}`,
  }))
  const madeOf = (axes: readonly MeshAxis[], key: 'dense' | 'expert'): Record<string, string[]> =>
    Object.fromEntries(
      axes.map(({ name }) => [name, named.filter((part) => part[key] === name).map((part) => part.name)]),
    )
  return {
    axes: named.map(({ name, size }) => ({ name, size })),
    dense: madeOf(dense, 'dense'),
    experts: madeOf(experts, 'expert'),
  }
}

/** Outermost first; or the two axes that cross, where no refinement exists. The products are equal. */
function partsOf(
  dense: readonly MeshAxis[],
  experts: readonly MeshAxis[],
): Part[] | { readonly crossing: readonly [MeshAxis, MeshAxis] } {
  const parts: Part[] = []
  const [left, right] = [dense, experts].map((axes) => axes.filter(({ size }) => size > 1).reverse())
  let [at, other] = [0, 0]
  let rest = left![0]?.size ?? 1
  let otherRest = right![0]?.size ?? 1
  while (at < left!.length && other < right!.length) {
    const size = Math.min(rest, otherRest)
    if (Math.max(rest, otherRest) % size !== 0) return { crossing: [left![at]!, right![other]!] }
    parts.push({ dense: left![at]!.name, expert: right![other]!.name, size })
    rest /= size
    otherRest /= size
    if (rest === 1) rest = left![++at]?.size ?? 1
    if (otherRest === 1) otherRest = right![++other]?.size ?? 1
  }
  return parts.reverse()
}

function crossingError(
  dense: readonly MeshAxis[],
  experts: readonly MeshAxis[],
  [axis, crossed]: readonly [MeshAxis, MeshAxis],
): MeshwrightError {
  const sizes = workingSizes(dense, experts, crossed)
  return new MeshwrightError(
    'LAYOUT_FACTORISATION',
    `${printMesh({ axes: dense })} and ${printMesh({ axes: experts })} do not nest: ${axis.name}=${axis.size} and ` +
      `${crossed.name}=${crossed.size} overlap, and neither ends where ranks of the other do`,
    sizes.length === 0 ? {} : { hint: `${crossed.name}=${sizes.join(' or ')} would work` },
  )
}

/** Sizes of an axis of `experts` next to its own that nest, the outermost axis following. */
function workingSizes(
  dense: readonly MeshAxis[],
  experts: readonly MeshAxis[],
  { name, size }: MeshAxis,
): number[] {
  const total = dense.reduce((product, axis) => product * axis.size, 1)
  const nests = (candidate: number): boolean => {
    const inner = experts.slice(1).map((axis) => (axis.name === name ? { name, size: candidate } : axis))
    const product = inner.reduce((count, axis) => count * axis.size, 1)
    if (total % product !== 0) return false
    return Array.isArray(partsOf(dense, [{ name: experts[0]!.name, size: total / product }, ...inner]))
  }
  return nearestWorking(size, nests, total)
}
