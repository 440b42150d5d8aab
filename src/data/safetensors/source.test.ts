import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { MeshwrightError } from '../../base/index.ts'
import { readFloats } from './read.ts'
import { openSafetensors } from './source.ts'
import { type TensorToWrite, writeSafetensors } from './write.ts'

const folder = mkdtempSync(join(tmpdir(), 'meshwright-shards-'))
afterAll(() => rmSync(folder, { recursive: true }))

let folders = 0
function newFolder(files: Readonly<Record<string, string | Uint8Array>> = {}): string {
  const path = join(folder, String(folders++))
  mkdirSync(path)
  for (const [name, content] of Object.entries(files)) writeFileSync(join(path, name), content)
  return path
}

function vector(name: string, ...values: number[]): TensorToWrite {
  return { name, dtype: 'F32', shape: [values.length], chunks: () => [Float32Array.from(values)] }
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

describe('a sharded model', () => {
  let first: Uint8Array
  let second: Uint8Array
  beforeAll(async () => {
    const scratch = newFolder()
    await writeSafetensors(join(scratch, 'a'), [vector('wte', 1, 2), vector('h.0', 3)])
    await writeSafetensors(join(scratch, 'b'), [vector('h.1', 4), vector('spare', 9)])
    first = readFileSync(join(scratch, 'a'))
    second = readFileSync(join(scratch, 'b'))
  })
  const names = ['model-1-of-2.safetensors', 'model-2-of-2.safetensors'] as const
  const weightMap = { wte: names[0], 'h.1': names[1], 'h.0': names[0] }
  const indexName = 'model.safetensors.index.json'
  // Some published indices give the size as 1.2e10 or 548105171.0.
  const index = (map: unknown): string =>
    `{"metadata": {"total_size": 16.0}, "weight_map": ${JSON.stringify(map)}}`
  const made = (map: unknown): string =>
    newFolder({ [indexName]: index(map), [names[0]]: first, [names[1]]: second })

  test('is read through its index or its folder; only tensors of the index count', () => {
    const path = made(weightMap)
    for (const opened of [openSafetensors(path), openSafetensors(join(path, indexName))]) {
      expect([...opened.tensors.keys()]).toEqual(['wte', 'h.1', 'h.0'])
      const target = new Float64Array(1)
      readFloats(opened, 'h.1', target)
      expect([...target]).toEqual([4])
    }
  })

  test('that lacks a tensor in its shard names it', () => {
    const error = refusal(() => openSafetensors(made({ ...weightMap, 'h.2': names[1] })))
    expect([error.code, error.message]).toEqual([
      'SAFETENSORS_MISSING',
      'the index says that tensor "h.2" is in model-2-of-2.safetensors, which holds 2 others but not it',
    ])
  })

  test('that lacks a shard names it', () => {
    const error = refusal(() => openSafetensors(made({ wte: 'model-3-of-3.safetensors' })))
    expect([error.code, error.message]).toEqual([
      'DATA_MISSING',
      expect.stringMatching(/^there is no safetensors file at .*model-3-of-3\.safetensors$/),
    ])
  })

  test.each([
    '../a.safetensors',
    '/etc/a.safetensors',
    'x/a.safetensors',
    '..\\a.safetensors',
    'a\0.safetensors',
    'passwd',
    7,
  ])('never follows the shard name %j out of its folder', (shard) => {
    const error = refusal(() => openSafetensors(made({ wte: shard })))
    expect([error.code, error.message]).toEqual([
      'SAFETENSORS_INDEX',
      expect.stringContaining('tensor "wte" is said to be in'),
    ])
  })

  test.each([
    ['[]', 'weight_map in the index is nothing'],
    ['{"weight_map": {}}', 'weight_map in the index is empty'],
    ['{"weight_map": {"a": "x", "a": "y"}}', 'the key "a" is given twice'],
    ['', 'not valid JSON at character 0'],
  ])('refuses the index %s', (text, message) => {
    expect(refusal(() => openSafetensors(newFolder({ [indexName]: text }))).message).toContain(message)
  })
})

describe('a folder', () => {
  test('prefers model.safetensors, and else must leave no choice', async () => {
    const path = newFolder()
    expect(refusal(() => openSafetensors(path)).code).toBe('SAFETENSORS_NONE')
    await writeSafetensors(join(path, 'state.safetensors'), [vector('x', 1)])
    expect(openSafetensors(path).path).toBe(join(path, 'state.safetensors'))
    await writeSafetensors(join(path, 'other.safetensors'), [])
    expect(refusal(() => openSafetensors(path)).message).toContain('"other.safetensors", "state.safetensors"')
    await writeSafetensors(join(path, 'model.safetensors'), [])
    expect(openSafetensors(path).path).toBe(join(path, 'model.safetensors'))
  })

  test('or file that is not there is said to be missing; a device is not opened', () => {
    expect(refusal(() => openSafetensors(join(folder, 'none'))).code).toBe('DATA_MISSING')
    expect(refusal(() => openSafetensors('/dev/zero')).code).toBe('DATA_NOT_A_FILE')
  })
})

describe('writing that fails', () => {
  afterEach(() => vi.restoreAllMocks())

  async function failure(action: Promise<unknown>): Promise<MeshwrightError> {
    const error: unknown = await action.then(
      () => undefined,
      (reason: unknown) => reason,
    )
    if (error instanceof MeshwrightError) return error
    throw error ?? new Error('nothing failed')
  }

  /** Writes of `bytes` succeed, then the disk is full. */
  async function fillDiskAfter(bytes: number): Promise<void> {
    const handle = await open(join(folder, 'any'), 'w')
    const prototype = Object.getPrototypeOf(handle) as FileHandle
    await handle.close()
    const write = prototype.write
    let left = bytes
    vi.spyOn(prototype, 'write').mockImplementation(function (this: FileHandle, ...args: unknown[]) {
      const asked = args[2] as number
      if (left === 0) {
        return Promise.reject(
          Object.assign(new Error('ENOSPC: no space left on device, write'), {
            code: 'ENOSPC',
            syscall: 'write',
          }),
        )
      }
      // A disk that fills up takes part of a write first.
      const length = Math.min(left, asked)
      left -= length
      return Reflect.apply(write, this, [args[0], args[1], length])
    } as typeof prototype.write)
  }

  test('a full disk leaves the old file and nothing else', async () => {
    const path = newFolder({ 'x.safetensors': 'old' })
    await fillDiskAfter(100)
    const error = await failure(
      writeSafetensors(join(path, 'x.safetensors'), [vector('x', ...Array(100).fill(1))]),
    )
    expect([error.code, error.exitCode, error.message]).toEqual([
      'DATA_DISK_FULL',
      5,
      `no space left to write ${join(path, 'x.safetensors')} (ENOSPC)`,
    ])
    expect(readdirSync(path)).toEqual(['x.safetensors'])
    expect(readFileSync(join(path, 'x.safetensors'), 'utf8')).toBe('old')
  })

  test('a place that cannot be written is named', async () => {
    const path = newFolder({ file: '' })
    for (const target of [join(path, 'file', 'x.safetensors'), join(path, 'none', 'x.safetensors')]) {
      const error = await failure(writeSafetensors(target, []))
      expect([error.code, error.exitCode, error.at]).toEqual(['DATA_NOT_WRITABLE', 2, { file: target }])
    }
    mkdirSync(join(path, 'taken.safetensors'))
    expect((await failure(writeSafetensors(join(path, 'taken.safetensors'), []))).code).toBe(
      'DATA_NOT_WRITABLE',
    )
    expect(readdirSync(path)).toEqual(['file', 'taken.safetensors'])
  })

  test('chunks that do not fill their tensor are our own mistake, and leave nothing behind', async () => {
    const path = newFolder()
    const wrong = (count: number): TensorToWrite => ({ ...vector('x', ...Array(count).fill(0)), shape: [2] })
    for (const count of [1, 3]) {
      await expect(writeSafetensors(join(path, 'x'), [wrong(count)])).rejects.toThrow(
        `internal: tensor "x" takes 8 bytes, its chunks gave ${count * 4}`,
      )
    }
    await expect(writeSafetensors(join(path, 'x'), [vector('x', 1), vector('x', 1)])).rejects.toThrow(
      'internal: tensor "x" is written twice',
    )
    expect(readdirSync(path)).toEqual([])
  })

  test('chunks may come asynchronously and from shared memory', async () => {
    const path = newFolder()
    const shared = new Float32Array(new SharedArrayBuffer(8))
    async function* chunks(): AsyncGenerator<ArrayBufferView> {
      for (const value of [1, 2]) {
        await Promise.resolve()
        shared.fill(value)
        yield shared
      }
    }
    await writeSafetensors(join(path, 'x'), [{ name: 'x', dtype: 'F32', shape: [4], chunks }])
    const target = new Float32Array(4)
    readFloats(openSafetensors(join(path, 'x')), 'x', target)
    expect([...target]).toEqual([1, 1, 2, 2])
  })
})
