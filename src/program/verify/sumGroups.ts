import { firstGap } from '../accesses.ts'
import { axisSize } from '../mesh.ts'
import type { Group, ProgramMesh, Region } from '../types.ts'

/** Ranks that differ only along some axes. */
export type Span = Pick<Group, 'axes' | 'pipelines'>

/** Rows of a value that a collective took the terms of. */
export interface Reduced extends Region {
  /** Axes along which they were added. */
  readonly axes: readonly string[]
  /** Whether the sum lies where the terms were; otherwise these are terms still. */
  readonly inPlace: boolean
}

/** Axes of a span along which there are several ranks. */
export function wideAxes({ submeshes }: ProgramMesh, { axes, pipelines }: Span): string[] {
  const places = pipelines?.map((pipeline) => submeshes[pipeline] ?? []) ?? submeshes
  return axes.filter((axis) =>
    axis === 'pipeline' ? places.length > 1 : places.some((submesh) => axisSize(submesh, axis) > 1),
  )
}

/** What is left of a sum over `whole` once it is added over `over`: no axes where nothing is; undefined where it cannot be. */
export function remainder(mesh: ProgramMesh, whole: Span, over: Span): Span | undefined {
  const [all, some] = [wideAxes(mesh, whole), wideAxes(mesh, over)]
  if (some.some((axis) => !all.includes(axis))) return undefined
  const byPipeline = some.includes('pipeline')
  if (byPipeline && String(over.pipelines) !== String(whole.pipelines)) return undefined
  const axes = all.filter((axis) => !some.includes(axis))
  return { axes, ...(whole.pipelines === undefined || byPipeline ? {} : { pipelines: whole.pipelines }) }
}

/** Whether terms that are said to lie over `said`, or to be whole, are those of a sum over `span`. */
export function isSameSpan(mesh: ProgramMesh, said: Span | undefined, span: Span): boolean {
  const ours = said === undefined ? [] : wideAxes(mesh, said).toSorted()
  const theirs = wideAxes(mesh, span).toSorted()
  if (ours.join() !== theirs.join()) return false
  return !ours.includes('pipeline') || String(said?.pipelines) === String(span.pipelines)
}

/** Whether all of `rows` were added along all of `axes`. Where it is for a reader, only sums that lie there count. */
export function isAllAdded(
  reduced: readonly Reduced[],
  axes: readonly string[],
  rows: Region,
  forReader: boolean,
): boolean {
  return axes.every((axis) => {
    const along = reduced.filter((one) => (one.inPlace ? one.axes.includes(axis) : !forReader))
    return firstGap(along, rows) === undefined
  })
}
