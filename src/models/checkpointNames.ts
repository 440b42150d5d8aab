import type { Model } from './types.ts'

/** Prefix that Hugging Face leaves out where a checkpoint was saved from the model without its head. */
const prefixes: Readonly<Record<Model['family'], string>> = { gpt: 'transformer.', llama: 'model.' }

/** Names under which a checkpoint file may hold the parameter, the usual one first. */
export function checkpointNames(model: Pick<Model, 'family'>, parameter: string): readonly string[] {
  const prefix = prefixes[model.family]
  return parameter.startsWith(prefix) ? [parameter, parameter.slice(prefix.length)] : [parameter]
}

/**
 * Whether a tensor of that name may stand in a checkpoint file although the model has no such parameter: stored masks
 * and rotary tables, and the copy that a tied head is.
 */
export function isRedundantTensor(model: Pick<Model, 'family' | 'config'>, name: string): boolean {
  if (name === 'lm_head.weight') return model.config.tied
  return model.family === 'gpt'
    ? /^(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)$/.test(name)
    : /^(model\.)?(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq$/.test(name)
}
