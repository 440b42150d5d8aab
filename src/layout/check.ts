import { didYouMean, MeshwrightError } from '../base/index.ts'
import { axesSize, axisSize, printMesh } from './mesh.ts'
import { printLayout } from './text.ts'
import type { Layout, Mesh, PartialReduction } from './types.ts'

/**
 * What a layout must obey on a mesh, for a tensor of a shape. Throws MeshwrightError:
 *
 * - `LAYOUT_RANK`: it has another number of dims than the tensor
 * - `LAYOUT_AXIS`: the mesh has no such axis
 * - `LAYOUT_AXIS_TWICE`: an axis has two uses on one tensor: two dims, or a dim and `partial`, or `varying` and either
 * - `LAYOUT_PARTIAL`: terms of a maximum and of a sum or mean at once, whose order would matter
 * - `LAYOUT_SHARDS`: a dim is cut into more blocks than it has elements. Blocks may be uneven, but none may be empty: most ops
 *   and engines have no meaning or no kernel for a tensor of no elements.
 */
export function checkLayout(layout: Layout, shape: readonly number[], mesh: Mesh): void {
  const shown = printLayout(layout)
  if (layout.dims.length !== shape.length)
    throw new MeshwrightError(
      'LAYOUT_RANK',
      `the layout ${shown} has ${layout.dims.length} dims, the tensor [${shape.join(', ')}] has ${shape.length}`,
      { hint: `give ${shape.length} groups, such as [${shape.map(() => '.').join(' | ')}]` },
    )
  checkAxes(layout, mesh, shown)
  if (!reductionsCommute(Object.values(layout.partial)))
    throw new MeshwrightError(
      'LAYOUT_PARTIAL',
      `the layout ${shown} holds terms of a maximum and of a sum or mean at once: the result would depend on their order`,
      { hint: 'reduce one of them first' },
    )
  shape.forEach((size, dim) => {
    const axes = layout.dims[dim]!
    const count = axesSize(mesh, axes)
    if (count > 1 && count > size)
      throw new MeshwrightError(
        'LAYOUT_SHARDS',
        `dim ${dim} of size ${size} would be cut into ${count} blocks (${formatAxes(axes, mesh)}), some of them empty`,
        { hint: shardsHint(axes, size, mesh) },
      )
  })
}

function checkAxes({ dims, partial, varying }: Layout, mesh: Mesh, shown: string): void {
  const uses = new Map<string, string>()
  const use = (axis: string, purpose: string): void => {
    if (!mesh.axes.some(({ name }) => name === axis)) {
      const names = mesh.axes.map(({ name }) => name)
      const hint = didYouMean(axis, names) ?? (names.length === 0 ? undefined : `it has ${names.join(', ')}`)
      throw new MeshwrightError(
        'LAYOUT_AXIS',
        `the mesh ${printMesh(mesh)} has no axis ${axis}, which the layout ${shown} names`,
        hint === undefined ? {} : { hint },
      )
    }
    const known = uses.get(axis)
    if (known !== undefined)
      throw new MeshwrightError(
        'LAYOUT_AXIS_TWICE',
        `axis ${axis} has two uses in the layout ${shown}: it ${known}, and it ${purpose}`,
        { hint: unusedHint(mesh, dims.flat().concat(Object.keys(partial), varying)) },
      )
    uses.set(axis, purpose)
  }
  dims.forEach((axes, dim) => {
    for (const axis of axes) use(axis, `shards dim ${dim}`)
  })
  for (const [axis, reduce] of Object.entries(partial)) use(axis, `holds terms of a ${reduce}`)
  for (const axis of varying) use(axis, 'varies')
}

function unusedHint(mesh: Mesh, used: readonly string[]): string {
  const free = mesh.axes.filter(({ name }) => !used.includes(name)).map(({ name }) => name)
  return free.length === 0
    ? 'an axis has one use on a tensor; no axis of the mesh is free'
    : `an axis has one use on a tensor; free is ${free.join(', ')}`
}

function shardsHint(axes: readonly string[], size: number, mesh: Mesh): string {
  const fitting: string[] = []
  for (const axis of axes)
    if (axesSize(mesh, [...fitting, axis]) <= size && axisSize(mesh, axis) > 1) fitting.push(axis)
  const instead = fitting.length === 0 ? 'leave the dim whole' : `use ${formatAxes(fitting, mesh)} alone`
  return `at most ${size} blocks: ${instead}, or make the dim at least ${axesSize(mesh, axes)}`
}

/** Throws MeshwrightError `LAYOUT_UNEVEN` where the shards of `what` would not be of one size, naming the nearest that work. */
export function checkEven(what: string, size: number, axes: readonly string[], mesh: Mesh): void {
  const count = axesSize(mesh, axes)
  if (size % count === 0) return
  const below = Math.floor(size / count) * count
  const sizes = below === 0 ? `${count}` : `${below} or ${below + count}`
  const counts = nearestDivisors(size, count)
  throw new MeshwrightError(
    'LAYOUT_UNEVEN',
    `${what} ${size} cannot be cut into ${count} equal parts (${formatAxes(axes, mesh)})`,
    { hint: `nearest that work: ${what} ${sizes}, or ${counts.join(' or ')} parts` },
  )
}

/** The divisors of `size` next below and next above `count`. */
export function nearestDivisors(size: number, count: number): number[] {
  let below = Math.min(count, size)
  while (below > 1 && size % below !== 0) below--
  let above = count
  while (above < Math.min(size, 64 * count) && size % above !== 0) above++
  return above >= count && size % above === 0 && above !== below ? [below, above] : [below]
}

/** Whether the value is the same whichever reduction is made first. */
export function reductionsCommute(reductions: readonly PartialReduction[]): boolean {
  return reductions.every((reduce) => reduce === 'max') || !reductions.includes('max')
}

/** `tensor=4`, `data=2 x tensor=4` */
export function formatAxes(axes: readonly string[], mesh: Mesh): string {
  return axes.map((axis) => `${axis}=${axisSize(mesh, axis)}`).join(' x ')
}
