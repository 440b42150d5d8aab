import type { Model, ParameterSpec } from './types.ts'

/** Prefix that Hugging Face leaves out where a checkpoint was saved from the model without its head. */
const prefixes: Readonly<Record<Model['family'], string>> = {
  gpt: 'transformer.',
  llama: 'model.',
  moe: 'model.',
}

/** Names under which a checkpoint file may hold the parameter, the usual one first. */
export function checkpointNames(model: Pick<Model, 'family'>, parameter: string): readonly string[] {
  const prefix = prefixes[model.family]
  return parameter.startsWith(prefix) ? [parameter, parameter.slice(prefix.length)] : [parameter]
}

/** A tensor of a checkpoint file that is a run of a parameter's elements. */
export interface StoredParameter {
  /** Names it may have, the usual one first. */
  readonly names: readonly string[]
  readonly shape: readonly number[]
  /** The first of the parameter's elements in it, in row-major order. */
  readonly start: number
}

/** The tensors that hold a parameter in Hugging Face's checkpoints, in order: itself, or one for each expert. */
export function storedParameters(
  model: Pick<Model, 'family'>,
  { name, shape, perExpert }: Pick<ParameterSpec, 'name' | 'shape' | 'perExpert'>,
): readonly StoredParameter[] {
  if (perExpert !== true) return [{ names: checkpointNames(model, name), shape, start: 0 }]
  const [experts, ...own] = shape as [number, ...number[]]
  const elements = own.reduce((count, size) => count * size, 1)
  return Array.from({ length: experts }, (_, expert) => ({
    names: checkpointNames(model, name.replace('.experts.', `.experts.${expert}.`)),
    shape: own,
    start: expert * elements,
  }))
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
