import { describe, expect, it } from 'vitest'
import { checkpointNames, isRedundantTensor } from './checkpointNames.ts'
import { modelFromShortName } from './shortName.ts'

const gpt = modelFromShortName('gpt')
const llama = modelFromShortName('llama')

describe('names in checkpoint files', () => {
  // The released gpt2 file says `h.0.attn.bias`, `wte.weight`; newer ones have the prefix.
  it('may leave the prefix out', () => {
    expect(checkpointNames(gpt, 'transformer.wte.weight')).toEqual(['transformer.wte.weight', 'wte.weight'])
    expect(checkpointNames(llama, 'model.norm.weight')).toEqual(['model.norm.weight', 'norm.weight'])
    expect(checkpointNames(llama, 'lm_head.weight')).toEqual(['lm_head.weight'])
  })

  it('may be of masks, rotary tables and a tied head', () => {
    expect(isRedundantTensor(gpt, 'h.0.attn.bias')).toBe(true)
    expect(isRedundantTensor(gpt, 'transformer.h.11.attn.masked_bias')).toBe(true)
    expect(isRedundantTensor(gpt, 'h.0.attn.c_attn.bias')).toBe(false)
    expect(isRedundantTensor(gpt, 'lm_head.weight')).toBe(true)
    expect(isRedundantTensor(llama, 'lm_head.weight')).toBe(false)
    expect(isRedundantTensor(llama, 'model.layers.0.self_attn.rotary_emb.inv_freq')).toBe(true)
    for (const model of [gpt, modelFromShortName('gpt:tied=false'), llama])
      for (const { name } of model.parameters)
        for (const stored of checkpointNames(model, name))
          expect(isRedundantTensor(model, stored)).toBe(false)
  })
})
