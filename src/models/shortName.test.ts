import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { modelConfigs } from '../../test/support/modelConfigs.ts'
import { countParameters } from './checks.ts'
import { publicModels } from './publicModels.ts'
import { modelFamilies } from './registry.ts'
import { isModelName, modelFromShortName, printShortName } from './shortName.ts'

function refusal(text: string): unknown {
  try {
    return modelFromShortName(text).config
  } catch (error) {
    return error
  }
}

describe('public models', () => {
  // Counts of the released weights: each stored parameter once.
  it.each([
    ['gpt2', 124_439_808],
    ['gpt2-medium', 354_823_168],
    ['gpt2-large', 774_030_080],
    ['gpt2-xl', 1_557_611_200],
    ['llama-2-7b', 6_738_415_616],
    ['llama-2-13b', 13_015_864_320],
    ['llama-2-70b', 68_976_648_192],
    ['llama-3-8b', 8_030_261_248],
    ['llama-3-70b', 70_553_706_496],
    ['llama-3.1-8b', 8_030_261_248],
    ['llama-3.1-70b', 70_553_706_496],
    ['llama-3.1-405b', 405_853_388_800],
    ['llama-3.2-1b', 1_235_814_400],
    ['llama-3.2-3b', 3_212_749_824],
    ['mixtral-8x7b', 46_702_792_704],
    ['mixtral-8x22b', 140_630_071_296],
    // The published model less its prediction of further tokens.
    ['deepseek-v3', 671_026_419_200],
  ])('%s has %d parameters', (name, count) => {
    expect(countParameters(modelFromShortName(name).parameters)).toBe(count)
  })

  it('are all counted above', () => {
    expect(publicModels).toHaveLength(17)
  })

  it('may be changed', () => {
    const { config } = modelFromShortName('gpt2:layers=2,hidden=384,context=64')
    expect(config).toMatchObject({ layers: 2, hidden: 384, heads: 12, mlp: 1536, context: 64, vocab: 50_257 })
  })
})

describe('short names', () => {
  it('fill in what is left out', () => {
    expect(modelFromShortName('gpt').config).toEqual({
      family: 'gpt',
      layers: 4,
      hidden: 128,
      heads: 4,
      mlp: 512,
      context: 128,
      vocab: 256,
      tied: true,
      epsilon: 1e-5,
      initialStd: 0.02,
    })
    expect(modelFromShortName('llama: hidden=192, heads=6, kvHeads=2').config).toEqual({
      family: 'llama',
      layers: 4,
      hidden: 192,
      heads: 6,
      kvHeads: 2,
      headDim: 32,
      mlp: 512,
      context: 128,
      vocab: 256,
      tied: false,
      epsilon: 1e-5,
      ropeTheta: 10_000,
      ropeScaling: { kind: 'none' },
      initialStd: 0.02,
    })
  })

  it('take every kind of value', () => {
    expect(
      modelFromShortName('llama:tied=true,ropeTheta=5e5,headDim=20,ropeScaling=llama3/8/1/4/8192').config,
    ).toMatchObject({
      tied: true,
      ropeTheta: 500_000,
      headDim: 20,
      ropeScaling: { kind: 'llama3', factor: 8, lowFactor: 1, highFactor: 4, originalContext: 8192 },
    })
  })

  it('are printed so that they are read back', () => {
    fc.assert(
      fc.property(modelConfigs, (config) => {
        expect(modelFromShortName(printShortName(config)).config).toEqual(config)
      }),
      { numRuns: 60 },
    )
    expect(printShortName(modelFromShortName('gpt:hidden=96,mlp=384').config)).toBe('gpt:hidden=96')
  })

  it('suggest the near one', () => {
    expect(refusal('gtp')).toMatchObject({ code: 'MODEL_UNKNOWN', hint: 'did you mean "gpt"?' })
    expect(refusal('gpt2-xxl')).toMatchObject({ code: 'MODEL_UNKNOWN', hint: 'did you mean "gpt2-xl"?' })
    expect(refusal('llama:kvheads=2')).toMatchObject({
      code: 'MODEL_UNKNOWN_KEY',
      hint: 'did you mean "kvHeads"?',
    })
    // Known to llama only.
    expect(refusal('gpt:ropeTheta=2')).toMatchObject({ code: 'MODEL_UNKNOWN_KEY' })
    expect(refusal('gpt:__proto__=2')).toMatchObject({ code: 'MODEL_UNKNOWN_KEY' })
  })

  it('say which sizes go together', () => {
    expect(refusal('gpt:hidden=130')).toMatchObject({
      code: 'MODEL_HEADS',
      message: 'hidden 130 is not divisible by heads 4',
      hint: 'hidden 128 or 132 would work, or heads 2 or 5',
    })
    expect(refusal('llama:hidden=100,heads=3')).toMatchObject({ code: 'MODEL_HEADS' })
    expect(refusal('llama:hidden=100,heads=3,headDim=8')).toMatchObject({ headDim: 8 })
  })

  it.each([
    ['gpt:layers', 'MODEL_VALUE'],
    ['gpt:layers=', 'MODEL_VALUE'],
    ['gpt:layers=4=5', 'MODEL_VALUE'],
    ['gpt:,', 'MODEL_VALUE'],
    ['gpt:layers=four', 'MODEL_VALUE'],
    ['gpt:layers=0x10', 'MODEL_VALUE'],
    ['gpt:layers=Infinity', 'MODEL_VALUE'],
    ['gpt:tied=yes', 'MODEL_VALUE'],
    ['gpt:layers=4,layers=5', 'MODEL_DUPLICATE_KEY'],
    ['gpt:layers=-1', 'MODEL_SIZE'],
    ['gpt:layers=1.5', 'MODEL_SIZE'],
    ['gpt:vocab=1e400', 'MODEL_SIZE'],
    ['gpt:epsilon=-1e-5', 'MODEL_NUMBER'],
    ['llama:ropeScaling=yarn/4', 'MODEL_ROPE_SCALING'],
    ['moe:scoring=soft', 'MODEL_VALUE'],
    ['moe:sharedExperts=-1', 'MODEL_SIZE'],
    ['moe:capacityFactor=-1', 'MODEL_NUMBER'],
    ['', 'MODEL_UNKNOWN'],
    ['constructor', 'MODEL_UNKNOWN'],
  ])('%s is refused: %s', (text, code) => {
    expect(refusal(text)).toMatchObject({ code })
  })

  it('are told from paths', () => {
    expect(isModelName('gpt:layers=2')).toBe(true)
    expect(isModelName('gpt2-xl')).toBe(true)
    expect(isModelName('models/gpt2/config.json')).toBe(false)
  })
})

describe('the registry', () => {
  it('lists every field of a config but the family', () => {
    for (const family of modelFamilies) {
      const fields = Object.keys(family.configure({})).filter((field) => field !== 'family')
      expect(family.keys.map((key) => key.name).sort()).toEqual(fields.sort())
    }
  })
})
