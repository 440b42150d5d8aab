import { expect, test } from 'vitest'
import { handmade } from '../../../test/support/enginePrograms.ts'
import type { Dataset } from '../../data/index.ts'
import { makeOptimizer } from '../../optimizers/index.ts'
import type { Engine, StepResult } from '../types.ts'
import { type TrainOptions, train } from './train.ts'

/** An engine without ranks that counts its steps; the loss of step n is n. */
function counter(): Engine & { steps: number } {
  return {
    program: handmade({ replicas: [], roles: [] }),
    steps: 0,
    writeState: () => Promise.resolve(),
    readState: () => Promise.resolve(new Map()),
    step(): Promise<StepResult> {
      return Promise.resolve({ scalars: { loss: ++this.steps }, tensors: {}, ranks: [] })
    },
    memory: () => Promise.resolve([]),
    stop: () => Promise.resolve(),
  }
}

const batch = { tokens: new Int32Array(2), labels: new Int32Array(2), targets: 2 }
const dataset = {
  batchAt: () => batch,
  validationBatchAt: () => batch,
  validationBatches: 40,
} as unknown as Dataset

async function validated(options: Partial<TrainOptions>) {
  const evaluator = counter()
  const losses: (number | undefined)[] = []
  const done = await train({
    engine: counter(),
    evaluator: () => Promise.resolve(evaluator),
    dataset,
    optimizer: makeOptimizer('sgd', {}),
    learningRate: { kind: 'constant', peak: 0.1, warmupSteps: 0 },
    startStep: 0,
    steps: 2,
    validateEvery: 2,
    onStep: ({ validationLoss }) => void losses.push(validationLoss),
    ...options,
  })
  return { done, batches: evaluator.steps, losses }
}

test('a validation takes 16 batches, or as many as are asked for and there', async () => {
  // The mean of 1 … n over 2 targets each.
  expect(await validated({})).toEqual({ done: 2, batches: 16, losses: [undefined, 17 / 4] })
  expect(await validated({ validationBatches: 3 })).toEqual({ done: 2, batches: 3, losses: [undefined, 1] })
  expect((await validated({ validationBatches: 100 })).batches).toBe(40)
})

test('a validation tells of each batch, and is left out when the run is to end', async () => {
  const told: string[] = []
  const outcome = await validated({
    validateEvery: 1,
    onValidation: (done, batches) => void told.push(`${done} of ${batches}`),
    shouldStop: () => told.length === 2,
  })
  expect(told).toEqual(['0 of 16', '1 of 16'])
  expect(outcome).toEqual({ done: 1, batches: 2, losses: [undefined] })
})
