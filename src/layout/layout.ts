import { axesSize } from './mesh.ts'
import type { Layout, Mesh, PartialReduction } from './types.ts'

/** A layout in normal form: axes that vary sorted. */
export function makeLayout(
  dims: readonly (readonly string[])[],
  rest: { readonly partial?: Layout['partial']; readonly varying?: readonly string[] } = {},
): Layout {
  return { dims, partial: rest.partial ?? {}, varying: [...(rest.varying ?? [])].sort() }
}

/** Every rank holds all of it. */
export function replicatedLayout(rank: number): Layout {
  return makeLayout(Array.from({ length: rank }, () => []))
}

export function sameAxes(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((axis, index) => axis === right[index])
}

export function sameDims(left: Layout['dims'], right: Layout['dims']): boolean {
  return left.length === right.length && left.every((axes, dim) => sameAxes(axes, right[dim]!))
}

export function sameLayout(left: Layout, right: Layout): boolean {
  return sameDims(left.dims, right.dims) && samePartial(left, right) && sameAxes(left.varying, right.varying)
}

export function samePartial(left: Layout, right: Layout): boolean {
  const axes = Object.keys(left.partial)
  return (
    axes.length === Object.keys(right.partial).length &&
    axes.every((axis) => left.partial[axis] === right.partial[axis])
  )
}

/** All axes that shard a dim. */
export function shardingAxes({ dims }: Pick<Layout, 'dims'>): string[] {
  return dims.flat()
}

/** Axes along which ranks hold the same, in mesh order. */
export function replicaAxes(layout: Layout, mesh: Mesh): string[] {
  return mesh.axes
    .map(({ name }) => name)
    .filter(
      (name) =>
        layout.partial[name] === undefined &&
        !layout.varying.includes(name) &&
        !layout.dims.some((axes) => axes.includes(name)),
    )
}

/** Into how many blocks the tensor is cut. */
export function blockCount(layout: Pick<Layout, 'dims'>, mesh: Mesh): number {
  return axesSize(mesh, shardingAxes(layout))
}

export function withDim(layout: Layout, dim: number, axes: readonly string[]): Layout {
  return { ...layout, dims: layout.dims.map((own, other) => (other === dim ? axes : own)) }
}

export function withoutPartial(layout: Layout, axes: readonly string[]): Layout {
  const kept = Object.entries(layout.partial).filter(([axis]) => !axes.includes(axis))
  return { ...layout, partial: Object.fromEntries(kept) }
}

export function withPartial(layout: Layout, axes: readonly string[], reduce: PartialReduction): Layout {
  const added = Object.fromEntries(axes.map((axis) => [axis, reduce]))
  return { ...layout, partial: { ...layout.partial, ...added } }
}
