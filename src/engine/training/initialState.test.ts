import { expect, test } from 'vitest'
import { modelFromShortName } from '../../models/index.ts'
import { makeOptimizer } from '../../optimizers/index.ts'
import { initialState } from './initialState.ts'

test('a state that finds no room is refused with its size and what to do', () => {
  const model = modelFromShortName('gpt:vocab=2000000,hidden=16384,heads=128,layers=1')
  const options = { model, optimizer: makeOptimizer('adamw', {}), dtype: 'f32', seed: 0 } as const
  expect(() => initialState(options)).toThrow(
    expect.objectContaining({
      code: 'ENGINE_NO_MEMORY',
      // 2,000,000 x 16,384 x 4 bytes.
      message: expect.stringMatching(/the 122\.07 GiB that transformer\.wte\.weight needs/),
      hint: expect.any(String),
      exitCode: 3,
    }),
  )
})
