import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { MeshwrightError } from '../../base/index.ts'
import { elementBytes, type SafetensorsDType } from './dtypes.ts'
import { readFloats, readRaw, requireTensor } from './read.ts'
import { openSafetensors } from './source.ts'
import { writeSafetensors } from './write.ts'

const folder = mkdtempSync(join(tmpdir(), 'meshwright-safetensors-'))
afterAll(() => rmSync(folder, { recursive: true }))

let files = 0
function store(bytes: Uint8Array): string {
  const path = join(folder, `file-${files++}.safetensors`)
  writeFileSync(path, bytes)
  return path
}

/** A file of this header text (or object) and this many bytes of data, put together by hand. */
function fileOf(header: unknown, dataBytes: number): Uint8Array {
  const json = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header))
  const file = new Uint8Array(8 + json.length + dataBytes)
  new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true)
  file.set(json, 8)
  return file
}

function refusal(action: () => unknown): MeshwrightError {
  try {
    action()
  } catch (error) {
    if (error instanceof MeshwrightError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

/** Written by the Python package safetensors 0.8.0 (numpy 2.4.6, ml_dtypes 0.6.0 for bfloat16). */
const fromPython =
  '8AIAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJmb3JtYXQiOiJwdCIsIndobyI6IsOpIn0sImk2NCI6eyJkdHlwZSI6Ikk2NCIsInNoYXBlIjpbMl0s' +
  'ImRhdGFfb2Zmc2V0cyI6WzAsMTZdfSwiYi5mNjQiOnsiZHR5cGUiOiJGNjQiLCJzaGFwZSI6WzIsMl0sImRhdGFfb2Zmc2V0cyI6WzE2LDQ4XX0s' +
  'ImEuZjMyIjp7ImR0eXBlIjoiRjMyIiwic2hhcGUiOlszXSwiZGF0YV9vZmZzZXRzIjpbNDgsNjBdfSwiZW1wdHkiOnsiZHR5cGUiOiJGMzIiLCJz' +
  'aGFwZSI6WzAsM10sImRhdGFfb2Zmc2V0cyI6WzYwLDYwXX0sInNjYWxhciI6eyJkdHlwZSI6IkYzMiIsInNoYXBlIjpbXSwiZGF0YV9vZmZzZXRz' +
  'IjpbNjAsNjRdfSwiaTMyIjp7ImR0eXBlIjoiSTMyIiwic2hhcGUiOlsyXSwiZGF0YV9vZmZzZXRzIjpbNjQsNzJdfSwiYnJhaW4iOnsiZHR5cGUi' +
  'OiJCRjE2Iiwic2hhcGUiOls1XSwiZGF0YV9vZmZzZXRzIjpbNzIsODJdfSwiaGFsZiI6eyJkdHlwZSI6IkYxNiIsInNoYXBlIjpbOF0sImRhdGFf' +
  'b2Zmc2V0cyI6WzgyLDk4XX0sImkxNiI6eyJkdHlwZSI6IkkxNiIsInNoYXBlIjpbMl0sImRhdGFfb2Zmc2V0cyI6Wzk4LDEwMl19LCJpOCI6eyJk' +
  'dHlwZSI6Ikk4Iiwic2hhcGUiOlsyXSwiZGF0YV9vZmZzZXRzIjpbMTAyLDEwNF19LCJ1OCI6eyJkdHlwZSI6IlU4Iiwic2hhcGUiOlsyXSwiZGF0' +
  'YV9vZmZzZXRzIjpbMTA0LDEwNl19LCJ5ZXMiOnsiZHR5cGUiOiJCT09MIiwic2hhcGUiOlsyXSwiZGF0YV9vZmZzZXRzIjpbMTA2LDEwOF19fSAg' +
  'ICAgIAAAAAAAAOD/BwAAAAAAAAAAAAAAAAD4PwAAAAAAAACAWfP4wh9upQEYLURU+yEJQAAAUEAAAIB/AQAAAAAAKEIAAACABwAAAIA/IMBifwEA' +
  'qj4APADB/3sBAP8DAHwAflQ1AIAHAIB/AP8BAA=='

describe('a file that the Python package wrote', () => {
  const path = store(Buffer.from(fromPython, 'base64'))
  const source = openSafetensors(path)
  const floats = (name: string): number[] => {
    const target = new Float64Array(requireTensor(source, name).elements)
    readFloats(source, name, target)
    return [...target]
  }

  test('has its metadata, dtypes and shapes', () => {
    expect(source.metadata).toEqual(
      new Map([
        ['format', 'pt'],
        ['who', 'é'],
      ]),
    )
    expect([...source.tensors.values()].map(({ name, dtype, shape }) => [name, dtype, shape])).toEqual([
      ['i64', 'I64', [2]],
      ['b.f64', 'F64', [2, 2]],
      ['a.f32', 'F32', [3]],
      ['empty', 'F32', [0, 3]],
      ['scalar', 'F32', []],
      ['i32', 'I32', [2]],
      ['brain', 'BF16', [5]],
      ['half', 'F16', [8]],
      ['i16', 'I16', [2]],
      ['i8', 'I8', [2]],
      ['u8', 'U8', [2]],
      ['yes', 'BOOL', [2]],
    ])
  })

  test('gives the numbers that numpy prints', () => {
    expect(floats('b.f64')).toEqual([1.5, -0, 1e-300, Math.PI])
    expect(floats('a.f32')).toEqual([3.25, Infinity, 1.401298464324817e-45])
    expect(floats('half')).toEqual([
      1,
      -2.5,
      65504,
      2 ** -24,
      6.097555160522461e-5,
      Infinity,
      Number.NaN,
      0.3330078125,
    ])
    expect(floats('brain')).toEqual([1, -2.5, 3.00405527047391e38, 9.183549615799121e-41, 0.33203125])
    expect(floats('scalar')).toEqual([42])
    expect(floats('empty')).toEqual([])
    expect([...(readRaw(source, 'i64') as BigInt64Array)]).toEqual([-(2n ** 53n), 7n])
    expect(readRaw(source, 'i32')).toEqual(Int32Array.of(-(2 ** 31), 7))
    expect(readRaw(source, 'i16')).toEqual(Int16Array.of(-(2 ** 15), 7))
    expect(readRaw(source, 'i8')).toEqual(Int8Array.of(-128, 127))
    expect(readRaw(source, 'u8')).toEqual(Uint8Array.of(0, 255))
    expect(readRaw(source, 'yes')).toEqual(Uint8Array.of(1, 0))
  })

  test('gives a range of a tensor, also into shared memory and to float32', () => {
    const target = new Float32Array(new SharedArrayBuffer(8))
    readFloats(source, 'half', target, 1)
    expect([...target]).toEqual([-2.5, 65504])
    expect(() => readFloats(source, 'half', target)).toThrow('internal: elements 0 to 2')
    expect(() => readFloats(source, 'half', target, 7)).toThrow('internal: elements 7 to 9')
  })

  test('names what is asked for in vain', () => {
    const missing = refusal(() => requireTensor(source, 'b.f46'))
    expect([missing.code, missing.message, missing.hint]).toEqual([
      'SAFETENSORS_MISSING',
      `tensor "b.f46" is not among the 12 tensors of ${path}`,
      'did you mean "b.f64"?',
    ])
    expect(refusal(() => requireTensor(source, 'b.f64', [4])).message).toBe(
      'tensor "b.f64" has shape [2, 2], the model needs [4]',
    )
    expect(refusal(() => readFloats(source, 'i32', new Float32Array(2))).code).toBe('SAFETENSORS_NOT_FLOAT')
  })

  test('is refused wherever it is cut off', () => {
    const bytes = Buffer.from(fromPython, 'base64')
    for (let length = 0; length < bytes.length; length += length < 780 && length > 8 ? 97 : 1) {
      const cut = store(bytes.subarray(0, length))
      expect(refusal(() => openSafetensors(cut)).code).toBe('SAFETENSORS_TRUNCATED')
      rmSync(cut)
    }
  })

  test('that changes between opening and reading is not read', () => {
    const changing = store(Buffer.from(fromPython, 'base64'))
    const opened = openSafetensors(changing)
    writeFileSync(changing, 'short')
    expect(refusal(() => readRaw(opened, 'u8')).code).toBe('SAFETENSORS_CHANGED')
  })
})

describe('a header that is not what the format says', () => {
  const f32 = (shape: unknown, begin: unknown, end: unknown): object => ({
    dtype: 'F32',
    shape,
    data_offsets: [begin, end],
  })
  test.each<[string, unknown, number, string, string]>([
    ['no object', [], 0, 'HEADER', 'the header is a list, not an object'],
    ['broken JSON', '{"a":', 0, 'HEADER', 'not valid JSON at character 5'],
    ['duplicate', '{"a":1,"a":1}', 0, 'DUPLICATE', 'the key "a" is given twice'],
    ['entry no object', { a: 3 }, 0, 'HEADER', 'tensor "a" is 3, not an object'],
    ['unknown key', { a: { ...f32([1], 0, 4), x: 1 } }, 4, 'HEADER', 'tensor "a" has the unknown key "x"'],
    ['metadata', { __metadata__: { a: 1 } }, 0, 'HEADER', '__metadata__ key "a" is 1, not a string'],
    [
      'dtype',
      { a: { dtype: 'F31' } },
      0,
      'DTYPE',
      'tensor "a" has dtype the string "F31"; known are F64, F32',
    ],
    ['dtype of a prototype', { a: { dtype: 'toString' } }, 0, 'DTYPE', 'has dtype the string "toString"'],
    ['negative dim', { a: f32([-1], 0, 4) }, 4, 'SHAPE', 'no list of whole numbers >= 0'],
    ['fractional dim', { a: f32([1.5], 0, 6) }, 6, 'SHAPE', 'no list of whole numbers >= 0'],
    [
      'many dims',
      { a: f32(Array(65).fill(1), 0, 4) },
      4,
      'SHAPE',
      'has 65 dims; the most that is read is 64',
    ],
    ['overflow', { a: f32([2 ** 40, 2 ** 40], 0, 0) }, 0, 'SHAPE', 'is more than 2^53 bytes'],
    ['wrapped overflow', { a: f32([2 ** 32, 2 ** 32, 2], 0, 0) }, 0, 'SHAPE', 'is more than 2^53 bytes'],
    ['offsets missing', { a: { dtype: 'F32', shape: [1] } }, 4, 'OFFSETS', 'not two whole numbers'],
    [
      'offsets backwards',
      { a: f32([1], 8, 4) },
      8,
      'OFFSETS',
      'tensor "a" begins at byte 8, after its end 4',
    ],
    [
      'size',
      { a: f32([2, 3], 0, 20) },
      20,
      'SIZE',
      'shape [2, 3] and F32 takes 24 bytes, but its offsets 0 to 20 hold 20',
    ],
    [
      'outside',
      { a: f32([1], 0, 4), b: f32([1], 8, 12) },
      8,
      'OFFSETS',
      '"b" takes bytes 8 to 12 of the data, but the file holds 8',
    ],
    [
      'truncated',
      { a: f32([1], 0, 4), b: f32([1], 4, 8) },
      6,
      'TRUNCATED',
      '"b" takes bytes 4 to 8 of the data, but the file holds 6',
    ],
    [
      'overlap',
      { a: f32([2], 0, 8), b: f32([2], 4, 12) },
      12,
      'OVERLAP',
      '"b" begins at byte 4, inside tensor "a" which ends at 8',
    ],
    [
      'same place',
      { a: f32([1], 0, 4), b: f32([1], 0, 4) },
      4,
      'OVERLAP',
      'tensor "b" begins at byte 0, inside tensor "a"',
    ],
    [
      'hole',
      { a: f32([1], 0, 4), b: f32([1], 8, 12) },
      12,
      'HOLE',
      'bytes 4 to 8 before tensor "b" belong to no tensor',
    ],
    ['hole in front', { a: f32([1], 4, 8) }, 8, 'HOLE', 'bytes 0 to 4 before tensor "a"'],
    ['trailing', { a: f32([1], 0, 4) }, 7, 'HOLE', 'the last 3 bytes of the file belong to no tensor'],
    ['empty, data', {}, 1, 'HOLE', 'the last 1 bytes'],
  ])('%s', (_, header, dataBytes, code, message) => {
    const path = store(fileOf(header, dataBytes))
    const error = refusal(() => openSafetensors(path))
    expect(error.code).toBe(`SAFETENSORS_${code}`)
    expect(error.message).toContain(message)
    expect(error.at).toEqual({ file: path })
  })

  test.each([
    [100_000_001n, 'HEADER', 'the header would be 100000001 bytes'],
    [2n ** 64n - 1n, 'HEADER', 'the header would be 18446744073709551615 bytes'],
    [100_000_000n, 'TRUNCATED', 'the header is 100000000 bytes, but the file is 16 bytes in all'],
  ])('a header length of %s', (length, code, message) => {
    const bytes = new Uint8Array(16)
    new DataView(bytes.buffer).setBigUint64(0, length, true)
    const error = refusal(() => openSafetensors(store(bytes)))
    expect([error.code, error.message]).toEqual([`SAFETENSORS_${code}`, expect.stringContaining(message)])
  })

  test('bytes that are not UTF-8', () => {
    const bytes = fileOf('{"a": 1}', 0)
    bytes[10] = 0xff
    expect(refusal(() => openSafetensors(store(bytes))).message).toBe('the header of 8 bytes is not UTF-8')
  })

  test('an empty tensor may lie anywhere between others', () => {
    const header = { b: f32([1], 0, 4), a: f32([0, 2 ** 53 - 1], 4, 4), c: f32([1], 4, 8) }
    expect(openSafetensors(store(fileOf(header, 8))).tensors.size).toBe(3)
  })
})

interface Made {
  readonly name: string
  readonly dtype: SafetensorsDType
  readonly shape: readonly number[]
  readonly data: Uint8Array
}

const tensors: fc.Arbitrary<Made[]> = fc.uniqueArray(
  fc
    .record({
      name: fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom('__proto__', '7', 'h.0.w')),
      dtype: fc.constantFrom(...(Object.keys(elementBytes) as SafetensorsDType[])),
      shape: fc.array(fc.nat(4), { maxLength: 3 }),
      seed: fc.nat(255),
    })
    .map(({ name, dtype, shape, seed }) => {
      const bytes = shape.reduce((a, b) => a * b, 1) * elementBytes[dtype]
      return { name, dtype, shape, data: Uint8Array.from({ length: bytes }, (_, i) => (i * 37 + seed) % 256) }
    }),
  { selector: ({ name }) => name, maxLength: 6 },
)

async function write(path: string, made: readonly Made[], metadata: Record<string, string>): Promise<void> {
  await writeSafetensors(
    path,
    made.map(({ name, dtype, shape, data }) => ({
      name,
      dtype,
      shape,
      chunks: () => [data.subarray(0, 3), data.subarray(3)],
    })),
    metadata,
  )
}

describe('what is written', () => {
  test('reads back, whatever the names, dtypes and shapes; the order given does not matter', async () => {
    const path = join(folder, 'round.safetensors')
    const metadata = fc.dictionary(fc.string({ minLength: 1 }), fc.string(), {
      maxKeys: 3,
      noNullPrototype: true,
    })
    await fc.assert(
      fc.asyncProperty(tensors, metadata, async (made, notes) => {
        await write(path, made, notes)
        const bytes = readFileSync(path)
        const source = openSafetensors(path)
        expect(source.metadata).toEqual(new Map(Object.entries(notes)))
        expect(source.tensors.size).toBe(made.length)
        for (const { name, dtype, shape, data } of made) {
          const stored = requireTensor(source, name, shape)
          expect(stored.dtype).toBe(dtype)
          expect(stored.position % elementBytes[dtype]).toBe(0)
          const raw = readRaw(source, name)
          expect(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).equals(data)).toBe(true)
        }
        await write(path, made.toReversed(), Object.fromEntries(Object.entries(notes).reverse()))
        expect(readFileSync(path).equals(bytes)).toBe(true)
      }),
      { numRuns: 30 },
    )
  })

  test('and then damaged is refused, or still describes data inside the file only', async () => {
    const path = join(folder, 'mutated.safetensors')
    const edit = fc.tuple(fc.nat(), fc.constantFrom(...'0123456789[],:{}"F \\', '\xff'))
    const mutations = fc.array(fc.array(edit, { minLength: 1, maxLength: 3 }), { minLength: 8, maxLength: 8 })
    let refused = 0
    await fc.assert(
      fc.asyncProperty(tensors, mutations, async (made, variants) => {
        await write(path, made, {})
        const whole = readFileSync(path)
        const headerEnd = 8 + Number(whole.readBigUInt64LE(0))
        for (const changes of variants) {
          const bytes = Buffer.from(whole)
          for (const [at, character] of changes) bytes.write(character, at % headerEnd, 'latin1')
          writeFileSync(path, bytes)
          try {
            const source = openSafetensors(path)
            for (const { name, dtype, elements, position } of source.tensors.values()) {
              expect(position + elements * elementBytes[dtype]).toBeLessThanOrEqual(bytes.length)
              expect(readRaw(source, name).byteLength).toBe(elements * elementBytes[dtype])
            }
          } catch (error) {
            if (!(error instanceof MeshwrightError)) throw error
            expect(error.code).toMatch(/^SAFETENSORS_/)
            refused++
          }
        }
      }),
      { numRuns: 40 },
    )
    expect(refused).toBeGreaterThan(50)
  })
})
