/** checkpoint files of a small model: whole, and damaged in every way. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { storedDType, writeSafetensors } from '../../src/data/index.ts'
import { initialState } from '../../src/engine/training/initialState.ts'
import { modelFromShortName } from '../../src/models/index.ts'
import { makeOptimizer } from '../../src/optimizers/index.ts'

interface Header {
  [name: string]: { dtype: string; shape: number[]; data_offsets: [number, number] }
}

/** Writes initial weights of the model, each tensor as `change` leaves it; one for which it gives undefined is left out. */
export async function writeWeights(
  path: string,
  modelName: string,
  change: (name: string, data: Float32Array) => Float32Array | undefined = (_, data) => data,
): Promise<void> {
  const model = modelFromShortName(modelName)
  const state = initialState({ model, optimizer: makeOptimizer('sgd'), dtype: 'f32', seed: 0 })
  const tensors = model.parameters.flatMap(({ name, shape }) => {
    const data = change(name, state.get(name)!.data.slice() as Float32Array)
    return data === undefined ? [] : [{ name, dtype: storedDType.f32, shape, chunks: () => [data] }]
  })
  await writeSafetensors(path, tensors, { format: 'pt' })
}

/** Writes, beside the whole file, a shortened one and ones whose header lies. Gives their names. */
export function damageWeights(folder: string, whole: string): void {
  const bytes = readFileSync(join(folder, whole))
  const headerEnd = 8 + Number(bytes.readBigUInt64LE(0))
  const save = (name: string, header: Header): void => {
    const text = Buffer.from(JSON.stringify(header))
    const length = Buffer.alloc(8)
    length.writeBigUInt64LE(BigInt(text.length))
    writeFileSync(join(folder, name), Buffer.concat([length, text, bytes.subarray(headerEnd)]))
  }
  const header = (): Header => JSON.parse(bytes.subarray(8, headerEnd).toString()) as Header
  const names = Object.keys(header()).filter((name) => name !== '__metadata__')
  const move = (name: string, by: number): Header => {
    const moved = header()
    moved[name]!.data_offsets = moved[name]!.data_offsets.map((offset) => offset + by) as [number, number]
    return moved
  }
  writeFileSync(join(folder, 'truncated.safetensors'), bytes.subarray(0, bytes.length - 100))
  save('overlapping.safetensors', move(names[1]!, -4))
  save('outside.safetensors', move(names.at(-1)!, 1_000_000))
}
