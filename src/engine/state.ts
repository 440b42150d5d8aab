import { didYouMean, exitCodes, internalError, MeshwrightError } from '../base/index.ts'
import { type DType, elementCount, sameShape } from '../graph/index.ts'
import {
  type BufferSpec,
  blockAxes,
  type Coordinates,
  coordinatesOf,
  type HeldPart,
  heldParts,
  type PackEntry,
  type Program,
  type ProgramMesh,
  type Role,
  rolesByRank,
} from '../program/index.ts'
import { allocate } from './memory.ts'
import type { HostTensor, StateTensors } from './types.ts'

/**
 * Between whole tensors by full name and the flat packs, or shards of them, that ranks hold them in. A state buffer without
 * a pack is one tensor under the buffer's own name.
 */

/** A tensor of the state, and the places that count for it, which together have all of it. */
export interface StateTensor {
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly parts: readonly StatePart[]
}

interface OwnedTensor extends StateTensor {
  readonly parts: StatePart[]
  readonly pipeline: number
  /** First elements of the parts. */
  readonly starts: Set<number>
}

/** Elements `start` to `end` of a tensor. */
export interface StatePart {
  readonly rank: number
  /** Index into the role's buffers, and elements from the start of it. */
  readonly buffer: number
  readonly local: number
  readonly start: number
  readonly end: number
}

/** The current state of one buffer on one rank, as a view. */
export type BufferView = (rank: number, buffer: number) => HostTensor['data']

/** Axes along which ranks hold different elements of some of the entries: those of shards, and of blocks. */
function dealtAxes({ shard }: Pick<BufferSpec, 'shard'>, entries: readonly PackEntry[]): Set<string> {
  return new Set([...(shard?.axes ?? []), ...entries.flatMap(blockAxes)])
}

/**
 * Whose copy of a buffer, or of some of its entries, counts: of ranks that hold the same, that with coordinate 0 on every
 * axis but those along which elements are dealt out.
 */
export function isFirstHolder(
  spec: Pick<BufferSpec, 'shard' | 'pack'>,
  mesh: ProgramMesh,
  { pipeline, axes }: Coordinates,
  entries: readonly PackEntry[] = spec.pack ?? [],
): boolean {
  const dealt = dealtAxes(spec, entries)
  return (mesh.submeshes[pipeline] ?? []).every(({ name }) => (axes[name] ?? 0) === 0 || dealt.has(name))
}

/** Equal for ranks that hold the same elements of an entry. */
export function holderKey(
  spec: Pick<BufferSpec, 'shard'>,
  { pipeline, axes }: Coordinates,
  entry: PackEntry,
): string {
  const places = [...dealtAxes(spec, [entry])].map((axis) => axes[axis] ?? 0)
  return `${pipeline} ${entry.name} ${places.join()}`
}

/** All tensors of a program's state, in rank order. */
export function stateTensors(program: Program): Map<string, StateTensor> {
  const { mesh } = program
  const tensors = new Map<string, OwnedTensor>()
  const held = new Set<string>()
  rolesByRank(program).forEach((role, rank) => {
    const own = coordinatesOf(mesh, rank)
    role.buffers.forEach((spec, buffer) => {
      if (spec.state !== true) return
      for (const entry of entriesOf(spec)) held.add(entry.name)
      for (const { entry, start, end, local } of partsOn(spec, mesh, own)) {
        const { name, shape, owned } = entry
        const { pipeline } = own
        const tensor: OwnedTensor = tensors.get(name) ?? {
          dtype: spec.dtype,
          shape,
          parts: [],
          pipeline,
          starts: new Set(),
        }
        // Of several stages that own it the lowest counts, of ranks that hold the same elements the first.
        if (!owned || tensor.pipeline !== pipeline || tensor.starts.has(start)) continue
        tensors.set(name, tensor)
        tensor.starts.add(start)
        tensor.parts.push({ rank, buffer, local, start, end })
      }
    })
  })
  for (const name of held) {
    const tensor = tensors.get(name)
    const elements = tensor?.parts.reduce((sum, { start, end }) => sum + end - start, 0)
    // A tensor without elements is nobody's.
    if (tensor === undefined || elements !== elementCount(tensor.shape))
      throw internalError(`no rank owns the state ${name}`)
  }
  return tensors
}

/**
 * Throws MeshwrightError where `state` is not exactly the tensors of the program: `ENGINE_STATE_MISSING`,
 * `ENGINE_STATE_SHAPE` or `ENGINE_STATE_UNKNOWN`.
 */
export function checkState(tensors: ReadonlyMap<string, StateTensor>, state: StateTensors): void {
  const missing = [...tensors.keys()].filter((name) => !state.has(name))
  if (missing.length > 0)
    throw stateError(
      'MISSING',
      `the state lacks ${listed(missing)}`,
      'give every parameter and every state of the optimizer, by its full name',
    )
  for (const [name, given] of state) {
    const wanted = tensors.get(name)
    if (wanted === undefined)
      throw stateError(
        'UNKNOWN',
        `the program has no state ${name}`,
        didYouMean(name, tensors.keys()) ?? 'leave it out, or give the state of this model and optimizer',
      )
    if (!sameShape(given.shape, wanted.shape))
      throw stateError(
        'SHAPE',
        `${name} is of shape [${given.shape.join(', ')}], the program wants [${wanted.shape.join(', ')}]`,
        'give the state of the model that the program was made for',
      )
    if (given.data.length !== elementCount(given.shape))
      throw stateError(
        'SHAPE',
        `${name} has ${given.data.length} elements for shape [${given.shape.join(', ')}]`,
        `${elementCount(given.shape)} elements fill it`,
      )
    if ((given.dtype === 'i32') !== (wanted.dtype === 'i32' || wanted.dtype === 'bool'))
      throw stateError(
        'SHAPE',
        `${name} is of dtype ${given.dtype}, the program wants ${wanted.dtype}`,
        'floats become those of the program by themselves, integers do not',
      )
  }
}

/** Writes a checked state into the buffers of one rank, converted to their dtype. */
export function scatterState(
  program: Program,
  role: Role,
  rank: number,
  state: StateTensors,
  view: BufferView,
): void {
  const own = coordinatesOf(program.mesh, rank)
  role.buffers.forEach((spec, buffer) => {
    if (spec.state !== true) return
    const target = view(rank, buffer)
    for (const { entry, start, end, local } of partsOn(spec, program.mesh, own))
      target.set(state.get(entry.name)!.data.subarray(start, end), local)
  })
}

/** The tensors of the state, each put together from the places that count. */
export function gatherState(
  tensors: ReadonlyMap<string, StateTensor>,
  view: BufferView,
): Map<string, HostTensor> {
  const gathered = new Map<string, HostTensor>()
  for (const [name, { shape, parts }] of tensors)
    for (const { rank, buffer, local, start, end } of parts)
      put(gathered, name, shape, start, view(rank, buffer).subarray(local, local + end - start))
  return gathered
}

/** Adds to `gathered` what a rank has of the tensors that a pack owns and that count, as copies out of its elements. */
export function gatherPack(
  gathered: Map<string, HostTensor>,
  spec: BufferSpec,
  mesh: ProgramMesh,
  own: Coordinates,
  elements: HostTensor['data'],
  counts: (entry: PackEntry) => boolean,
): void {
  for (const { entry, start, end, local } of partsOn(spec, mesh, own))
    if (entry.owned && counts(entry))
      put(gathered, entry.name, entry.shape, start, elements.subarray(local, local + end - start))
}

/** Tensors of a buffer, or parts of them, as the rank at `own` holds them. */
export function partsOn(spec: BufferSpec, mesh: ProgramMesh, own: Coordinates): HeldPart[] {
  return heldParts({ ...spec, pack: entriesOf(spec) }, mesh.submeshes[own.pipeline] ?? [], own.axes)
}

function entriesOf(spec: BufferSpec): readonly PackEntry[] {
  return spec.pack ?? [{ name: spec.name, shape: spec.shape, offset: 0, owned: true }]
}

/** Puts elements into a tensor, which is made when its first ones come. */
function put(
  tensors: Map<string, HostTensor>,
  name: string,
  shape: readonly number[],
  start: number,
  elements: HostTensor['data'],
): void {
  let tensor = tensors.get(name)
  if (tensor === undefined) {
    const count = elementCount(shape)
    const bytes = count * elements.BYTES_PER_ELEMENT
    tensor = allocate(bytes, `a copy of ${name}`, (): HostTensor => {
      if (elements instanceof Float32Array) return { dtype: 'f32', shape, data: new Float32Array(count) }
      if (elements instanceof Float64Array) return { dtype: 'f64', shape, data: new Float64Array(count) }
      return { dtype: 'i32', shape, data: new Int32Array(count) }
    })
    tensors.set(name, tensor)
  }
  tensor.data.set(elements, start)
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 5).join(', ')
  return names.length > 5 ? `${shown} and ${names.length - 5} more` : shown
}

function stateError(code: 'MISSING' | 'SHAPE' | 'UNKNOWN', message: string, hint: string): MeshwrightError {
  return new MeshwrightError(`ENGINE_STATE_${code}`, message, { exitCode: exitCodes.run, hint })
}
