import { expect, test } from 'vitest'
import { serial } from '../src/cli/checkPlan.ts'
import { learningRateOf } from '../src/cli/prepare.ts'
import { createEmulator } from '../src/engine/index.ts'
import { checkEquality } from '../src/engine/training/equality.ts'
import { replay } from './support/replay.ts'
import { compilePlan, planOf, programOf, randomBatches, runOn, stateOf } from './support/trainingCase.ts'

test.each([
  ['1f1b', {}],
  ['zb-h1', {}],
  ['interleaved-1f1b', {}],
  ['zb-v', {}],
])('skip %s', async (name) => {
  const plan = planOf({ family: 'moe', tied: true, stages: 4, replicas: [1, 2], microbatches: 4, schedule: 'gpipe', cut: 'by cost', optimizer: 'adamw' })
  const compiled = compilePlan({
    ...plan,
    model: `moe:layers=4,hidden=16,heads=4,kvHeads=2,mlp=12,context=8,vocab=32,experts=4,topk=2,capacityFactor=1,balanceWeight=0.05,moeFrequency=${name==='zb-v'?2:4},scoring=sigmoid,routerBias=true,sharedExperts=1,zLossWeight=0.01,balance=sequence`,
    schedule: { name },
    stages: null,
    ...(name === '1f1b' ? {} : { mesh: { pipeline: 2, data: 2 } }),
  })
  const expected = await runOn('emulate', serial(compiled), randomBatches(compiled, 2))
  const engine = createEmulator(programOf(compiled))
  const kinds = await checkEquality({
    actual: engine,
    expected: replay(engine.program, expected),
    state: stateOf(compiled),
    optimizer: compiled.optimizer,
    learningRate: learningRateOf(compiled.document, 2),
    batches: randomBatches(compiled, 2),
    tolerance: 1e-9,
  })
  
  expect(kinds.length).toBeGreaterThan(0)
})
