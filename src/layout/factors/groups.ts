/** Dims on both sides of a reshape that hold as many elements in as many runs. */
export interface ReshapeGroup {
  readonly left: readonly number[]
  readonly right: readonly number[]
}

/** The smallest groups of dims of two shapes of as many elements, in order; dims of size 1 belong to none. */
export function reshapeGroups(from: readonly number[], to: readonly number[]): ReshapeGroup[] {
  if (from.includes(0) || to.includes(0)) return []
  const leftDims = [...from.keys()].filter((dim) => from[dim]! > 1)
  const rightDims = [...to.keys()].filter((dim) => to[dim]! > 1)
  const groups: ReshapeGroup[] = []
  for (let i = 0, j = 0; i < leftDims.length; ) {
    const left = [leftDims[i++]!]
    const right = [rightDims[j++]!]
    let leftCount = from[left[0]!]!
    let rightCount = to[right[0]!]!
    while (leftCount !== rightCount)
      if (leftCount < rightCount) {
        left.push(leftDims[i]!)
        leftCount *= from[leftDims[i++]!]!
      } else {
        right.push(rightDims[j]!)
        rightCount *= to[rightDims[j++]!]!
      }
    groups.push({ left, right })
  }
  return groups
}

/** A factor of a dim of a group: which it is, and how many elements of the group lie between its steps. */
interface GroupFactor {
  readonly dim: number
  readonly factor: number
  readonly size: number
  readonly stride: number
}

/** Factors of the dims of a group, the outermost first; those of size 1 are none. */
function groupFactors(dims: readonly number[], factors: readonly (readonly number[])[]): GroupFactor[] {
  const found: GroupFactor[] = []
  let stride = 1
  for (const dim of dims.toReversed())
    for (const [factor, size] of [...factors[dim]!.entries()].toReversed()) {
      if (size > 1) found.push({ dim, factor, size, stride })
      stride *= size
    }
  return found.toReversed()
}

/** A factor of one side of a reshape, and the factor of the other side that is the same: of one size, at one stride. */
export interface SameFactor {
  readonly from: { readonly dim: number; readonly factor: number }
  readonly to: { readonly dim: number; readonly factor: number }
}

export function sameFactors(
  shapes: { readonly from: readonly number[]; readonly to: readonly number[] },
  factors: { readonly from: readonly (readonly number[])[]; readonly to: readonly (readonly number[])[] },
): SameFactor[] {
  return reshapeGroups(shapes.from, shapes.to).flatMap(({ left, right }) => {
    const others = groupFactors(right, factors.to)
    return groupFactors(left, factors.from).flatMap((from) => {
      const to = others.find(({ size, stride }) => size === from.size && stride === from.stride)
      return to === undefined ? [] : [{ from, to }]
    })
  })
}
