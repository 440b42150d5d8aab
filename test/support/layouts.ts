import fc from 'fast-check'
import {
  axesSize,
  checkLayout,
  type Layout,
  type Mesh,
  makeLayout,
  type PartialReduction,
} from '../../src/layout/index.ts'

const names = ['a', 'b', 'c.row'] as const

export const meshes: fc.Arbitrary<Mesh> = fc
  .array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 })
  .map((sizes) => ({ axes: sizes.map((size, index) => ({ name: names[index]!, size })) }))

/** Sizes that axes of 2, 3 and 4 divide, and sizes that they do not. */
const sizes = fc.oneof({ weight: 2, arbitrary: fc.integer({ min: 1, max: 9 }) }, fc.constantFrom(8, 12, 16))

export const shapes: fc.Arbitrary<number[]> = fc.array(sizes, { maxLength: 3 })

export interface Uses {
  /** For each axis: a dim (modulo their number), or one of the other uses. */
  readonly use: readonly (number | 'none' | 'partial' | 'varying')[]
  readonly order: readonly number[]
  readonly reduce: PartialReduction
}

export function uses(varying: boolean): fc.Arbitrary<Uses> {
  const other = fc.constantFrom('none', 'partial', varying ? 'varying' : 'none')
  return fc.record({
    use: fc.array(fc.oneof({ weight: 3, arbitrary: fc.nat(2) }, { weight: 2, arbitrary: other }), {
      minLength: 3,
      maxLength: 3,
    }) as fc.Arbitrary<Uses['use']>,
    order: fc.constantFrom([0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]),
    reduce: fc.constantFrom('sum', 'max', 'mean'),
  })
}

/** The layout that these uses make, less what the sizes have no room for, or what would not be even. */
export function layoutOf(
  { use, order, reduce }: Uses,
  shape: readonly number[],
  mesh: Mesh,
  isEven: boolean = false,
): Layout {
  const dims: string[][] = shape.map(() => [])
  const partial: Record<string, PartialReduction> = {}
  const varying: string[] = []
  for (const index of order) {
    const axis = mesh.axes[index]
    if (axis === undefined) continue
    const chosen = use[index]!
    if (chosen === 'partial') partial[axis.name] = reduce
    else if (chosen === 'varying') varying.push(axis.name)
    else if (chosen !== 'none' && shape.length > 0) {
      const dim = chosen % shape.length
      const parts = axesSize(mesh, [...dims[dim]!, axis.name])
      if (isEven ? shape[dim]! % parts === 0 : parts <= shape[dim]!) dims[dim]!.push(axis.name)
    }
  }
  const layout = makeLayout(dims, { partial, varying })
  checkLayout(layout, shape, mesh)
  return layout
}
