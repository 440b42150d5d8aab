import { didYouMean, exitCodes, internalError, MeshwrightError } from '../base/index.ts'
import { type DType, elementCount, sameShape } from '../graph/index.ts'
import { type BufferSpec, type PackEntry, type Program, type Role, rolesByRank } from '../program/index.ts'
import type { HostTensor, StateTensors } from './types.ts'

/**
 * Between whole tensors by full name and the flat packs that ranks hold them in. A state buffer without a pack is one
 * tensor under the buffer's own name.
 */

/** A tensor of the state, and the one place that counts for it: the lowest rank that owns it. */
export interface StateTensor {
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly rank: number
  /** Index into the role's buffers, and elements from the start of it. */
  readonly buffer: number
  readonly offset: number
}

/** The current state of one buffer on one rank, as a view. */
export type BufferView = (buffer: number) => HostTensor['data']

/** All tensors of a program's state, in rank order. */
export function stateTensors(program: Program): Map<string, StateTensor> {
  const tensors = new Map<string, StateTensor>()
  const held = new Set<string>()
  rolesByRank(program).forEach((role, rank) => {
    role.buffers.forEach((spec, buffer) => {
      if (spec.state !== true) return
      for (const entry of entriesOf(spec)) {
        held.add(entry.name)
        if (!entry.owned || tensors.has(entry.name)) continue
        tensors.set(entry.name, {
          dtype: spec.dtype,
          shape: entry.shape,
          rank,
          buffer,
          offset: entry.offset,
        })
      }
    })
  })
  for (const name of held) if (!tensors.has(name)) throw internalError(`no rank owns the state ${name}`)
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
export function scatterState(role: Role, state: StateTensors, view: BufferView): void {
  role.buffers.forEach((spec, buffer) => {
    if (spec.state !== true) return
    const target = view(buffer)
    for (const { name, offset } of entriesOf(spec)) target.set(state.get(name)!.data, offset)
  })
}

/** The tensors of the state that count where this rank holds them, as copies. */
export function gatherState(
  tensors: ReadonlyMap<string, StateTensor>,
  rank: number,
  view: BufferView,
): Map<string, HostTensor> {
  const gathered = new Map<string, HostTensor>()
  for (const [name, tensor] of tensors)
    if (tensor.rank === rank) gathered.set(name, copyTensor(view(tensor.buffer), tensor.offset, tensor.shape))
  return gathered
}

/** The tensors that a pack owns, as copies out of its elements. */
export function gatherPack(spec: BufferSpec, elements: HostTensor['data']): Map<string, HostTensor> {
  return new Map(
    entriesOf(spec).flatMap(({ name, shape, offset, owned }) =>
      owned ? [[name, copyTensor(elements, offset, shape)] as const] : [],
    ),
  )
}

function entriesOf(spec: BufferSpec): readonly PackEntry[] {
  return spec.pack ?? [{ name: spec.name, shape: spec.shape, offset: 0, owned: true }]
}

function copyTensor(elements: HostTensor['data'], offset: number, shape: readonly number[]): HostTensor {
  const data = elements.slice(offset, offset + elementCount(shape))
  const dtype = data instanceof Float32Array ? 'f32' : data instanceof Float64Array ? 'f64' : 'i32'
  return { dtype, shape, data }
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 5).join(', ')
  return names.length > 5 ? `${shown} and ${names.length - 5} more` : shown
}

function stateError(code: 'MISSING' | 'SHAPE' | 'UNKNOWN', message: string, hint: string): MeshwrightError {
  return new MeshwrightError(`ENGINE_STATE_${code}`, message, { exitCode: exitCodes.run, hint })
}
