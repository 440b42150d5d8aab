import { MeshwrightError } from '../../base/index.ts'
import { describeJson, parseStrictJson, quoted, type StrictJson } from '../strictJson.ts'
import { elementBytes, isSafetensorsDType, type SafetensorsDType } from './dtypes.ts'

/** The limit of the format's own library. */
export const largestHeaderBytes = 100_000_000

/** More dims than any tensor library holds; keeps a hostile shape from filling memory. */
const mostDims = 64

/** One tensor as the header describes it. `begin` and `end` count bytes from the start of the data. */
export interface TensorEntry {
  readonly name: string
  readonly dtype: SafetensorsDType
  readonly shape: readonly number[]
  readonly elements: number
  readonly begin: number
  readonly end: number
}

export interface SafetensorsHeader {
  /** In the order of their data. */
  readonly tensors: ReadonlyMap<string, TensorEntry>
  readonly metadata: ReadonlyMap<string, string>
}

/**
 * Checks the JSON header of a safetensors file as if it were written to harm: JSON without duplicate keys, known
 * dtypes, sizes equal to shape times element size, and data that is covered exactly once from its start to its end.
 * Nothing of the data itself is read.
 *
 * Format: https://github.com/huggingface/safetensors, section "Format".
 *
 * @param header the JSON bytes, without the length before them
 * @param dataBytes how many bytes follow the header in the file
 */
export function parseSafetensorsHeader(
  header: Uint8Array,
  dataBytes: number,
  file: string,
): SafetensorsHeader {
  const refuse = refuseIn(file)
  const root = parseStrictJson(decodeText(header, refuse), ({ kind, message, offset }) =>
    refuse(
      kind === 'duplicate' ? 'DUPLICATE' : 'HEADER',
      `the header is not valid JSON at character ${offset}: ${message}`,
    ),
  )
  if (!(root instanceof Map)) throw refuse('HEADER', `the header is ${describeJson(root)}, not an object`)
  const entries: TensorEntry[] = []
  let metadata: ReadonlyMap<string, string> = new Map()
  for (const [name, value] of root as ReadonlyMap<string, StrictJson>) {
    if (name === '__metadata__') metadata = parseMetadata(value, refuse)
    else entries.push(parseEntry(name, value, refuse))
  }
  entries.sort((a, b) => a.begin - b.begin || a.end - b.end)
  checkCover(entries, dataBytes, refuse)
  return { tensors: new Map(entries.map((entry) => [entry.name, entry])), metadata }
}

/** Makes refusals of one file: `code` follows `SAFETENSORS_`. */
export function refuseIn(file: string): Refuse {
  return (code, message, hint = 'the file is damaged or is no safetensors file; fetch or export it again') =>
    new MeshwrightError(`SAFETENSORS_${code}`, message, { at: { file }, hint })
}

export type Refuse = (code: string, message: string, hint?: string) => MeshwrightError

function decodeText(header: Uint8Array, refuse: Refuse): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(header)
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause
    throw refuse('HEADER', `the header of ${header.byteLength} bytes is not UTF-8`)
  }
}

function parseMetadata(value: StrictJson, refuse: Refuse): ReadonlyMap<string, string> {
  if (!(value instanceof Map)) {
    throw refuse('HEADER', `__metadata__ is ${describeJson(value)}, not an object of strings`)
  }
  const entries = value as ReadonlyMap<string, StrictJson>
  const result = new Map<string, string>()
  for (const [key, text] of entries) {
    if (typeof text !== 'string') {
      throw refuse('HEADER', `__metadata__ key ${quoted(key)} is ${describeJson(text)}, not a string`)
    }
    result.set(key, text)
  }
  return result
}

function parseEntry(name: string, value: StrictJson, refuse: Refuse): TensorEntry {
  const tensor = `tensor ${quoted(name)}`
  if (!(value instanceof Map)) throw refuse('HEADER', `${tensor} is ${describeJson(value)}, not an object`)
  const fields = value as ReadonlyMap<string, StrictJson>
  for (const key of fields.keys()) {
    if (key !== 'dtype' && key !== 'shape' && key !== 'data_offsets') {
      throw refuse('HEADER', `${tensor} has the unknown key ${quoted(key)}`)
    }
  }
  const dtype = fields.get('dtype')
  if (typeof dtype !== 'string' || !isSafetensorsDType(dtype)) {
    throw refuse(
      'DTYPE',
      `${tensor} has dtype ${describeJson(dtype)}; known are ${Object.keys(elementBytes).join(', ')}`,
      'convert the file to one of these dtypes',
    )
  }
  const shape = fields.get('shape')
  if (!isCounts(shape)) throw refuse('SHAPE', `${tensor} has a shape that is no list of whole numbers >= 0`)
  if (shape.length > mostDims) {
    throw refuse('SHAPE', `${tensor} has ${shape.length} dims; the most that is read is ${mostDims}`)
  }
  const elements = shape.reduce((product, size) => product * size, 1)
  const bytes = elements * elementBytes[dtype]
  if (!Number.isSafeInteger(bytes)) {
    throw refuse('SHAPE', `${tensor} of shape [${shape.join(', ')}] is more than 2^53 bytes`)
  }
  const offsets = fields.get('data_offsets')
  if (!isCounts(offsets) || offsets.length !== 2) {
    throw refuse('OFFSETS', `${tensor} has data_offsets that are not two whole numbers >= 0`)
  }
  const [begin, end] = offsets as readonly [number, number]
  if (begin > end) throw refuse('OFFSETS', `${tensor} begins at byte ${begin}, after its end ${end}`)
  if (end - begin !== bytes) {
    throw refuse(
      'SIZE',
      `${tensor} of shape [${shape.join(', ')}] and ${dtype} takes ${bytes} bytes, ` +
        `but its offsets ${begin} to ${end} hold ${end - begin}`,
    )
  }
  return { name, dtype, shape, elements, begin, end }
}

function isCounts(value: StrictJson | undefined): value is readonly number[] {
  return (
    Array.isArray(value) &&
    value.every((entry) => typeof entry === 'number' && Number.isSafeInteger(entry) && entry >= 0)
  )
}

/** The entries, ordered by `begin`, must tile [0, dataBytes): no overlap, no hole, nothing past the end. */
function checkCover(entries: readonly TensorEntry[], dataBytes: number, refuse: Refuse): void {
  const described = entries.reduce((sum, entry) => sum + (entry.end - entry.begin), 0)
  const outside = entries.find((entry) => entry.end > dataBytes)
  if (outside !== undefined) {
    const farthest = entries.reduce((end, entry) => Math.max(end, entry.end), 0)
    throw refuse(
      // Sizes that add up to the last end describe a whole file of which the tail is missing.
      described === farthest ? 'TRUNCATED' : 'OFFSETS',
      `tensor ${quoted(outside.name)} takes bytes ${outside.begin} to ${outside.end} of the data, ` +
        `but the file holds ${dataBytes} bytes of data`,
    )
  }
  let covered = 0
  let previous = ''
  for (const { name, begin, end } of entries) {
    if (begin < covered) {
      throw refuse(
        'OVERLAP',
        `tensor ${quoted(name)} begins at byte ${begin}, inside tensor ${quoted(previous)} which ends at ${covered}`,
      )
    }
    if (begin > covered) {
      throw refuse('HOLE', `bytes ${covered} to ${begin} before tensor ${quoted(name)} belong to no tensor`)
    }
    covered = end
    previous = name
  }
  if (covered < dataBytes) {
    throw refuse('HOLE', `the last ${dataBytes - covered} bytes of the file belong to no tensor`)
  }
}
