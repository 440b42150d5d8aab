import { describe, expect, it } from 'vitest'
import {
  type Fixture,
  inputsOf,
  largestDifference,
  lossAndGradients,
} from '../../test/support/modelFixture.ts'
import deepseekV3 from './fixtures/deepseek-v3.json' with { type: 'json' }
import gpt2 from './fixtures/gpt2.json' with { type: 'json' }
import llama from './fixtures/llama.json' with { type: 'json' }
import mixtral from './fixtures/mixtral.json' with { type: 'json' }
import { modelFromHuggingFaceConfig } from './huggingFace.ts'

// Recorded by scripts/make_model_fixtures.py from transformers 5.17.0 on torch 2.13.0, float64, eager attention.
describe.each<[string, Fixture]>([
  ['gpt2', gpt2],
  ['llama', llama],
  ['mixtral', mixtral],
  ['deepseek-v3', deepseekV3],
])('%s against transformers', (name, fixture) => {
  const model = modelFromHuggingFaceConfig(fixture.config, { source: `${name}.json` })
  const weights = (parameter: string): readonly number[] => fixture.parameters[parameter]!.values

  it('has the same parameters, by name and shape', () => {
    const ours = model.parameters.map((parameter) => [parameter.name, parameter.shape] as const)
    const theirs = Object.entries(fixture.parameters).map(([key, { shape }]) => [key, shape] as const)
    expect(Object.fromEntries(ours)).toEqual(Object.fromEntries(theirs))
  })

  it('gives the same loss and gradients', () => {
    const { loss, gradients } = lossAndGradients(model, inputsOf(model, fixture, weights))
    expect(Math.abs(loss - fixture.loss) / fixture.loss).toBeLessThan(1e-12)
    for (const [parameter, { gradient }] of Object.entries(fixture.parameters))
      expect(largestDifference(gradients.get(parameter)!, gradient), parameter).toBeLessThan(1e-10)
  })
})
