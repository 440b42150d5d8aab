import { describe, expect, it } from 'vitest'
import { checkpointNames, isRedundantTensor, storedParameters } from './checkpointNames.ts'
import { modelFromShortName } from './shortName.ts'

const gpt = modelFromShortName('gpt')
const llama = modelFromShortName('llama')
const moe = modelFromShortName('moe:layers=1,experts=3,hidden=8,heads=2,expertMlp=5')

describe('names in checkpoint files', () => {
  // The released gpt2 file says `h.0.attn.bias`, `wte.weight`; newer ones have the prefix.
  it('may leave the prefix out', () => {
    expect(checkpointNames(gpt, 'transformer.wte.weight')).toEqual(['transformer.wte.weight', 'wte.weight'])
    expect(checkpointNames(llama, 'model.norm.weight')).toEqual(['model.norm.weight', 'norm.weight'])
    expect(checkpointNames(llama, 'lm_head.weight')).toEqual(['lm_head.weight'])
  })

  it('has the weights of each expert by themselves', () => {
    const weight = moe.parameters.find(({ perExpert }) => perExpert === true)!
    expect(weight).toMatchObject({
      name: 'model.layers.0.block_sparse_moe.experts.w1.weight',
      shape: [3, 5, 8],
    })
    expect(storedParameters(moe, weight)).toEqual(
      [0, 1, 2].map((expert) => ({
        names: [
          `model.layers.0.block_sparse_moe.experts.${expert}.w1.weight`,
          `layers.0.block_sparse_moe.experts.${expert}.w1.weight`,
        ],
        shape: [5, 8],
        start: 40 * expert,
      })),
    )
    const norm = moe.parameters.find(({ name }) => name === 'model.norm.weight')!
    expect(storedParameters(moe, norm)).toEqual([
      { names: ['model.norm.weight', 'norm.weight'], shape: [8], start: 0 },
    ])
  })

  it('may be of masks, rotary tables and a tied head', () => {
    expect(isRedundantTensor(gpt, 'h.0.attn.bias')).toBe(true)
    expect(isRedundantTensor(gpt, 'transformer.h.11.attn.masked_bias')).toBe(true)
    expect(isRedundantTensor(gpt, 'h.0.attn.c_attn.bias')).toBe(false)
    expect(isRedundantTensor(gpt, 'lm_head.weight')).toBe(true)
    expect(isRedundantTensor(llama, 'lm_head.weight')).toBe(false)
    expect(isRedundantTensor(llama, 'model.layers.0.self_attn.rotary_emb.inv_freq')).toBe(true)
    for (const model of [gpt, modelFromShortName('gpt:tied=false'), llama, moe])
      for (const parameter of model.parameters)
        for (const { names } of storedParameters(model, parameter))
          for (const stored of names) expect(isRedundantTensor(model, stored)).toBe(false)
  })
})
