import { type ConfigFields, show } from './configFields.ts'

/** Fields by which other models, or variants of these, say what they have; and the values that say "without". */
const beyond: Readonly<Record<string, { readonly means: string; readonly without: readonly unknown[] }>> = {
  quantization_config: { means: 'quantized weights', without: [] },
  auto_map: { means: 'code of its own', without: [] },
  per_layer_config: { means: 'layers that differ', without: [] },
  pruned_heads: { means: 'pruned heads', without: [] },
  add_cross_attention: { means: 'cross attention', without: [false] },
  cross_attention_hidden_size: { means: 'cross attention', without: [] },
  is_encoder_decoder: { means: 'an encoder', without: [false] },
  is_decoder: { means: 'a decoder of an encoder', without: [false, true] },
  num_local_experts: { means: 'a mixture of experts', without: [0, 1] },
  num_experts: { means: 'a mixture of experts', without: [0, 1] },
  n_routed_experts: { means: 'a mixture of experts', without: [0] },
  num_experts_per_tok: { means: 'a mixture of experts', without: [0] },
  attn_logit_softcapping: { means: 'capped attention scores', without: [] },
  final_logit_softcapping: { means: 'capped logits', without: [] },
  logit_scale: { means: 'scaled logits', without: [1] },
  logits_scaling: { means: 'scaled logits', without: [1] },
  embedding_multiplier: { means: 'a scaled embedding', without: [1] },
  residual_multiplier: { means: 'scaled residual branches', without: [1] },
  attention_multiplier: { means: 'another scale of attention scores', without: [] },
  query_pre_attn_scalar: { means: 'another scale of attention scores', without: [] },
  qk_norm: { means: 'norms of queries and keys', without: [false] },
  use_qk_norm: { means: 'norms of queries and keys', without: [false] },
  qkv_bias: { means: 'biases of queries, keys and values', without: [false] },
  clip_qkv: { means: 'clipped queries and keys', without: [] },
  alibi: { means: 'linear biases instead of positions', without: [false] },
  parallel_residual: { means: 'parallel residual branches', without: [false] },
  use_parallel_residual: { means: 'parallel residual branches', without: [false] },
  no_rope_layers: { means: 'layers without positions', without: [] },
  num_nextn_predict_layers: { means: 'layers that predict further tokens', without: [0] },
  num_mtp_layers: { means: 'layers that predict further tokens', without: [0] },
  vision_config: { means: 'images', without: [] },
  audio_config: { means: 'sound', without: [] },
}

/**
 * Throws `MODEL_CONFIG_UNSUPPORTED` naming the first field that declares something beyond the architecture, whose `own`
 * fields say what it has.
 */
export function refuseBeyond(fields: ConfigFields, architecture: string, own: readonly string[] = []): void {
  for (const [name, { means, without }] of Object.entries(beyond)) {
    if (own.includes(name)) continue
    const value = fields.value(name)
    if (value === undefined || without.includes(value) || isEmpty(value)) continue
    throw unsupported(fields, name, value, means, architecture)
  }
  // Kinds of attention, one for each layer.
  const types = fields.value('layer_types')
  if (Array.isArray(types)) {
    const layer = types.findIndex((type) => type !== 'full_attention')
    if (layer >= 0)
      throw unsupported(fields, `layer_types.${layer}`, types[layer], `in layer ${layer}`, architecture)
  } else if (types !== undefined) throw unsupported(fields, 'layer_types', types, 'no list', architecture)
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

function unsupported(
  fields: ConfigFields,
  name: string,
  value: unknown,
  means: string,
  architecture: string,
): Error {
  return fields.refuse(
    'MODEL_CONFIG_UNSUPPORTED',
    name,
    `${name} is ${show(value)} (${means}), which is not modelled for ${architecture}`,
    'training it as if the field were absent would be another model',
  )
}

/** Fields that are about files, generation, training elsewhere or other heads: nothing here depends on them. */
export const irrelevantFields: ReadonlySet<string> = new Set(
  `
  _name_or_path _commit_hash _attn_implementation transformers_version torch_dtype dtype use_cache
  bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id task_specific_params id2label
  label2id num_labels problem_type finetuning_task summary_type summary_use_proj summary_activation
  summary_first_dropout summary_proj_to_labels return_dict output_attentions output_hidden_states
  torchscript use_bfloat16 tokenizer_class prefix gradient_checkpointing chunk_size_feed_forward
  pretraining_tp tie_encoder_decoder unsloth_version unsloth_fixed max_window_layers max_length min_length
  do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p
  repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
  num_return_sequences output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id
  remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens
  tf_legacy_loss
  `
    .trim()
    .split(/\s+/),
)
