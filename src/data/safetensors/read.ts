import { didYouMean, internalError, MeshwrightError } from '../../base/index.ts'
import { readFully, withFile } from '../files.ts'
import { quoted } from '../strictJson.ts'
import { decodeBF16, decodeF16, elementBytes, type SafetensorsDType } from './dtypes.ts'
import { refuseIn } from './header.ts'
import type { SafetensorsSource, StoredTensor } from './source.ts'

/** Elements converted at a time, so that reading a large tensor needs little memory beside its target. */
const conversionElements = 2 ** 20

const floats: ReadonlySet<SafetensorsDType> = new Set(['F64', 'F32', 'F16', 'BF16'])

export type RawTensor =
  | Float64Array
  | Float32Array
  | Uint16Array
  | BigInt64Array
  | Int32Array
  | Int16Array
  | Int8Array
  | Uint8Array

/**
 * The tensor called `name`, of this shape where one is given.
 *
 * @throws MeshwrightError `SAFETENSORS_MISSING`, `SAFETENSORS_SHAPE_MISMATCH`
 */
export function requireTensor(
  source: SafetensorsSource,
  name: string,
  shape?: readonly number[],
): StoredTensor {
  const tensor = source.tensors.get(name)
  if (tensor === undefined) {
    throw new MeshwrightError(
      'SAFETENSORS_MISSING',
      `tensor ${quoted(name)} is not among the ${source.tensors.size} tensors of ${source.path}`,
      {
        at: { file: source.path },
        hint: didYouMean(name, source.tensors.keys()) ?? 'check that the weights belong to this model',
      },
    )
  }
  if (shape !== undefined && !sameShape(shape, tensor.shape)) {
    throw new MeshwrightError(
      'SAFETENSORS_SHAPE_MISMATCH',
      `tensor ${quoted(name)} has shape [${tensor.shape.join(', ')}], the model needs [${shape.join(', ')}]`,
      { at: { file: tensor.file }, hint: 'check that the weights belong to this model' },
    )
  }
  return tensor
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, dim) => size === b[dim])
}

/**
 * Fills `target` with the elements of a tensor of F64, F32, F16 or BF16 in row-major order, converted to the dtype of
 * `target`. Without `start` the target must be exactly as long as the tensor; with it, elements `start` to
 * `start + target.length` are read. The target may lie in a SharedArrayBuffer. Reading is synchronous: for a large
 * model, yield between tensors.
 */
export function readFloats(
  source: SafetensorsSource,
  name: string,
  target: Float32Array | Float64Array,
  start?: number,
): void {
  const tensor = requireTensor(source, name)
  const first = start ?? 0
  if (
    start === undefined
      ? target.length !== tensor.elements
      : first < 0 || first + target.length > tensor.elements
  ) {
    throw internalError(
      `elements ${first} to ${first + target.length} asked of tensor ${quoted(name)} with ${tensor.elements}`,
    )
  }
  if (!floats.has(tensor.dtype)) {
    throw refuseIn(tensor.file)(
      'NOT_FLOAT',
      `tensor ${quoted(name)} holds ${tensor.dtype}, where one of ${[...floats].join(', ')} is needed`,
      'check that the weights belong to this model',
    )
  }
  const direct = target instanceof Float32Array ? 'F32' : 'F64'
  withTensorFile(tensor, (read) => {
    if (tensor.dtype === direct) {
      read(new Uint8Array(target.buffer, target.byteOffset, target.byteLength), first)
      return
    }
    for (let done = 0; done < target.length; done += conversionElements) {
      const part = target.subarray(done, done + conversionElements)
      convertInto(part, tensor, read, first + done)
    }
  })
}

type ReadAt = (bytes: Uint8Array, firstElement: number) => void

function convertInto(
  part: Float32Array | Float64Array,
  tensor: StoredTensor,
  read: ReadAt,
  first: number,
): void {
  const bytes = new Uint8Array(part.length * elementBytes[tensor.dtype])
  read(bytes, first)
  switch (tensor.dtype) {
    case 'F64':
      part.set(new Float64Array(bytes.buffer))
      return
    case 'F32':
      part.set(new Float32Array(bytes.buffer))
      return
    case 'F16':
      decodeF16(new Uint16Array(bytes.buffer), part)
      return
    case 'BF16':
      decodeBF16(new Uint16Array(bytes.buffer), part)
      return
    default:
      throw internalError(`tensor ${quoted(tensor.name)} of ${tensor.dtype} read as floats`)
  }
}

/** A whole tensor in its own dtype; F16 and BF16 as bit patterns, BOOL as bytes. */
export function readRaw(source: SafetensorsSource, name: string): RawTensor {
  const tensor = requireTensor(source, name)
  const bytes = new Uint8Array(tensor.elements * elementBytes[tensor.dtype])
  withTensorFile(tensor, (read) => read(bytes, 0))
  switch (tensor.dtype) {
    case 'F64':
      return new Float64Array(bytes.buffer)
    case 'F32':
      return new Float32Array(bytes.buffer)
    case 'F16':
    case 'BF16':
      return new Uint16Array(bytes.buffer)
    case 'I64':
      return new BigInt64Array(bytes.buffer)
    case 'I32':
      return new Int32Array(bytes.buffer)
    case 'I16':
      return new Int16Array(bytes.buffer)
    case 'I8':
      return new Int8Array(bytes.buffer)
    case 'U8':
    case 'BOOL':
      return bytes
  }
}

function withTensorFile(tensor: StoredTensor, use: (read: ReadAt) => void): void {
  withFile(tensor.file, 'safetensors file', (descriptor, fileBytes) => {
    const changed = (): Error =>
      refuseIn(tensor.file)(
        'CHANGED',
        `the file was ${tensor.fileBytes} bytes when it was opened and is ${fileBytes} now`,
        'do not write to a file while it is read',
      )
    if (fileBytes !== tensor.fileBytes) throw changed()
    use((bytes, firstElement) => {
      const position = tensor.position + firstElement * elementBytes[tensor.dtype]
      if (readFully(descriptor, bytes, position) < bytes.byteLength) throw changed()
    })
  })
}
