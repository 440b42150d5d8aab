import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { modelConfigs } from '../../test/support/modelConfigs.ts'
import { deepseek, gpt2, llama31, mistral, mixtral } from '../../test/support/releasedConfigs.ts'
import { countParameters } from './checks.ts'
import { modelFromHuggingFaceConfig } from './huggingFace.ts'
import { modelFromConfig } from './registry.ts'
import { modelFromShortName } from './shortName.ts'
import type { Model } from './types.ts'
import { huggingFaceConfigOf } from './writeHuggingFace.ts'

const read = (json: unknown): Model => modelFromHuggingFaceConfig(json, { source: 'config.json' })

function refusal(json: unknown): unknown {
  try {
    return read(json).config
  } catch (error) {
    return error
  }
}

function without<T extends object>(config: T, key: keyof T): Partial<T> {
  const copy: Partial<T> = { ...config }
  delete copy[key]
  return copy
}

describe('reading config.json', () => {
  it('gives the models that are known by name', () => {
    expect(read(gpt2).config).toEqual(modelFromShortName('gpt2').config)
    expect(read(llama31).config).toEqual(modelFromShortName('llama-3.1-8b').config)
    expect(countParameters(read(llama31).parameters)).toBe(8_030_261_248)
    expect(countParameters(read(mistral).parameters)).toBe(7_248_023_552)
  })

  it('gives the mixtures of experts that are known by name, with the auxiliary loss that they say', () => {
    const known = modelFromShortName('mixtral-8x7b').config
    expect(read({ ...mixtral, output_router_logits: true }).config).toEqual(known)
    expect(read(mixtral).config).toEqual({ ...known, balanceWeight: 0 })
    expect(read(mixtral).notices).toEqual([
      'router_aux_loss_coef 0.02 is read as 0: output_router_logits is false, so the loss does not have it',
    ])
    const { config, parameters } = modelFromShortName('deepseek-v3')
    expect(read({ ...deepseek, aux_loss_alpha: 0.0001, seq_aux: true }).config).toEqual(config)
    expect(read(deepseek).config).toEqual({ ...config, balanceWeight: 0 })
    expect(read(deepseek).parameters).toEqual(parameters)
    expect(read(deepseek).notices).toEqual([
      'the bias by which experts are chosen stays as it is: no balancing updates it',
    ])
  })

  it('says that dropout is read as 0, and nothing of what does not matter', () => {
    expect(read(gpt2).notices).toEqual([
      'dropout is read as 0: resid_pdrop 0.1, embd_pdrop 0.1, attn_pdrop 0.1',
    ])
    expect(read({ ...gpt2, resid_pdrop: 0, embd_pdrop: 0.0 }).notices).toEqual([
      'dropout is read as 0: attn_pdrop 0.1',
    ])
    // Absent, it is 0.1 in transformers.
    expect(read(without(gpt2, 'resid_pdrop')).notices[0]).toContain('resid_pdrop 0.1')
    expect(read(llama31).notices).toEqual([])
    expect(read({ ...llama31, attention_dropout: 0.2 }).notices).toHaveLength(1)
  })

  it('says which fields it does not know', () => {
    expect(read({ ...llama31, lorem: 3, ipsum: null }).notices).toEqual([
      'lorem: not read, LlamaForCausalLM does not depend on it',
    ])
  })

  it('fills in what transformers would', () => {
    const bare = { model_type: 'gpt2', n_embd: 64, n_head: 2, n_layer: 2, n_positions: 32, vocab_size: 100 }
    expect(read(bare).config).toEqual({
      family: 'gpt',
      layers: 2,
      hidden: 64,
      heads: 2,
      mlp: 256,
      context: 32,
      vocab: 100,
      tied: true,
      epsilon: 1e-5,
      initialStd: 0.02,
    })
    const small = {
      model_type: 'llama',
      hidden_size: 64,
      num_attention_heads: 4,
      num_hidden_layers: 2,
      intermediate_size: 96,
      max_position_embeddings: 32,
      vocab_size: 100,
    }
    expect(read(small).config).toMatchObject({
      kvHeads: 4,
      headDim: 16,
      tied: false,
      epsilon: 1e-6,
      ropeTheta: 10_000,
      ropeScaling: { kind: 'none' },
    })
    expect(read({ ...mistral, num_key_value_heads: undefined }).config).toMatchObject({ kvHeads: 32 })
    expect(read(without(mistral, 'num_key_value_heads')).config).toMatchObject({ kvHeads: 8 })
  })

  it('knows both forms of rotary parameters', () => {
    const { rope_scaling, rope_theta, ...rest } = llama31
    expect(read({ ...rest, rope_parameters: { ...(rope_scaling as object), rope_theta } }).config).toEqual(
      read(llama31).config,
    )
    expect(read({ ...llama31, rope_scaling: { type: 'linear', factor: 2 } }).config).toMatchObject({
      ropeScaling: { kind: 'linear', factor: 2 },
    })
    expect(read({ ...llama31, rope_scaling: { rope_type: 'default' } }).config).toMatchObject({
      ropeScaling: { kind: 'none' },
    })
  })

  it('reads a window that never bites as none', () => {
    expect(read({ ...mistral, sliding_window: 32768 }).config).toEqual(read(mistral).config)
    expect(
      read({ ...without(mistral, 'sliding_window'), max_position_embeddings: 4096 }).config,
    ).toMatchObject({
      context: 4096,
    })
  })

  it.each<[object, string]>([
    [{ ...gpt2, activation_function: 'gelu' }, 'activation_function'],
    [{ ...gpt2, scale_attn_by_inverse_layer_idx: true }, 'scale_attn_by_inverse_layer_idx'],
    [{ ...gpt2, scale_attn_weights: false }, 'scale_attn_weights'],
    [{ ...gpt2, add_cross_attention: true }, 'add_cross_attention'],
    [{ ...gpt2, pruned_heads: { 0: [1] } }, 'pruned_heads'],
    [{ ...gpt2, architectures: ['GPT2ForSequenceClassification'] }, 'architectures'],
    [{ ...gpt2, architectures: [] }, 'architectures'],
    [{ ...llama31, attention_bias: true }, 'attention_bias'],
    [{ ...llama31, mlp_bias: true }, 'mlp_bias'],
    [{ ...llama31, hidden_act: 'gelu' }, 'hidden_act'],
    [{ ...llama31, quantization_config: { quant_method: 'gptq' } }, 'quantization_config'],
    [{ ...llama31, num_local_experts: 8 }, 'num_local_experts'],
    [{ ...llama31, sliding_window: 1024 }, 'sliding_window'],
    [{ ...llama31, partial_rotary_factor: 0.5 }, 'partial_rotary_factor'],
    [{ ...llama31, layer_types: ['full_attention', 'sliding_attention'] }, 'layer_types.1'],
    [{ ...llama31, auto_map: { AutoModel: 'modeling.Mine' } }, 'auto_map'],
    [{ ...llama31, rope_scaling: { rope_type: 'longrope', factor: 4 } }, 'rope_scaling.rope_type'],
    [
      { ...llama31, rope_scaling: { rope_type: 'yarn', factor: 4, attention_factor: 2 } },
      'rope_scaling.attention_factor',
    ],
    [
      { ...llama31, rope_scaling: { rope_type: 'linear', factor: 4, beta_fast: 3 } },
      'rope_scaling.beta_fast',
    ],
    [{ ...llama31, rope_scaling: { factor: 4 } }, 'rope_scaling.factor'],
    [{ ...mistral, sliding_window: 4096 }, 'sliding_window'],
    [without(mistral, 'sliding_window'), 'sliding_window'],
    [{ model_type: 'qwen2_moe' }, 'model_type'],
    [{ ...mixtral, router_jitter_noise: 0.1 }, 'router_jitter_noise'],
    [{ ...mixtral, sliding_window: 4096 }, 'sliding_window'],
    [{ ...mixtral, n_shared_experts: 1 }, 'n_shared_experts'],
    [{ ...deepseek, num_nextn_predict_layers: 1 }, 'num_nextn_predict_layers'],
    [{ ...deepseek, quantization_config: { quant_method: 'fp8' } }, 'quantization_config'],
    [{ ...deepseek, scoring_func: 'softmax' }, 'scoring_func'],
    [{ ...deepseek, topk_method: 'greedy' }, 'topk_method'],
    [{ ...deepseek, attention_bias: true }, 'attention_bias'],
    [{ ...deepseek, aux_loss_alpha: 0.001, seq_aux: false }, 'seq_aux'],
    [{ ...deepseek, head_dim: 128 }, 'head_dim'],
    [{ ...deepseek, index_topk: 2048 }, 'index_topk'],
    [{ model_type: 'constructor' }, 'model_type'],
  ])('refuses what is not modelled: %#', (json, path) => {
    expect(refusal(json)).toMatchObject({
      code: 'MODEL_CONFIG_UNSUPPORTED',
      at: { file: 'config.json', path },
    })
  })

  it.each<[unknown, string, string | undefined]>([
    [null, 'MODEL_CONFIG_SHAPE', undefined],
    [[gpt2], 'MODEL_CONFIG_SHAPE', undefined],
    ['gpt2', 'MODEL_CONFIG_SHAPE', undefined],
    [{ ...llama31, rope_scaling: 'llama3' }, 'MODEL_CONFIG_SHAPE', undefined],
    [{}, 'MODEL_CONFIG_MISSING', 'architectures'],
    [without(gpt2, 'n_layer'), 'MODEL_CONFIG_MISSING', 'n_layer'],
    [{ ...llama31, rope_scaling: { rope_type: 'llama3' } }, 'MODEL_CONFIG_MISSING', 'rope_scaling.factor'],
    [{ ...gpt2, n_layer: '12' }, 'MODEL_CONFIG_VALUE', 'n_layer'],
    [{ ...gpt2, n_ctx: 512 }, 'MODEL_CONFIG_VALUE', 'n_ctx'],
    [{ ...gpt2, tie_word_embeddings: 1 }, 'MODEL_CONFIG_VALUE', 'tie_word_embeddings'],
    [{ ...llama31, model_type: 'gpt2' }, 'MODEL_CONFIG_VALUE', 'model_type'],
    [{ ...gpt2, n_layer: 0 }, 'MODEL_SIZE', undefined],
    [{ ...gpt2, n_head: 7 }, 'MODEL_HEADS', undefined],
    [{ ...llama31, num_attention_heads: 0 }, 'MODEL_SIZE', undefined],
    [{ ...llama31, num_attention_heads: 24 }, 'MODEL_HEADS', undefined],
    [{ ...llama31, num_key_value_heads: 5 }, 'MODEL_KV_HEADS', undefined],
    [{ ...mixtral, num_experts_per_tok: 9 }, 'MODEL_TOPK', undefined],
    [{ ...deepseek, n_group: 7 }, 'MODEL_EXPERT_GROUPS', undefined],
    [{ ...deepseek, num_key_value_heads: 64 }, 'MODEL_KV_HEADS', undefined],
    [{ ...deepseek, first_k_dense_replace: 61 }, 'MODEL_EXPERT_LAYERS', undefined],
    [{ ...deepseek, kv_lora_rank: 0 }, 'MODEL_CONFIG_VALUE', 'kv_lora_rank'],
    [without(deepseek, 'q_lora_rank'), 'MODEL_CONFIG_MISSING', 'q_lora_rank'],
  ])('refuses what cannot be: %#', (json, code, path) => {
    const error = refusal(json)
    expect(error).toMatchObject({ code })
    if (path !== undefined) expect(error).toMatchObject({ at: { file: 'config.json', path } })
  })

  it('throws nothing but errors a person can act on', () => {
    const field = fc.constantFrom(
      ...Object.keys(gpt2),
      ...Object.keys(llama31),
      ...Object.keys(mixtral),
      ...Object.keys(deepseek),
      'sliding_window',
      'layer_types',
    )
    fc.assert(
      fc.property(
        fc.constantFrom<object>(gpt2, llama31, mistral, mixtral, deepseek),
        fc.dictionary(field, fc.jsonValue()),
        (base, changes) => {
          const result = refusal({ ...base, ...changes })
          expect(
            'family' in (result as object) || /^MODEL_/.test((result as { code?: string }).code ?? ''),
          ).toBe(true)
        },
      ),
      { numRuns: 200 },
    )
  })
})

describe('writing config.json', () => {
  it.each([
    ['moe:balance=sequence', 'balance is sequence, which MixtralForCausalLM does not have'],
    [
      'moe:scoring=sigmoid,balance=sequence',
      'attention is grouped-query, which DeepseekV3ForCausalLM does not have',
    ],
    [
      'moe:kvLoraRank=8,scoring=sigmoid,routerBias=true,balance=sequence',
      'sharedExperts is 0, which DeepseekV3ForCausalLM does not have',
    ],
  ])('refuses %s', (name, message) => {
    expect(() => huggingFaceConfigOf(modelFromShortName(name).config)).toThrow(
      expect.objectContaining({ code: 'MODEL_EXPORT', message }),
    )
  })

  it('is read back as it was', () => {
    fc.assert(
      fc.property(modelConfigs, (config) => {
        const model = read(JSON.parse(JSON.stringify(huggingFaceConfigOf(config))))
        expect(model.config).toEqual(config)
        expect(model.notices).toEqual(modelFromConfig(config).notices)
        expect(modelFromConfig(config).parameters).toEqual(model.parameters)
      }),
      { numRuns: 60 },
    )
  })
})
