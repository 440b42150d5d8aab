import { describe, expect, it } from 'vitest'
import { compilePlan, randomBatches, stateOf } from './support/trainingCase.ts'
import { serial } from '../src/cli/checkPlan.ts'
import { learningRateOf } from '../src/cli/prepare.ts'
import { createEmulator } from '../src/engine/index.ts'
import { checkEquality } from '../src/engine/training/equality.ts'
import { verifyProgram } from '../src/program/verify/index.ts'
import { lowerPlan } from '../src/program/lower/index.ts'

const models = {
  gpt: 'gpt:layers=2,hidden=16,heads=4,context=8,vocab=32,mlp=24',
  llama: 'llama:layers=2,hidden=16,heads=4,kvHeads=2,mlp=24,context=8,vocab=32,tied=false',
  moe: 'moe:layers=2,hidden=16,heads=4,kvHeads=2,mlp=24,context=8,vocab=32,experts=4,topk=2,expertMlp=12,capacityFactor=0.75',
}

interface Case {
  readonly model: keyof typeof models
  readonly mesh: { readonly pipeline?: number; readonly data?: number; readonly [axis: string]: unknown }
  readonly more?: Readonly<Record<string, unknown>>
}

const cases: readonly Case[] = [
  { model: 'moe', mesh: { context: 2 } },
  { model: 'moe', mesh: { context: 2 }, more: { layout: { context: 'ring', zigzag: false } } },
  { model: 'moe', mesh: { data: 2, tensor: 2, expert: 2, expertTensor: 2 } },
]

describe.each(cases)('%j', ({ model, mesh, more }) => {
  const made = compilePlan({
    meshwright: 1,
    model: models[model],
    mesh: { pipeline: 1, ...mesh },
    schedule: '1f1b',
    batch: { samples: 4 * (mesh.data ?? 1), microbatches: 2 },
    dtype: 'f64',
    optimizer: { name: 'adamw', weightDecay: 0.1 },
    // Far below the norm of a new model's gradients.
    clip: 0.25,
    reduction: { bucketBytes: 4096 },
    ...more,
  })
  const program = lowerPlan(made.plan, made.model, { gradients: true })

  it('verifies', () => {
    expect(verifyProgram(program).findings.map(({ message }) => message)).toEqual([])
  })

  it('equals serial training', async () => {
    const alone = serial(made)
    const differences = await checkEquality({
      actual: createEmulator(program),
      expected: createEmulator(lowerPlan(alone.plan, alone.model, { gradients: true })),
      state: stateOf(made),
      optimizer: made.optimizer,
      learningRate: learningRateOf(made.document, 2),
      batches: randomBatches(made, 2),
      tolerance: 1e-9,
    })
    expect(differences.filter(({ equal }) => !equal)).toEqual([])
  })
})
