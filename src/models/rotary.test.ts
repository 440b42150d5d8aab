import { describe, expect, it } from 'vitest'
import recorded from './fixtures/rotary.json' with { type: 'json' }
import { parseRopeScaling, printRopeScaling, rotaryFactor, rotaryFrequencies } from './rotary.ts'
import type { RopeScaling } from './types.ts'

function scalingOf(parameters: (typeof recorded)[number]['parameters']): RopeScaling {
  const { factor } = parameters
  if (parameters.rope_type === 'linear') return { kind: 'linear', factor }
  const originalContext = parameters.original_max_position_embeddings!
  if (parameters.rope_type === 'llama3')
    return {
      kind: 'llama3',
      factor,
      lowFactor: parameters.low_freq_factor!,
      highFactor: parameters.high_freq_factor!,
      originalContext,
    }
  return {
    kind: 'yarn',
    factor,
    originalContext,
    betaFast: 32,
    betaSlow: 1,
    mscale: parameters.mscale ?? 0,
    mscaleAllDim: parameters.mscale_all_dim ?? 0,
  }
}

describe('rotary frequencies', () => {
  it('are powers of theta', () => {
    const frequencies = rotaryFrequencies(8, 10_000, { kind: 'none' })
    for (const [pair, expected] of [1, 0.1, 0.01, 0.001].entries())
      expect(frequencies[pair]).toBeCloseTo(expected, 15)
  })

  it.each(recorded.map((entry) => [entry.parameters.rope_type, entry] as const))(
    'of type %s are those of transformers',
    (_, { parameters, headDim, factor, frequencies }) => {
      const scaling = scalingOf(parameters)
      expect(rotaryFactor(scaling)).toBeCloseTo(factor, 14)
      const ours = rotaryFrequencies(headDim, parameters.rope_theta, scaling)
      expect(ours).toHaveLength(frequencies.length)
      for (const [pair, expected] of frequencies.entries())
        expect(Math.abs(ours[pair]! / expected - 1), `pair ${pair}`).toBeLessThan(1e-12)
    },
  )
})

describe('text of rope scaling', () => {
  it.each(['none', 'linear/4', 'llama3/8/1/4/8192', 'yarn/40/4096/32/1/1/0.5'])('%s', (text) => {
    expect(printRopeScaling(parseRopeScaling(text))).toBe(text)
  })

  it.each([
    '',
    'yarn/4',
    'linear',
    'linear/',
    'linear/x',
    'llama3/8/1/4',
    'llama3/8/4/1/8192',
    'yarn/4/0/32/1/1/1',
    'yarn/4/4096/1/32/1/1',
    'yarn/4/4096/32/1/-1/1',
    'linear/0',
    'none/1',
  ])('refuses "%s"', (text) => {
    expect(() => parseRopeScaling(text)).toThrow(expect.objectContaining({ code: 'MODEL_ROPE_SCALING' }))
  })
})
