import { MeshwrightError } from '../base/index.ts'
import { bytesPerElement, type TensorType } from '../graph/index.ts'
import { blockElements, heldBlock } from './blocks.ts'
import { checkLayout } from './check.ts'
import { piecesOf } from './exchange.ts'
import { replicaAxes, withDim, withoutPartial } from './layout.ts'
import { allCoordinates, axesSize, checkMesh, groupAlong, meshSize, placeAt, rankOfPlace } from './mesh.ts'
import { type Redistribution, redistribute } from './redistribute.ts'
import { printLayout } from './text.ts'
import type { Block, Coordinates, Layout, Mesh } from './types.ts'

/** A layout on a mesh of its own. */
export interface Located {
  readonly mesh: Mesh
  readonly layout: Layout
}

/** A block of the whole tensor that one rank of the launch takes from another; from itself where it holds it already. */
export interface Transfer {
  readonly from: number
  readonly to: number
  readonly block: Block
  readonly bytes: number
}

export interface Crossing {
  /** On the source's own mesh, before anything crosses: terms are reduced. */
  readonly reduction: Redistribution
  readonly transfers: readonly Transfer[]
  /** Of the reduction and of all transfers between different ranks. */
  readonly wireBytes: number
}

/**
 * From a layout on one mesh to a layout on another: sub-meshes of different stages, or two factorisations of the same
 * ranks. Every rank of the target takes each element that it is to hold once, from itself where it has it, otherwise from the
 * rank that stands nearest to its own place, relative to the sizes of the meshes, among those that hold it. Terms are first
 * reduced on their own mesh, scattered where a dim has room. A target of terms, and values that vary, are refused:
 * MeshwrightError `LAYOUT_CROSSING`.
 */
export function redistributeAcross(type: TensorType, source: Located, target: Located): Crossing {
  for (const { mesh, layout } of [source, target]) {
    checkMesh(mesh)
    checkLayout(layout, type.shape, mesh)
  }
  checkCrossing(source.layout, target.layout)
  const whole = withoutTerms(source.layout, type.shape, source.mesh)
  const reduction = redistribute(type, source.mesh, source.layout, whole)
  const transfers = allCoordinates(target.mesh).flatMap((own, place) => {
    const wanted = heldBlock(target.layout, type.shape, target.mesh, own)
    const to = rankOfPlace(target.mesh, place)
    const relative = place / meshSize(target.mesh)
    return piecesOf(type.shape, source.mesh, whole.dims, wanted).map(
      ({ coordinates, block }): Transfer => ({
        from: nearestHolder({ mesh: source.mesh, layout: whole }, coordinates, to, relative),
        to,
        block,
        bytes: blockElements(block) * bytesPerElement[type.dtype],
      }),
    )
  })
  const crossing = transfers.reduce((sum, { from, to, bytes }) => (from === to ? sum : sum + bytes), 0)
  return { reduction, transfers, wireBytes: reduction.wireBytes + crossing }
}

/** The rank that holds the block of these coordinates nearest to a relative place in the mesh; `preferred` if it is one. */
function nearestHolder(
  { mesh, layout }: Located,
  coordinates: Coordinates,
  preferred: number,
  relative: number,
): number {
  const places = groupAlong(mesh, replicaAxes(layout, mesh), coordinates)
    .map((member) => placeAt(mesh, member))
    .sort((a, b) => a - b)
  const size = meshSize(mesh)
  let best = places[0]!
  for (const place of places) {
    if (rankOfPlace(mesh, place) === preferred) return preferred
    if (Math.abs(place / size - relative) < Math.abs(best / size - relative)) best = place
  }
  return rankOfPlace(mesh, best)
}

/** The layout with its terms reduced: scattered over the first dim that they can cut further, else to all. */
function withoutTerms(layout: Layout, shape: readonly number[], mesh: Mesh): Layout {
  let whole = layout
  for (const axis of Object.keys(layout.partial)) {
    whole = withoutPartial(whole, [axis])
    const dim = whole.dims.findIndex((axes, index) => axesSize(mesh, [...axes, axis]) <= shape[index]!)
    if (dim >= 0) whole = withDim(whole, dim, [...whole.dims[dim]!, axis])
  }
  return whole
}

function checkCrossing(from: Layout, to: Layout): void {
  const [term] = Object.keys(to.partial)
  if (term !== undefined)
    throw new MeshwrightError(
      'LAYOUT_CROSSING',
      `${printLayout(to)} is to hold terms along ${term}, which what arrives from another mesh is not`,
      { hint: 'let the whole arrive, and make terms of it there' },
    )
  const [varying] = from.varying
  if (varying !== undefined)
    throw new MeshwrightError(
      'LAYOUT_CROSSING',
      `values vary along ${varying} in ${printLayout(from)}: nothing says which of them another mesh is to get`,
      { hint: `if their mean is meant, the values are terms of it: partial mean ${varying}` },
    )
}
