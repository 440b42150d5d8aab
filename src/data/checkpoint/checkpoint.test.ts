import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { MeshwrightError } from '../../base/index.ts'
import { readFloats } from '../safetensors/read.ts'
import type { TensorToWrite } from '../safetensors/write.ts'
import type { CheckpointDescription } from './description.ts'
import { listCheckpoints } from './folders.ts'
import { readCheckpoint } from './read.ts'
import { writeCheckpoint } from './write.ts'

const root = mkdtempSync(join(tmpdir(), 'meshwright-checkpoint-'))
afterAll(() => rmSync(root, { recursive: true }))
let folders = 0
const newFolder = (): string => join(root, String(folders++))

function description(step: number): CheckpointDescription {
  return {
    libraryVersion: '0.1.0',
    step,
    seed: 2 ** 53 - 1,
    dtype: 'f64',
    dataPosition: { epoch: 1, sample: 2 },
    plan: { text: 'mesh:\n  data: 2\n', file: 'plan.yaml' },
    model: { name: 'gpt', layers: 2 },
    settings: [null, 0.1],
  }
}

function state(value: number): TensorToWrite[] {
  return ['wte.weight', 'adam.m.wte.weight', 'adam.v.wte.weight'].map((name, index) => ({
    name,
    dtype: 'F64',
    shape: [2, 2],
    chunks: () => [new Float64Array(4).fill(value + index / 8)],
  }))
}

async function save(directory: string, ...steps: number[]): Promise<void> {
  for (const step of steps) await writeCheckpoint(directory, description(step), state(step))
}

function storedValue(path: string, name = 'wte.weight'): number {
  const target = new Float64Array(4)
  readFloats(readCheckpoint(path).state, name, target)
  expect(new Set(target).size).toBe(1)
  return target[0]!
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

describe('a checkpoint', () => {
  test('gives back what was written, through the folder of the run or its own', async () => {
    const directory = join(newFolder(), 'made', 'on', 'the', 'way')
    const written = await writeCheckpoint(directory, description(7), state(7))
    expect(written).toMatchObject({ path: join(directory, 'step-000007'), removed: [] })
    for (const path of [directory, written.path]) {
      const read = readCheckpoint(path)
      expect(read).toMatchObject({ path: written.path, description: description(7), skipped: [] })
      expect(storedValue(path)).toBe(7)
      expect(storedValue(path, 'adam.v.wte.weight')).toBe(7.25)
    }
    expect(readdirSync(directory).sort()).toEqual(['latest', 'step-000007'])
    expect(readdirSync(written.path).sort()).toEqual(['checkpoint.json', 'state.safetensors'])
    expect(readFileSync(join(directory, 'latest'), 'utf8')).toBe('step-000007\n')
  })

  test('the last few are kept', async () => {
    const directory = newFolder()
    await save(directory, 9, 999_999, 1_000_000)
    const { removed } = await writeCheckpoint(directory, description(1_000_001), state(0), 2)
    expect(removed).toEqual(['step-999999', 'step-000009'])
    expect(listCheckpoints(directory)).toEqual(['step-1000001', 'step-1000000'])
  })

  test('what was written after a step that was resumed from goes first', async () => {
    const directory = newFolder()
    await save(directory, 10, 20, 30)
    await save(directory, 15)
    expect(readCheckpoint(directory).description.step).toBe(15)
    expect(listCheckpoints(directory, 15)).toEqual(['step-000015', 'step-000010', 'step-000030'])
  })

  test('of the same step replaces the former one', async () => {
    const directory = newFolder()
    await save(directory, 10)
    await writeCheckpoint(directory, description(10), state(11))
    expect(storedValue(directory)).toBe(11)
    expect(readdirSync(directory).sort()).toEqual(['latest', 'step-000010'])
  })
})

describe('what a kill leaves', () => {
  test('an unfinished folder is ignored, and removed by the next write', async () => {
    const directory = newFolder()
    await save(directory, 10)
    mkdirSync(join(directory, 'step-000020.tmp'))
    writeFileSync(join(directory, 'step-000020.tmp', 'state.safetensors'), 'half')
    writeFileSync(join(directory, 'latest.0123456789ab.tmp'), 'step')
    expect(readCheckpoint(directory)).toMatchObject({ description: { step: 10 }, skipped: [] })
    await save(directory, 30)
    expect(readdirSync(directory).sort()).toEqual(['latest', 'step-000010', 'step-000030'])
  })

  test('a pointer to a folder that has not got its name yet gives the newest before it', async () => {
    const directory = newFolder()
    await save(directory, 10, 20, 40)
    writeFileSync(join(directory, 'latest'), 'step-000030\n')
    expect(readCheckpoint(directory).description.step).toBe(20)
  })

  test('a replacement that was cut short gives the former checkpoint, also to the next write', async () => {
    const directory = newFolder()
    await save(directory, 10)
    renameSync(join(directory, 'step-000010'), join(directory, 'step-000010.old'))
    expect(storedValue(directory)).toBe(10)
    await save(directory, 20)
    expect(listCheckpoints(directory)).toEqual(['step-000020', 'step-000010'])
    renameSync(join(directory, 'step-000010'), join(directory, 'step-000020.old'))
    await save(directory, 30)
    expect(listCheckpoints(directory)).toEqual(['step-000030', 'step-000020'])
    expect(storedValue(join(directory, 'step-000020'))).toBe(20)
  })
})

describe('a damaged checkpoint', () => {
  test('is skipped with its reason where an older one is whole', async () => {
    const directory = newFolder()
    await save(directory, 10, 20)
    truncateSync(join(directory, 'step-000020', 'state.safetensors'), 300)
    const read = readCheckpoint(directory)
    expect(read.description.step).toBe(10)
    expect(read.skipped).toEqual([
      { path: join(directory, 'step-000020'), reason: expect.stringContaining('the file holds') },
    ])
    expect(refusal(() => readCheckpoint(join(directory, 'step-000020'))).code).toBe('SAFETENSORS_TRUNCATED')
    rmSync(join(directory, 'step-000010'), { recursive: true })
    expect(refusal(() => readCheckpoint(directory)).message).toMatch(
      /^none of the 1 checkpoints in .* is whole/,
    )
  })

  test('or none at all is said so', async () => {
    const directory = newFolder()
    expect(refusal(() => readCheckpoint(directory)).code).toBe('DATA_MISSING')
    mkdirSync(directory)
    expect(refusal(() => readCheckpoint(directory)).code).toBe('CHECKPOINT_MISSING')
    writeFileSync(join(directory, 'latest'), '../../etc\n')
    expect(refusal(() => readCheckpoint(directory)).code).toBe('CHECKPOINT_MISSING')
  })

  test.each([
    ['{', 'CHECKPOINT_INVALID', 'the description is not JSON'],
    ['[]', 'CHECKPOINT_INVALID', 'the description is no object'],
    ['{"formatVersion": 2}', 'CHECKPOINT_VERSION', 'has format version 2, this library reads 1'],
    [{ step: -1 }, 'CHECKPOINT_INVALID', 'step is -1, no whole number >= 0'],
    [{ dtype: 'f16' }, 'CHECKPOINT_INVALID', 'dtype is "f16"'],
    [{ plan: 'x' }, 'CHECKPOINT_INVALID', 'plan is no object'],
    [{ plan: { text: 1 } }, 'CHECKPOINT_INVALID', 'plan.text is no string'],
    [{ model: undefined }, 'CHECKPOINT_INVALID', 'model is missing'],
    [{ state: { bytes: 1, tensors: 3 } }, 'CHECKPOINT_INVALID', 'the description says 3 in 1'],
  ])('its description %j is refused', async (change, code, message) => {
    const directory = newFolder()
    await save(directory, 10)
    const file = join(directory, 'step-000010', 'checkpoint.json')
    const whole = JSON.parse(readFileSync(file, 'utf8')) as object
    writeFileSync(file, typeof change === 'string' ? change : JSON.stringify({ ...whole, ...change }))
    const error = refusal(() => readCheckpoint(join(directory, 'step-000010')))
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(message)])
  })
})

describe('writing that fails', () => {
  test('keeps the former checkpoint and leaves no unfinished one', async () => {
    const directory = newFolder()
    await save(directory, 10)
    const failing = [{ ...state(1)[0]!, chunks: () => [new Float64Array(1)] }]
    await expect(writeCheckpoint(directory, description(20), failing)).rejects.toThrow('internal: tensor')
    expect(readdirSync(directory).sort()).toEqual(['latest', 'step-000010'])
    expect(storedValue(directory)).toBe(10)
  })

  test('says which folder cannot be written', async () => {
    mkdirSync(root, { recursive: true })
    const file = join(root, 'a-file')
    writeFileSync(file, '')
    await expect(writeCheckpoint(join(file, 'out'), description(1), state(1))).rejects.toMatchObject({
      code: 'DATA_NOT_WRITABLE',
      exitCode: 2,
    })
    expect(existsSync(join(file, 'out'))).toBe(false)
  })
})
