import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { openSafetensors, writeSafetensors } from '../../data/index.ts'
import { modelFromShortName } from '../../models/index.ts'
import { makeOptimizer } from '../../optimizers/index.ts'
import { checkpointTensors } from './checkpointTensors.ts'
import { initialState, stateFromCheckpoint } from './initialState.ts'

const folder = mkdtempSync(join(tmpdir(), 'meshwright-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('a checkpoint has experts one by one, and is read back as it was', async () => {
  const model = modelFromShortName('moe:layers=2,hidden=8,heads=2,expertMlp=6,experts=3,vocab=11')
  const optimizer = makeOptimizer('adamw', {})
  const options = { model, optimizer, dtype: 'f64' } as const
  const state = initialState({ ...options, seed: 3 })
  // Moments of zero would look alike wherever they came from.
  for (const [name, { data }] of state) if (name.startsWith('adam.')) data.set(data.map((_, at) => at + 1))
  const path = join(folder, 'state.safetensors')
  await writeSafetensors(path, checkpointTensors(model, state))

  const source = openSafetensors(path)
  const weight = 'model.layers.1.block_sparse_moe.experts.2.w2.weight'
  expect(source.tensors.get(weight)?.shape).toEqual([8, 6])
  expect(source.tensors.has('model.layers.1.block_sparse_moe.experts.w2.weight')).toBe(false)
  expect(stateFromCheckpoint(options, source)).toEqual(state)
})
