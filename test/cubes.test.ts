import { expect, test } from 'vitest'
import { serial } from '../src/cli/checkPlan.ts'
import { learningRateOf } from '../src/cli/prepare.ts'
import { createEmulator } from '../src/engine/index.ts'
import { checkEquality } from '../src/engine/training/equality.ts'
import { replay } from './support/replay.ts'
import { compilePlan, programOf, randomBatches, runOn, stateOf } from './support/trainingCase.ts'

const steps = 2

// An edge of two hides which of two parts is exchanged with which.
test.each([
  ['gpt', 'a square', { row: 3, column: 3 }, 9],
  ['gpt', 'a cube', { x: 3, y: 3, z: 3 }, 27],
  ['llama', 'a square', { row: 3, column: 3 }, 9],
  ['llama', 'a cube', { x: 3, y: 3, z: 3 }, 27],
] as const)('%s on %s of edge 3 trains as on one rank', async (family, _, tensor, ranks) => {
  const sizes = family === 'gpt' ? 'heads=6' : 'heads=6,kvHeads=3'
  const compiled = compilePlan({
    meshwright: 1,
    // The vocabulary is padded.
    model: `${family}:layers=1,context=5,hidden=36,${sizes},mlp=18,vocab=20,tied=true`,
    mesh: { tensor },
    batch: { samples: 9, microbatches: 1 },
    dtype: 'f64',
    optimizer: { name: 'adamw', weightDecay: 0.1 },
    learningRate: { kind: 'constant', peak: 0.01 },
    clip: 0.05,
  })
  const program = programOf(compiled)
  expect(compiled.plan.ranks).toHaveLength(ranks)
  const expected = await runOn('emulator', serial(compiled), randomBatches(compiled, steps))
  const differences = await checkEquality({
    actual: createEmulator(program),
    expected: replay(program, expected),
    state: stateOf(compiled),
    optimizer: compiled.optimizer,
    learningRate: learningRateOf(compiled.document, steps),
    batches: randomBatches(compiled, steps),
    tolerance: 1e-9,
  })
  expect(differences.length).toBeGreaterThan(0)
  expect(differences.filter(({ equal }) => !equal)).toEqual([])
})
