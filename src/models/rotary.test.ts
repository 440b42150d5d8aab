import { describe, expect, it } from 'vitest'
import recorded from './fixtures/rotary.json' with { type: 'json' }
import { parseRopeScaling, printRopeScaling, rotaryFrequencies } from './rotary.ts'
import type { RopeScaling } from './types.ts'

describe('rotary frequencies', () => {
  it('are powers of theta', () => {
    const frequencies = rotaryFrequencies(8, 10_000, { kind: 'none' })
    for (const [pair, expected] of [1, 0.1, 0.01, 0.001].entries())
      expect(frequencies[pair]).toBeCloseTo(expected, 15)
  })

  it.each(recorded.map((entry) => [entry.parameters.rope_type, entry] as const))(
    'of type %s are those of transformers',
    (_, { parameters, headDim, frequencies }) => {
      const scaling: RopeScaling =
        parameters.rope_type === 'linear'
          ? { kind: 'linear', factor: parameters.factor }
          : {
              kind: 'llama3',
              factor: parameters.factor,
              lowFactor: parameters.low_freq_factor!,
              highFactor: parameters.high_freq_factor!,
              originalContext: parameters.original_max_position_embeddings!,
            }
      const ours = rotaryFrequencies(headDim, parameters.rope_theta, scaling)
      expect(ours).toHaveLength(frequencies.length)
      for (const [pair, expected] of frequencies.entries())
        expect(Math.abs(ours[pair]! / expected - 1), `pair ${pair}`).toBeLessThan(1e-12)
    },
  )
})

describe('text of rope scaling', () => {
  it.each(['none', 'linear/4', 'llama3/8/1/4/8192'])('%s', (text) => {
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
    'linear/0',
    'none/1',
  ])('refuses "%s"', (text) => {
    expect(() => parseRopeScaling(text)).toThrow(expect.objectContaining({ code: 'MODEL_ROPE_SCALING' }))
  })
})
