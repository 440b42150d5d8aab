import type { ModelConfig, RopeScaling } from './types.ts'

/**
 * The Hugging Face `config.json` of a model, so that a checkpoint of ours loads in transformers. Reading it back with
 * `modelFromHuggingFaceConfig` gives the same config. Dropout is written as 0, since none was trained with.
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
        ...shared,
      }
  }
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
  }
}
