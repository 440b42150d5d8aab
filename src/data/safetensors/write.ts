import type { FileHandle } from 'node:fs/promises'
import { internalError } from '../../base/index.ts'
import { writeFileAtomicWith } from '../atomicFile.ts'
import { quoted } from '../strictJson.ts'
import { elementBytes, type SafetensorsDType } from './dtypes.ts'

export interface TensorToWrite {
  readonly name: string
  readonly dtype: SafetensorsDType
  readonly shape: readonly number[]
  /**
   * Gives the elements in row-major order as views of any sizes, one after another; a view may be reused for the next
   * piece once that is asked for, and may lie in a SharedArrayBuffer that nothing writes to meanwhile.
   */
  readonly chunks: () => Iterable<ArrayBufferView> | AsyncIterable<ArrayBufferView>
}

/** One write call moves at most this much, so that the event loop gets its turn. */
const largestPiece = 2 ** 26

/**
 * Writes a safetensors file so that `path` is either what it was or the whole new file. The same tensors and metadata
 * give the same bytes: wide dtypes first, then by name, which also keeps every tensor aligned to its element size.
 *
 * @throws MeshwrightError `DATA_DISK_FULL`, `DATA_NOT_WRITABLE`, `DATA_WRITE_FAILED`, naming `path`; nothing is left behind
 */
export async function writeSafetensors(
  path: string,
  tensors: Iterable<TensorToWrite>,
  metadata: Readonly<Record<string, string>> = {},
): Promise<{ readonly bytes: number; readonly tensors: number }> {
  const ordered = [...tensors].sort(
    (a, b) => elementBytes[b.dtype] - elementBytes[a.dtype] || compareNames(a.name, b.name),
  )
  const header = makeHeader(ordered, metadata)
  let bytes = header.byteLength
  await writeFileAtomicWith(path, async (handle) => {
    await writeAll(handle, header)
    for (const tensor of ordered) bytes += await writeTensor(handle, tensor)
  })
  return { bytes, tensors: ordered.length }
}

/** By UTF-16 code units: the same in every locale. */
function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function tensorBytes({ dtype, shape }: TensorToWrite): number {
  return shape.reduce((product, size) => product * size, 1) * elementBytes[dtype]
}

/** Length and JSON, padded with spaces so that the data starts at a multiple of 8. */
function makeHeader(
  ordered: readonly TensorToWrite[],
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const entries: [string, unknown][] = []
  const keys = Object.keys(metadata).sort(compareNames)
  if (keys.length > 0)
    entries.push(['__metadata__', Object.fromEntries(keys.map((key) => [key, metadata[key]]))])
  const seen = new Set(['__metadata__'])
  let begin = 0
  for (const tensor of ordered) {
    if (seen.has(tensor.name)) throw internalError(`tensor ${quoted(tensor.name)} is written twice`)
    seen.add(tensor.name)
    const end = begin + tensorBytes(tensor)
    entries.push([tensor.name, { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [begin, end] }])
    begin = end
  }
  // Not one JSON.stringify of an object: that would move keys that look like numbers to the front.
  const fields = entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
  const json = new TextEncoder().encode(`{${fields.join(',')}}`)
  const padded = Math.ceil(json.byteLength / 8) * 8
  const header = new Uint8Array(8 + padded).fill(0x20, 8)
  new DataView(header.buffer).setBigUint64(0, BigInt(padded), true)
  header.set(json, 8)
  return header
}

async function writeTensor(handle: FileHandle, tensor: TensorToWrite): Promise<number> {
  const expected = tensorBytes(tensor)
  let written = 0
  for await (const chunk of tensor.chunks()) {
    written += chunk.byteLength
    if (written > expected) break
    await writeAll(handle, new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength))
  }
  if (written !== expected) {
    throw internalError(`tensor ${quoted(tensor.name)} takes ${expected} bytes, its chunks gave ${written}`)
  }
  return written
}

async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  let done = 0
  while (done < bytes.byteLength) {
    const { bytesWritten } = await handle.write(bytes, done, Math.min(largestPiece, bytes.byteLength - done))
    done += bytesWritten
  }
}
