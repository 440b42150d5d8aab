import { describe, expect, it } from 'vitest'
import { compilePlan, randomBatches, stateOf } from '../../../test/support/trainingCase.ts'
import { serial } from '../../cli/checkPlan.ts'
import { type Compiled, learningRateOf } from '../../cli/prepare.ts'
import { createEmulator } from '../../engine/index.ts'
import { checkEquality } from '../../engine/training/equality.ts'
import type { FactoredAxes, LayoutSettings } from '../../layout/index.ts'
import type { Program } from '../types.ts'
import { verifyProgram } from '../verify/index.ts'
import { lowerPlan, lowerStages } from './index.ts'
import { stageLayouts } from './layouts.ts'
import { stageInfos } from './stages.ts'

const megatron: LayoutSettings = {
  tensor: 'megatron',
  sequence: false,
  vocabulary: true,
  context: null,
  zigzag: false,
  gathered: false,
  overlap: 1,
  rules: [],
}

function row(tensor: number, data: number): FactoredAxes {
  return {
    mesh: { axes: [{ name: 'tensor', size: tensor }] },
    replicas: data === 1 ? [] : [{ name: 'data', size: data }],
    parts: { data: [], context: [], tensor: ['tensor'] },
  }
}

interface Case {
  readonly family: 'gpt' | 'llama'
  readonly stages: number
  readonly data: number
  readonly tensor: number
  readonly settings?: Partial<LayoutSettings>
  readonly more?: Record<string, unknown>
}

const models = {
  gpt: 'gpt:layers=2,hidden=16,heads=4,context=8,vocab=32,mlp=24',
  llama: 'llama:layers=2,hidden=16,heads=4,kvHeads=2,mlp=24,context=8,vocab=32,tied=false',
}

function compiled({ family, stages, data, more }: Case): Compiled {
  return compilePlan({
    meshwright: 1,
    model: models[family],
    mesh: { pipeline: stages, data },
    schedule: '1f1b',
    batch: { samples: 4 * data, microbatches: 2 },
    dtype: 'f64',
    optimizer: { name: 'adamw', weightDecay: 0.1 },
    clip: 0.25,
    reduction: { bucketBytes: 4096 },
    ...more,
  })
}

function lowered({ plan, model }: Compiled, one: Case): Program {
  const layout = {
    actors: plan.schedule.actors.map(() => row(one.tensor, one.data)),
    settings: { ...megatron, ...one.settings },
  }
  const stages = stageInfos(plan, model, stageLayouts(plan, model, layout))
  return lowerStages(plan, stages, { gradients: true })
}

describe.each<Case>([
  { family: 'llama', stages: 1, data: 1, tensor: 2 },
  { family: 'gpt', stages: 1, data: 1, tensor: 2 },
  { family: 'llama', stages: 2, data: 2, tensor: 2, settings: { sequence: true } },
  { family: 'gpt', stages: 2, data: 2, tensor: 2, more: { zero: 3, recompute: 'full' } },
  { family: 'gpt', stages: 2, data: 1, tensor: 2, settings: { sequence: true }, more: { schedule: 'zb-h1' } },
])('%o', (one) => {
  const made = compiled(one)
  const program = lowered(made, one)

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
