import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { compile } from '../src/cli/prepare.ts'
import { storedDType, writeSafetensors } from '../src/data/index.ts'
import { createLocalEngine } from '../src/engine/index.ts'
import { initialState, stateFromWeights } from '../src/engine/training/initialState.ts'
import deepseekV3 from '../src/models/fixtures/deepseek-v3.json' with { type: 'json' }
import gpt2 from '../src/models/fixtures/gpt2.json' with { type: 'json' }
import llama from '../src/models/fixtures/llama.json' with { type: 'json' }
import mixtral from '../src/models/fixtures/mixtral.json' with { type: 'json' }
import { storedParameters } from '../src/models/index.ts'
import { parsePlan } from '../src/plan/index.ts'
import { type Fixture, largestDifference } from './support/modelFixture.ts'
import { programOf } from './support/trainingCase.ts'
import { temporaryFolder } from './support/trainingRuns.ts'

const folder = temporaryFolder()
afterAll(folder.remove)

/** Weights, inputs, loss and gradients as the transformers library has them, in float64. */
const fixtures: Readonly<Record<string, Fixture>> = { gpt2, llama, mixtral, deepseekV3 }

/** Writes the fixture's weights as a checkpoint of `shards` files; gives the file to open. */
async function writeWeights(name: string, fixture: Fixture, shards: number): Promise<string> {
  const tensors = Object.entries(fixture.parameters).flatMap(([parameter, { shape, values }]) => {
    // Fixtures have the experts of a layer in one tensor, checkpoints do not.
    const stacked = parameter.includes('.mlp.experts.') || parameter.includes('.block_sparse_moe.experts.')
    const spec = { name: parameter, shape, ...(stacked ? ({ perExpert: true } as const) : {}) }
    return storedParameters({ family: 'moe' }, spec).map((part) => ({
      name: part.names[0]!,
      dtype: storedDType.f64,
      shape: part.shape,
      chunks: () => [
        Float64Array.from(values).subarray(
          part.start,
          part.start + part.shape.reduce((count, size) => count * size, 1),
        ),
      ],
    }))
  })
  if (shards === 1) {
    const path = join(folder.path, `${name}.safetensors`)
    await writeSafetensors(path, tensors, { format: 'pt' })
    return path
  }
  const weightMap: Record<string, string> = {}
  for (let shard = 0; shard < shards; shard++) {
    const file = `${name}-${shard}.safetensors`
    const part = tensors.filter((_, index) => index % shards === shard)
    await writeSafetensors(join(folder.path, file), part, { format: 'pt' })
    for (const tensor of part) weightMap[tensor.name] = file
  }
  const index = join(folder.path, `${name}.safetensors.index.json`)
  writeFileSync(index, JSON.stringify({ metadata: {}, weight_map: weightMap }))
  return index
}

test.each([
  ['gpt2', 1],
  ['gpt2', 3],
  ['llama', 1],
  ['llama', 2],
  ['mixtral', 2],
  ['deepseekV3', 1],
])(
  '%s from a Hugging Face checkpoint of %i files gives the loss and gradients of transformers',
  async (name, shards) => {
    const fixture = fixtures[name]!
    writeFileSync(join(folder.path, `${name}.json`), JSON.stringify(fixture.config))
    const document = parsePlan(
      JSON.stringify({
        meshwright: 1,
        model: { config: `${name}.json`, weights: await writeWeights(name, fixture, shards) },
        mesh: { pipeline: 2, data: 1 },
        batch: { samples: 2, microbatches: 2 },
        sequence: fixture.tokens[0]!.length,
        dtype: 'f64',
      }),
    )
    const { model, optimizer, plan } = compile({ document, directory: folder.path, source: 'a test' })
    const weights = document.model!.weights!
    const state = stateFromWeights({ model, optimizer, dtype: 'f64' }, weights)
    // Optimizer states start from zero, and there is one of everything.
    expect([...state.keys()].sort()).toEqual(
      [...initialState({ model, optimizer, dtype: 'f64', seed: 0 }).keys()].sort(),
    )

    const engine = await createLocalEngine(programOf({ document, model, optimizer, plan }))
    try {
      await engine.writeState(state)
      const { scalars, tensors } = await engine.step({
        tensors: {
          tokens: Int32Array.from(fixture.tokens.flat()),
          labels: Int32Array.from(fixture.labels.flat(), (label) => (label < 0 ? -1 : label)),
        },
        // The fixture's loss is summed, and so are its gradients.
        scalars: { lossScale: 1, learningRate: 0, clipFactor: 1, ...optimizer.optimizerScalars(1) },
      })
      expect(scalars['loss']).toBeCloseTo(fixture.loss, 10)
      for (const [parameter, { gradient }] of Object.entries(fixture.parameters))
        expect(
          largestDifference(tensors['gradients']!.get(parameter)!.data, gradient),
          parameter,
        ).toBeLessThan(1e-9)
    } finally {
      await engine.stop()
    }
  },
)
