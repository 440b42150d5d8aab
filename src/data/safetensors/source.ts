import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { readFailure } from '../fileErrors.ts'
import { readFully, readWholeFile, withFile } from '../files.ts'
import { describeJson, parseStrictJson, quoted, type StrictJson } from '../strictJson.ts'
import type { SafetensorsDType } from './dtypes.ts'
import { largestHeaderBytes, parseSafetensorsHeader, type Refuse, refuseIn } from './header.ts'

/** Where one tensor lies. */
export interface StoredTensor {
  readonly name: string
  readonly dtype: SafetensorsDType
  readonly shape: readonly number[]
  readonly elements: number
  readonly file: string
  /** Size of `file` when its header was checked; reads refuse a file that has another size by then. */
  readonly fileBytes: number
  /** Offset of the first element in `file`. */
  readonly position: number
}

/** The checked headers of one file or of all shards of an index. Holds no open file. */
export interface SafetensorsSource {
  /** The file that was opened: the safetensors file or the index. */
  readonly path: string
  readonly tensors: ReadonlyMap<string, StoredTensor>
  readonly metadata: ReadonlyMap<string, string>
}

const singleFile = 'model.safetensors'
const indexSuffix = '.safetensors.index.json'
const mostShards = 10_000

/**
 * Opens a `.safetensors` file, a sharded index (`….safetensors.index.json`), or a folder that holds either. Headers are
 * checked, tensor data stays on disk until it is asked for by name.
 *
 * @throws MeshwrightError `SAFETENSORS_*` for a file that is not what the format says, `DATA_*` for one that cannot be read
 */
export function openSafetensors(path: string): SafetensorsSource {
  const file = isFolder(path) ? chooseInFolder(path) : path
  return file.endsWith('.json') ? openIndex(file) : openFile(file)
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch (cause) {
    throw readFailure(path, 'safetensors file or folder', cause)
  }
}

function listFolder(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort()
  } catch (cause) {
    throw readFailure(folder, 'folder', cause)
  }
}

/** As Hugging Face libraries choose: the single file, else the index, else whatever is there if it is one. */
function chooseInFolder(folder: string): string {
  const names = listFolder(folder)
  const indices = names.filter((name) => name.endsWith(indexSuffix))
  const files = names.filter((name) => name.endsWith('.safetensors'))
  const choice = [[singleFile].filter((name) => files.includes(name)), indices, files].find(
    (candidates) => candidates.length > 0,
  )
  if (choice === undefined) {
    throw refuseIn(folder)(
      'NONE',
      `the folder ${folder} holds no .safetensors file and no ${indexSuffix} among its ${names.length} entries`,
      'give the folder that holds model.safetensors, or the file itself',
    )
  }
  if (choice.length > 1) {
    throw refuseIn(folder)(
      'AMBIGUOUS',
      `the folder ${folder} holds ${choice.length} candidates: ${choice.slice(0, 5).map(quoted).join(', ')}`,
      'name the file to read',
    )
  }
  return join(folder, choice[0]!)
}

function openFile(file: string): SafetensorsSource {
  const refuse = refuseIn(file)
  return withFile(file, 'safetensors file', (descriptor, fileBytes) => {
    const length = new Uint8Array(8)
    if (readFully(descriptor, length, 0) < 8) {
      throw refuse('TRUNCATED', `the file is ${fileBytes} bytes; a safetensors file has at least 8`)
    }
    const headerBytes = new DataView(length.buffer).getBigUint64(0, true)
    if (headerBytes > BigInt(largestHeaderBytes)) {
      throw refuse(
        'HEADER',
        `the header would be ${headerBytes} bytes; at most ${largestHeaderBytes} are allowed`,
      )
    }
    const header = new Uint8Array(Math.min(Number(headerBytes), Math.max(0, fileBytes - 8)))
    if (header.byteLength < Number(headerBytes) || readFully(descriptor, header, 8) < header.byteLength) {
      throw refuse(
        'TRUNCATED',
        `the header is ${headerBytes} bytes, but the file is ${fileBytes} bytes in all`,
      )
    }
    const dataStart = 8 + header.byteLength
    const { tensors, metadata } = parseSafetensorsHeader(header, fileBytes - dataStart, file)
    const stored = [...tensors.values()].map(
      ({ name, dtype, shape, elements, begin }): [string, StoredTensor] => [
        name,
        { name, dtype, shape, elements, file, fileBytes, position: dataStart + begin },
      ],
    )
    return { path: file, tensors: new Map(stored), metadata }
  })
}

function openIndex(file: string): SafetensorsSource {
  const refuse = refuseIn(file)
  const placed = parseIndex(readWholeFile(file, 'safetensors index', largestHeaderBytes), refuse)
  const shards = new Map<string, SafetensorsSource>()
  const tensors = new Map<string, StoredTensor>()
  for (const [name, shard] of placed) {
    let source = shards.get(shard)
    if (source === undefined) {
      if (shards.size === mostShards) throw refuse('INDEX', `the index names more than ${mostShards} shards`)
      source = openFile(join(dirname(file), shard))
      shards.set(shard, source)
    }
    const tensor = source.tensors.get(name)
    if (tensor === undefined) {
      throw refuse(
        'MISSING',
        `the index says that tensor ${quoted(name)} is in ${shard}, which holds ${source.tensors.size} others but not it`,
      )
    }
    tensors.set(name, tensor)
  }
  return { path: file, tensors, metadata: new Map() }
}

/** Tensor name -> shard file name. A shard must lie beside the index: a name that leads elsewhere is refused. */
function parseIndex(bytes: Uint8Array, refuse: Refuse): ReadonlyMap<string, string> {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
  const root = parseStrictJson(text, ({ message, offset }) =>
    refuse('INDEX', `the index is not valid JSON at character ${offset}: ${message}`),
  )
  const weightMap =
    root instanceof Map ? (root as ReadonlyMap<string, StrictJson>).get('weight_map') : undefined
  if (!(weightMap instanceof Map) || weightMap.size === 0) {
    const found = weightMap instanceof Map ? 'empty' : describeJson(weightMap)
    throw refuse('INDEX', `weight_map in the index is ${found}; it must name the file of every tensor`)
  }
  const placed = new Map<string, string>()
  for (const [name, shard] of weightMap as ReadonlyMap<string, StrictJson>) {
    if (typeof shard !== 'string' || !isPlainFileName(shard)) {
      throw refuse(
        'INDEX',
        `tensor ${quoted(name)} is said to be in ${describeJson(shard)}, which is no file name beside the index`,
        'shards must lie in the folder of the index, without any folder in their names',
      )
    }
    placed.set(name, shard)
  }
  return placed
}

function isPlainFileName(name: string): boolean {
  return (
    name.endsWith('.safetensors') && name.length <= 255 && !/[/\\\0:]/.test(name) && basename(name) === name
  )
}
