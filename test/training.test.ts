import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { MeshwrightError } from '../src/base/index.ts'
import { compile, prepareData } from '../src/cli/prepare.ts'
import { loadPlan } from '../src/cli/setup.ts'
import { openResume, runTraining } from '../src/cli/training.ts'
import { compareTensors } from '../src/engine/training/compare.ts'
import type { Engine } from '../src/engine/types.ts'
import { interpretGraph } from '../src/graph/index.ts'
import { parsePlan } from '../src/plan/index.ts'
import { inputsOf } from './support/modelFixture.ts'
import { digests, temporaryFolder, trainPlan } from './support/trainingRuns.ts'

const folder = temporaryFolder()
afterAll(folder.remove)

const tiny = {
  meshwright: 1,
  model: 'gpt:layers=3,hidden=16,heads=2,context=16',
  mesh: { pipeline: 2, data: 2 },
  batch: { samples: 8, microbatches: 2 },
  learningRate: { kind: 'cosine', peak: 0.01, warmupSteps: 2 },
}

/** What `metrics.ndjson` says of each step, without times. */
function metricsOf(path: string): unknown[] {
  return readFileSync(join(path, 'metrics.ndjson'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const { step, loss, gradientNorm, learningRate } = JSON.parse(line) as Record<string, unknown>
      return { step, loss, gradientNorm, learningRate }
    })
}

/** Stops after `steps` steps, as after an interrupt. */
const stopAfter = (steps: number) => {
  let done = 0
  return { onStep: () => void done++, shouldStop: () => done >= steps }
}

/** The code of the error that a run ends with. */
const refusal = (run: Promise<unknown>): Promise<string> =>
  run.then(
    () => 'none',
    (error: MeshwrightError) => error.code,
  )

describe('a run that goes on from its checkpoint', () => {
  test('is bit by bit what it would have been without the stop', async () => {
    const [whole, parts] = [join(folder.path, 'whole'), join(folder.path, 'parts')]
    const expected = await trainPlan(tiny, { steps: 6, out: whole })
    const first = await trainPlan(tiny, { steps: 6, out: parts, ...stopAfter(2) })
    expect(first.stepsDone).toBe(2)
    await trainPlan(tiny, { steps: 6, out: parts, resume: openResume(parts).checkpoint, ...stopAfter(1) })
    const last = await trainPlan(tiny, { steps: 6, out: parts, resume: openResume(parts).checkpoint })
    expect(last.firstStep).toBe(3)
    expect(last.losses).toEqual(expected.losses.slice(3))
    expect(digests(last.state)).toEqual(digests(expected.state))
    expect(metricsOf(parts)).toEqual(metricsOf(whole))
    const file = (out: string) => readFileSync(join(out, 'step-000006', 'state.safetensors'))
    expect(file(parts).equals(file(whole))).toBe(true)
  })

  test('under another plan is the same to rounding', async () => {
    const out = join(folder.path, 'other')
    const exact = { ...tiny, dtype: 'f64' }
    const expected = await trainPlan(exact, { steps: 5 })
    await trainPlan(exact, { steps: 5, out, ...stopAfter(2) })
    const others = [
      { mesh: { pipeline: 3, data: [2, 1, 2] }, batch: { samples: 8, microbatches: 4 }, schedule: 'gpipe' },
      { mesh: { pipeline: 1, data: 4 }, batch: { samples: 8, microbatches: 1 } },
    ]
    for (const other of others) {
      const { checkpoint } = openResume(out)
      const outcome = await trainPlan({ ...exact, ...other }, { steps: 5, resume: checkpoint })
      expect(outcome.losses).toHaveLength(3)
      for (const [step, loss] of outcome.losses.entries())
        expect(loss).toBeCloseTo(expected.losses[step + 2]!, 9)
      expect(compareTensors(outcome.state, expected.state)[0]!.error).toBeLessThan(1e-9)
    }
  })
})

test.each([
  ['a layer less', { model: 'gpt:layers=2,hidden=16,heads=2,context=16' }, 'CHECKPOINT_EXTRA'],
  ['a layer more', { model: 'gpt:layers=4,hidden=16,heads=2,context=16' }, 'SAFETENSORS_MISSING'],
  ['another width', { model: 'gpt:layers=3,hidden=32,heads=2,context=16' }, 'SAFETENSORS_SHAPE_MISMATCH'],
  ['another optimizer', { optimizer: 'sgd' }, 'SAFETENSORS_MISSING'],
  ['an optimizer without states', { optimizer: { name: 'sgd', momentum: 0 } }, 'CHECKPOINT_EXTRA'],
])('a checkpoint is not taken for that of %s', async (_, changes, code) => {
  const out = join(folder.path, 'narrow')
  if (!existsSync(out)) await trainPlan(tiny, { steps: 1, out })
  const { checkpoint } = openResume(out)
  expect(await refusal(trainPlan({ ...tiny, ...changes }, { steps: 2, resume: checkpoint }))).toBe(code)
})

test('a run that goes on elsewhere leaves the checkpoints of others alone', async () => {
  const [one, other, free] = [join(folder.path, 'one'), join(folder.path, 'two'), join(folder.path, 'three')]
  await trainPlan(tiny, { steps: 1, out: one })
  await trainPlan(tiny, { steps: 2, out: other })
  const { checkpoint } = openResume(one)
  expect(await refusal(trainPlan(tiny, { steps: 3, out: other, resume: checkpoint }))).toBe('TRAIN_OUT_USED')
  expect(openResume(other).checkpoint.description.step).toBe(2)
  await trainPlan(tiny, { steps: 2, out: free, resume: checkpoint })
  expect(metricsOf(free).map((record) => (record as { step: number }).step)).toEqual([2])
})

describe('data', () => {
  const datasetOf = async (changes: Record<string, unknown>) => {
    const document = parsePlan(JSON.stringify({ ...tiny, ...changes }))
    const loaded = { document, directory: process.cwd(), source: 'a test' }
    return (await prepareData(compile(loaded), loaded.directory, { validationFraction: 0 })).dataset
  }

  test('of a step follow from seed and step alone', async () => {
    const [one, other] = [
      await datasetOf({}),
      await datasetOf({ mesh: { pipeline: 3 }, batch: { samples: 8, microbatches: 8 }, dtype: 'f64' }),
    ]
    const steps = [0, 1, 7, 1000]
    const expected = steps.map((step) => one.batchAt(step).tokens.slice())
    // Another plan, and asked in another order.
    for (const [index, step] of [...steps.entries()].reverse())
      expect(other.batchAt(step).tokens).toEqual(expected[index])
    expect((await datasetOf({ seed: 1 })).batchAt(0).tokens).not.toEqual(expected[0])
    expect(expected[1]).not.toEqual(expected[0])
  })
})

describe('training', () => {
  // A model that only learns how often each byte comes gets down to the unigram entropy.
  test.each([
    ['gpt', 'gpt:layers=2,hidden=64,heads=4,context=64,initialStd=0.05', { pipeline: 2, data: 1 }],
    [
      'llama',
      'llama:layers=2,hidden=64,heads=4,kvHeads=2,context=64,initialStd=0.05',
      { pipeline: 1, data: 2 },
    ],
  ])(
    'brings the loss of a small %s on the default text well below the unigram entropy',
    async (_, model, mesh) => {
      const { losses, unigramEntropy } = await trainPlan(
        {
          meshwright: 1,
          model,
          mesh,
          batch: { samples: 16, microbatches: 2 },
          learningRate: { kind: 'cosine', peak: 0.006, warmupSteps: 5 },
        },
        { steps: 120 },
      )
      // A new model knows nothing of 256 bytes.
      expect(losses[0]).toBeCloseTo(Math.log(256), 0)
      const last = losses.slice(-5).reduce((sum, loss) => sum + loss, 0) / 5
      expect(unigramEntropy).toBeGreaterThan(2.5)
      expect(last).toBeLessThan(unigramEntropy - 1)
    },
  )

  test.runIf(process.env['MESHWRIGHT_FULL'] === '1')('does so under the plan of the tour', async () => {
    const loaded = await loadPlan(undefined, {})
    const { losses, unigramEntropy } = await runTraining({
      loaded,
      compiled: compile(loaded),
      steps: 100,
      validateEvery: 0,
      checkpointEvery: 100,
    })
    expect(losses.at(-1)).toBeLessThan(unigramEntropy - 1)
  })

  test('gives the validation loss of the text that is held out', async () => {
    const file = join(folder.path, 'text.txt')
    writeFileSync(file, 'a text of which the last samples are held out, and never trained on. '.repeat(30))
    const validations: (number | undefined)[] = []
    const document = { ...tiny, dtype: 'f64', data: file }
    const outcome = await trainPlan(document, {
      steps: 4,
      validateEvery: 3,
      onStep: ({ validationLoss }) => void validations.push(validationLoss),
    })
    expect(validations).toEqual([undefined, undefined, expect.any(Number), expect.any(Number)])

    // By the reference interpreter, sample by sample: 2070 bytes are 129 samples of 16, of which 5% are 6.
    const text = readFileSync(file)
    const { model } = compile({
      document: parsePlan(JSON.stringify(document)),
      directory: '/',
      source: 'a test',
    })
    let sum = 0
    for (let sample = 123; sample < 129; sample++) {
      const tokens = [[...text.subarray(16 * sample, 16 * sample + 16)]]
      const labels = [[...text.subarray(16 * sample + 1, 16 * sample + 17)]]
      const inputs = inputsOf(model, { tokens, labels }, (name) => outcome.state.get(name)!.data)
      const graph = model.build({ batch: 1, sequence: 16, dtype: 'f64' })
      sum += interpretGraph(graph, inputs).get('loss')!.data[0]!
    }
    expect(validations[3]).toBeCloseTo(sum / (6 * 16), 9)
  })

  test('gives the engine of the validation too, so that a run can be ended inside one', async () => {
    const engines: Engine[] = []
    const seen: string[] = []
    const run = trainPlan(tiny, {
      steps: 4,
      validateEvery: 1,
      validationBatches: 2,
      onEngine: (engine) => void engines.push(engine),
      onValidation: (done, batches) => {
        seen.push(`${done} of ${batches}`)
        if (done === 1) for (const engine of engines) void engine.stop()
      },
    })
    expect(await refusal(run)).toBe('RUN_STOPPED')
    expect(engines.map(({ program }) => program.work.method)).toEqual(['gradient', 'infer'])
    expect(seen).toEqual(['0 of 2', '1 of 2'])
  })

  test('runs 16 ranks on however many cores there are', async () => {
    const document = { ...tiny, dtype: 'f64', model: 'gpt:layers=4,hidden=16,heads=2,context=16' }
    const alone = { ...document, mesh: {}, batch: { samples: 8, microbatches: 1 } }
    const expected = await trainPlan(alone, { steps: 3 })
    const outcome = await trainPlan({ ...document, mesh: { pipeline: 4, data: 4 } }, { steps: 3 })
    expect(outcome.ranks).toHaveLength(16)
    for (const [step, loss] of outcome.losses.entries()) expect(loss).toBeCloseTo(expected.losses[step]!, 9)
  })
})
