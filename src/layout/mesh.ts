import { internalError, MeshwrightError } from '../base/index.ts'
import type { Coordinates, Mesh, MeshAxis } from './types.ts'

/** Ranks that a mesh may have: beyond every cluster there is, and small enough to count exactly. */
const mostRanks = 2 ** 24

export const axisNamePattern: RegExp = /^[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*$/

export function meshSize(mesh: Mesh): number {
  return axesSize(mesh, mesh.axes)
}

/** Size of the axis of that name; 1 for one that the mesh does not have. */
export function axisSize(mesh: Mesh, name: string): number {
  return mesh.axes.find((axis) => axis.name === name)?.size ?? 1
}

/** How many ranks the axes span, given by name or as they are. */
export function axesSize(mesh: Mesh, axes: readonly (string | MeshAxis)[]): number {
  return axes.reduce((product: number, axis) => {
    return product * (typeof axis === 'string' ? axisSize(mesh, axis) : axis.size)
  }, 1)
}

/** Place of these coordinates in the mesh, the last axis fastest. A coordinate left out is 0. */
export function placeAt(mesh: Mesh, coordinates: Coordinates): number {
  return mesh.axes.reduce((place, { name, size }) => place * size + (coordinates[name] ?? 0), 0)
}

export function coordinatesAt(mesh: Mesh, place: number): Coordinates {
  const coordinates: Record<string, number> = {}
  let rest = place
  for (const { name, size } of [...mesh.axes].reverse()) {
    coordinates[name] = rest % size
    rest = Math.floor(rest / size)
  }
  if (rest !== 0) throw internalError(`no place ${place} in the mesh ${printMesh(mesh)}`)
  return coordinates
}

/** Coordinates of every place, in order. */
export function allCoordinates(mesh: Mesh): Coordinates[] {
  return Array.from({ length: meshSize(mesh) }, (_, place) => coordinatesAt(mesh, place))
}

/** Rank of the launch that stands at a place. */
export function rankOfPlace(mesh: Mesh, place: number): number {
  return mesh.ranks?.[place] ?? place
}

/** Place among the ranks that differ only along `axes`, of which the last varies fastest. */
export function placeAlong(mesh: Mesh, axes: readonly string[], coordinates: Coordinates): number {
  return axes.reduce((place, name) => place * axisSize(mesh, name) + (coordinates[name] ?? 0), 0)
}

/** Coordinates of all ranks that differ from the one at `own` only along `axes`, in the order of `placeAlong`. */
export function groupAlong(mesh: Mesh, axes: readonly string[], own: Coordinates): Coordinates[] {
  let members = [own]
  for (const name of axes)
    members = members.flatMap((member) =>
      Array.from({ length: axisSize(mesh, name) }, (_, index) => ({ ...member, [name]: index })),
    )
  return members
}

/** Throws MeshwrightError `LAYOUT_MESH` for sizes that are no counts, names that are none or repeat, ranks that do not fit. */
export function checkMesh(mesh: Mesh): void {
  const seen = new Set<string>()
  for (const { name, size } of mesh.axes) {
    if (!axisNamePattern.test(name))
      throw meshError(`${JSON.stringify(name)} is not a name of an axis`, 'use letters, digits and dots')
    if (seen.has(name)) throw meshError(`the mesh has the axis ${name} twice`)
    seen.add(name)
    if (!Number.isSafeInteger(size) || size < 1)
      throw meshError(`axis ${name} has the size ${size}`, 'a size is a whole number from 1')
  }
  const size = meshSize(mesh)
  if (size > mostRanks) throw meshError(`${printMesh(mesh)} makes ${size} ranks, more than ${mostRanks}`)
  const { ranks } = mesh
  if (ranks === undefined) return
  if (ranks.length !== size)
    throw meshError(`${ranks.length} ranks are listed for ${printMesh(mesh)} = ${size}`)
  if (new Set(ranks).size !== size || !ranks.every((rank) => Number.isSafeInteger(rank) && rank >= 0))
    throw meshError('the ranks of a mesh must be different whole numbers from 0')
}

/**
 * Factorisations of one set of ranks, such as data x context x tensor for what is dense and expertData x expert x
 * expertTensor for experts: their products must be equal. Throws MeshwrightError `LAYOUT_FACTORISATION`.
 */
export function checkFactorisations(meshes: Readonly<Record<string, Mesh>>): void {
  const [first, ...others] = Object.entries(meshes)
  if (first === undefined) return
  for (const [, mesh] of [first, ...others]) checkMesh(mesh)
  const expected = meshSize(first[1])
  for (const [name, mesh] of others) {
    const size = meshSize(mesh)
    if (size !== expected)
      throw new MeshwrightError(
        'LAYOUT_FACTORISATION',
        `${name} factors the ranks as ${printMesh(mesh)}, which makes ${size}, but ${first[0]} as ` +
          `${printMesh(first[1])}, which makes ${expected}`,
        { hint: factorisationHint(mesh, expected) },
      )
  }
}

/** The change of one axis that makes the product right. */
function factorisationHint(mesh: Mesh, expected: number): string {
  const size = meshSize(mesh)
  for (const axis of mesh.axes) {
    const others = size / axis.size
    if (expected % others === 0) return `${axis.name}=${expected / others} would make ${expected}`
  }
  return `the sizes must multiply to ${expected}`
}

/** `data=2, tensor.row=4` */
export function printMesh(mesh: Mesh): string {
  return mesh.axes.map(({ name, size }) => `${name}=${size}`).join(', ')
}

function meshError(message: string, hint?: string): MeshwrightError {
  return new MeshwrightError('LAYOUT_MESH', message, hint === undefined ? {} : { hint })
}
