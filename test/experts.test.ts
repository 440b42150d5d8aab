import { expect, test } from 'vitest'
import { serial } from '../src/cli/checkPlan.ts'
import { learningRateOf } from '../src/cli/prepare.ts'
import { createEmulator } from '../src/engine/index.ts'
import { checkEquality } from '../src/engine/training/equality.ts'
import { replay } from './support/replay.ts'
import { compilePlan, programOf, randomBatches, runOn, stateOf } from './support/trainingCase.ts'

const steps = 2
const sizes = 'hidden=16,heads=4,mlp=12,context=8,vocab=32,experts=4,topk=2'
/** Every other layer has experts, whose auxiliary losses reach the last stage through those that have none. */
const sparse = `moe:layers=6,${sizes},kvHeads=2,moeFrequency=2,capacityFactor=1,balanceWeight=0.05`
const deepseek = `moe:layers=4,${sizes},headDim=4,kvLoraRank=6,qLoraRank=5,denseLayers=1,sharedExperts=1,scoring=sigmoid,routerBias=true,groups=2,groupsPerToken=1,gateScale=2.5,balance=sequence,balanceWeight=0.05,zLossWeight=0.01`

test.each([
  ['experts in every other layer, stages that share tasks', sparse, { pipeline: 5, data: 1 }, '1f1b', {}],
  ['latent attention, ZeRO and recomputation', deepseek, { pipeline: 2, data: 2 }, 'zb-v', { stage: 3 }],
])('%s: a plan equals serial training', async (_, model, mesh, schedule, zero) => {
  const compiled = compilePlan({
    meshwright: 1,
    model,
    mesh,
    stages: mesh.pipeline === 5 ? [2, 1, 1, 1, 1] : null,
    schedule: { name: schedule },
    batch: { samples: 8, microbatches: 4 },
    dtype: 'f64',
    optimizer: { name: 'adamw', weightDecay: 0.1 },
    ...('stage' in zero ? { zero, recompute: 'full' } : {}),
  })
  const batches = randomBatches(compiled, steps)
  const expected = await runOn('emulator', serial(compiled), batches)
  const engine = createEmulator(programOf(compiled))
  const differences = await checkEquality({
    actual: engine,
    expected: replay(engine.program, expected),
    state: stateOf(compiled),
    optimizer: compiled.optimizer,
    learningRate: learningRateOf(compiled.document, steps),
    batches,
    tolerance: 1e-9,
  })
  expect(differences.filter(({ equal }) => !equal)).toEqual([])
  expect(differences.map(({ kind }) => kind)).toContain('gradient')
})
