import { describe, expect, it } from 'vitest'
import { serial } from '../src/cli/checkPlan.ts'
import { type Compiled, learningRateOf } from '../src/cli/prepare.ts'
import { createEmulator } from '../src/engine/index.ts'
import { checkEquality } from '../src/engine/training/equality.ts'
import type { Program } from '../src/program/index.ts'
import { lowerPlan, verifyProgram } from '../src/program/index.ts'
import { type CostModel, simulateProgram } from '../src/simulate/index.ts'
import { compilePlan, randomBatches, stateOf } from './support/trainingCase.ts'

interface Case {
  readonly family: 'gpt' | 'llama'
  readonly sequence: boolean
  /** Divides the 4 samples of a micro-batch, or the tokens of a rank. */
  readonly overlap: number
}

function compiled({ family, sequence, overlap }: Case): Compiled {
  return compilePlan({
    meshwright: 1,
    model: `${family}:layers=2,hidden=32,heads=4,context=16,vocab=32,mlp=64`,
    mesh: { pipeline: 1, tensor: 2 },
    layout: { overlap, sequence },
    schedule: '1f1b',
    batch: { samples: 8, microbatches: 2 },
    dtype: 'f64',
    optimizer: { name: 'adamw', weightDecay: 0.1 },
  })
}

const lowered = (made: Compiled): Program => lowerPlan(made.plan, made.model, { gradients: true })

/** A phase takes 1; a byte of activations on a link `perByte`, what is smaller nothing. */
const costs = (perByte: number): CostModel => ({
  name: 'slow links',
  run: ({ share, action }) => (action === undefined || action.phase === 'U' ? 0 : share),
  transfer: () => ({ busy: 0, latency: 0, receive: 0 }),
  collective: (_operation, bytes) => perByte * bytes,
  move: () => 0,
})

const cases: readonly Case[] = (['gpt', 'llama'] as const).flatMap((family) =>
  [false, true].flatMap((sequence) => [2, 4].map((overlap) => ({ family, sequence, overlap }))),
)

describe.each(cases)('products and collectives in chunks: %o', (one) => {
  const made = compiled(one)
  const [program, plain] = [lowered(made), lowered(compiled({ ...one, overlap: 1 }))]

  it('verify', () => {
    expect(verifyProgram(program).findings.map(({ message }) => message)).toEqual([])
  })

  it('hide part of the collectives, and move as much', () => {
    for (const perByte of [1e-6, 1e-5, 1e-4]) {
      const [chunked, whole] = [program, plain].map((own) => simulateProgram(own, costs(perByte)))
      expect(chunked!.stepSeconds).toBeLessThan(whole!.stepSeconds)
      expect(chunked!.bytes).toEqual(whole!.bytes)
      expect(chunked!.ranks[0]!.busySeconds).toBeCloseTo(whole!.ranks[0]!.busySeconds, 9)
    }
    // Where nothing has to be hidden a step takes as long.
    const [chunked, whole] = [program, plain].map((own) => simulateProgram(own, costs(0)))
    expect(chunked!.stepSeconds).toBeCloseTo(whole!.stepSeconds, 9)
  })

  it('equal serial training', async () => {
    const alone = serial(made)
    const differences = await checkEquality({
      actual: createEmulator(program),
      expected: createEmulator(lowered(alone)),
      state: stateOf(made),
      optimizer: made.optimizer,
      learningRate: learningRateOf(made.document, 1),
      batches: randomBatches(made, 1),
      tolerance: 1e-9,
    })
    expect(differences.filter(({ equal }) => !equal)).toEqual([])
  })
})
