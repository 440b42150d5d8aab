import { MeshwrightError } from '../base/index.ts'
import { isMixtral } from './moeParameters.ts'
import type { LlamaConfig, ModelConfig, MoeConfig, RopeScaling } from './types.ts'

/**
 * The Hugging Face `config.json` of a model, so that a checkpoint of ours loads in transformers. Reading it back with
 * `modelFromHuggingFaceConfig` gives the same config. Dropout is written as 0, since none was trained with. Throws
 * `MODEL_EXPORT` naming what no architecture of transformers that we write has.
 */
export function huggingFaceConfigOf(config: ModelConfig): Readonly<Record<string, unknown>> {
  const shared = {
    vocab_size: config.vocab,
    tie_word_embeddings: config.tied,
    initializer_range: config.initialStd,
    // No token of the vocabulary has a meaning of its own here.
    bos_token_id: null,
    eos_token_id: null,
  }
  switch (config.family) {
    case 'gpt':
      return {
        architectures: ['GPT2LMHeadModel'],
        model_type: 'gpt2',
        n_layer: config.layers,
        n_embd: config.hidden,
        n_head: config.heads,
        n_inner: config.mlp,
        n_positions: config.context,
        activation_function: 'gelu_new',
        layer_norm_epsilon: config.epsilon,
        resid_pdrop: 0,
        embd_pdrop: 0,
        attn_pdrop: 0,
        ...shared,
      }
    case 'llama':
      return {
        architectures: ['LlamaForCausalLM'],
        model_type: 'llama',
        ...llamaFields(config),
        ...shared,
      }
    case 'moe':
      return { ...(isMixtral(config) ? mixtralFields(config) : deepseekFields(config)), ...shared }
  }
}

function llamaFields(config: Omit<LlamaConfig, 'family'>): Readonly<Record<string, unknown>> {
  return {
    num_hidden_layers: config.layers,
    hidden_size: config.hidden,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headDim,
    intermediate_size: config.mlp,
    max_position_embeddings: config.context,
    hidden_act: 'silu',
    rms_norm_eps: config.epsilon,
    rope_theta: config.ropeTheta,
    rope_scaling: ropeScalingFields(config.ropeScaling),
  }
}

/** Fields that transformers does not know: they change training, not what the weights compute. */
function trainingFields({ capacityFactor, zLossWeight }: MoeConfig): Readonly<Record<string, unknown>> {
  return {
    ...(capacityFactor === 0 ? {} : { moe_expert_capacity_factor: capacityFactor }),
    ...(zLossWeight === 0 ? {} : { router_z_loss_coef: zLossWeight }),
  }
}

function mixtralFields(config: MoeConfig): Readonly<Record<string, unknown>> {
  requireThat('MixtralForCausalLM', [['balance', config.balance, ['switch']]])
  return {
    architectures: ['MixtralForCausalLM'],
    model_type: 'mixtral',
    ...llamaFields(config),
    intermediate_size: config.expertMlp,
    sliding_window: null,
    num_local_experts: config.experts,
    num_experts_per_tok: config.topk,
    output_router_logits: config.balanceWeight > 0,
    router_aux_loss_coef: config.balanceWeight,
    router_jitter_noise: 0,
    ...trainingFields(config),
  }
}

function deepseekFields(config: MoeConfig): Readonly<Record<string, unknown>> {
  requireThat('DeepseekV3ForCausalLM', [
    ['attention', config.kvLoraRank > 0 ? 'latent' : 'grouped-query', ['latent']],
    ['scoring', config.scoring, ['sigmoid']],
    ['routerBias', config.routerBias, [true]],
    ['moeFrequency', config.moeFrequency, [1]],
    [
      'sharedExperts',
      config.sharedExperts,
      config.sharedExperts > 0 ? [config.sharedExperts] : ['1 or more'],
    ],
    ['balance', config.balance, ['sequence']],
  ])
  const { head_dim: _, ...fields } = llamaFields(config)
  return {
    architectures: ['DeepseekV3ForCausalLM'],
    model_type: 'deepseek_v3',
    ...fields,
    qk_nope_head_dim: config.headDim,
    qk_rope_head_dim: config.ropeHeadDim,
    v_head_dim: config.valueHeadDim,
    q_lora_rank: config.qLoraRank === 0 ? null : config.qLoraRank,
    kv_lora_rank: config.kvLoraRank,
    rope_interleave: config.ropeInterleaved,
    attention_bias: false,
    n_routed_experts: config.experts,
    num_experts_per_tok: config.topk,
    moe_intermediate_size: config.expertMlp,
    first_k_dense_replace: config.denseLayers,
    moe_layer_freq: 1,
    n_shared_experts: config.sharedExperts,
    scoring_func: 'sigmoid',
    topk_method: 'noaux_tc',
    n_group: config.groups,
    topk_group: config.groupsPerToken,
    norm_topk_prob: config.normalizeGates,
    routed_scaling_factor: config.gateScale,
    num_nextn_predict_layers: 0,
    aux_loss_alpha: config.balanceWeight,
    seq_aux: true,
    ...trainingFields(config),
  }
}

function requireThat(
  architecture: string,
  rules: readonly (readonly [key: string, value: unknown, supported: readonly unknown[]])[],
): void {
  for (const [key, value, supported] of rules)
    if (!supported.includes(value))
      throw new MeshwrightError('MODEL_EXPORT', `${key} is ${value}, which ${architecture} does not have`, {
        hint: `a model with ${key} ${supported.join(' or ')} can be written, and any Mixtral or DeepSeek-V3`,
      })
}

function ropeScalingFields(scaling: RopeScaling): Readonly<Record<string, unknown>> | null {
  switch (scaling.kind) {
    case 'none':
      return null
    case 'linear':
      return { rope_type: 'linear', factor: scaling.factor }
    case 'llama3':
      return {
        rope_type: 'llama3',
        factor: scaling.factor,
        low_freq_factor: scaling.lowFactor,
        high_freq_factor: scaling.highFactor,
        original_max_position_embeddings: scaling.originalContext,
      }
    case 'yarn':
      return {
        rope_type: 'yarn',
        factor: scaling.factor,
        original_max_position_embeddings: scaling.originalContext,
        beta_fast: scaling.betaFast,
        beta_slow: scaling.betaSlow,
        ...(scaling.mscale === 0 ? {} : { mscale: scaling.mscale }),
        ...(scaling.mscaleAllDim === 0 ? {} : { mscale_all_dim: scaling.mscaleAllDim }),
      }
  }
}
