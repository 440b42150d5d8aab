import { internalError } from '../../base/index.ts'
import { bytesPerElement, elementCount } from '../../graph/index.ts'
import { coordinatesOf, type Program, rolesByRank } from '../../program/index.ts'
import { allocate } from '../memory.ts'
import { checkState, partsOn, type StateTensor, stateTensors } from '../state.ts'
import type { HostTensor, StateTensors } from '../types.ts'
import type { StatePiece } from './protocol.ts'

/** For each rank what it has to copy into its state buffers. Floats are converted to the dtype of their buffer. */
export function distributeState(program: Program, state: StateTensors): StatePiece[][] {
  checkState(stateTensors(program), state)
  const shared = new Map<string, SharedArrayBuffer>()
  return rolesByRank(program).map((role, rank) => {
    const own = coordinatesOf(program.mesh, rank)
    return role.buffers.flatMap((spec, buffer) => {
      if (spec.state !== true) return []
      const { dtype } = spec
      const size = bytesPerElement[dtype]
      return partsOn(spec, program.mesh, own).map(({ entry, start, end, local }): StatePiece => {
        const key = `${dtype} ${entry.name}`
        let source = shared.get(key)
        if (source === undefined) {
          source = sharedCopy(entry.name, elementCount(entry.shape) * size)
          elements(dtype, source).set(state.get(entry.name)!.data)
          shared.set(key, source)
        }
        return { buffer, at: local * size, shared: source, from: start * size, bytes: (end - start) * size }
      })
    })
  })
}

/** For each rank what it has to copy out, and what that makes once it is done. */
export function collectState(
  program: Program,
  rankCount: number,
): { readonly pieces: StatePiece[][]; readonly tensors: () => StateTensors } {
  const pieces: StatePiece[][] = Array.from({ length: rankCount }, () => [])
  const copies = new Map<string, { readonly tensor: StateTensor; readonly shared: SharedArrayBuffer }>()
  for (const [name, tensor] of stateTensors(program)) {
    const size = bytesPerElement[tensor.dtype]
    const shared = sharedCopy(name, elementCount(tensor.shape) * size)
    for (const { rank, buffer, local, start, end } of tensor.parts) {
      const bytes = (end - start) * size
      pieces[rank]!.push({ buffer, at: local * size, shared, from: start * size, bytes })
    }
    copies.set(name, { tensor, shared })
  }
  const tensors = (): StateTensors =>
    new Map(
      [...copies].map(([name, { tensor, shared }]): [string, HostTensor] => {
        const { dtype, shape } = tensor
        if (dtype === 'bool') throw internalError(`state ${name} of bool`)
        // A slice of a shared buffer is a plain one, which any consumer takes.
        const data = allocate(shared.byteLength, `a copy of ${name}`, () => elements(dtype, shared).slice())
        return [name, { dtype, shape, data }]
      }),
    )
  return { pieces, tensors }
}

function sharedCopy(name: string, bytes: number): SharedArrayBuffer {
  return allocate(bytes, `a copy of ${name}`, () => new SharedArrayBuffer(bytes))
}

function elements(dtype: StateTensor['dtype'], buffer: SharedArrayBuffer): HostTensor['data'] {
  switch (dtype) {
    case 'f32':
      return new Float32Array(buffer)
    case 'f64':
      return new Float64Array(buffer)
    case 'i32':
      return new Int32Array(buffer)
    case 'bool':
      throw internalError('a state of bool')
  }
}
