import type { ExpertNames } from './expertLayer.ts'
import type { InitialValue, MoeConfig, ParameterSpec } from './types.ts'

/** Whether the layer of that number, from 0, has experts. */
export function hasExperts(config: Pick<MoeConfig, 'denseLayers' | 'moeFrequency'>, layer: number): boolean {
  return layer >= config.denseLayers && layer % config.moeFrequency === 0
}

/** Whether `MixtralForCausalLM` has all that the config asks for. */
export function isMixtral(config: MoeConfig): boolean {
  return (
    config.kvLoraRank === 0 &&
    config.scoring === 'softmax' &&
    config.normalizeGates &&
    config.gateScale === 1 &&
    config.groups === 1 &&
    config.sharedExperts === 0 &&
    config.denseLayers === 0 &&
    config.moeFrequency === 1
  )
}

export function expertNames(config: MoeConfig, layer: number): ExpertNames {
  const mixtral = isMixtral(config)
  const prefix = `model.layers.${layer}.${mixtral ? 'block_sparse_moe' : 'mlp'}`
  const expert = (name: string): string => `${prefix}.experts.${name}.weight`
  return {
    block: prefix,
    router: `${prefix}.gate.weight`,
    routerBias: `${prefix}.gate.e_score_correction_bias`,
    gate: expert(mixtral ? 'w1' : 'gate_proj'),
    up: expert(mixtral ? 'w3' : 'up_proj'),
    down: expert(mixtral ? 'w2' : 'down_proj'),
    shared: `${prefix}.shared_experts`,
  }
}

/** In the order of the graph. */
export function moeParameters(config: MoeConfig): ParameterSpec[] {
  const { hidden, vocab } = config
  const normal: InitialValue = { kind: 'normal', std: config.initialStd }
  const parameters: ParameterSpec[] = []
  const matrix = (name: string, shape: number[], axes: string[]): void => {
    parameters.push({ name, shape, axes, initial: normal, decay: true })
  }
  const norm = (name: string, size: number, axis: string): void => {
    parameters.push({ name, shape: [size], axes: [axis], initial: { kind: 'ones' }, decay: false })
  }
  const feedForward = (prefix: string, width: number): void => {
    matrix(`${prefix}.gate_proj.weight`, [width, hidden], ['mlp', 'embed'])
    matrix(`${prefix}.up_proj.weight`, [width, hidden], ['mlp', 'embed'])
    matrix(`${prefix}.down_proj.weight`, [hidden, width], ['embed', 'mlp'])
  }

  matrix('model.embed_tokens.weight', [vocab, hidden], ['vocab', 'embed'])
  for (let layer = 0; layer < config.layers; layer++) {
    const prefix = `model.layers.${layer}`
    norm(`${prefix}.input_layernorm.weight`, hidden, 'embed')
    if (config.kvLoraRank === 0) groupedQueryParameters(config, `${prefix}.self_attn`, matrix)
    else latentParameters(config, `${prefix}.self_attn`, matrix, norm)
    norm(`${prefix}.post_attention_layernorm.weight`, hidden, 'embed')
    if (!hasExperts(config, layer)) {
      feedForward(`${prefix}.mlp`, config.mlp)
      continue
    }
    const names = expertNames(config, layer)
    const { experts, expertMlp } = config
    matrix(names.router, [experts, hidden], ['experts', 'embed'])
    if (config.routerBias)
      parameters.push({
        name: names.routerBias,
        shape: [experts],
        axes: ['experts'],
        initial: { kind: 'zeros' },
        decay: false,
      })
    const stacked = (name: string, shape: number[], axes: string[]): void => {
      parameters.push({
        name,
        shape: [experts, ...shape],
        axes: ['experts', ...axes],
        initial: normal,
        decay: true,
        perExpert: true,
      })
    }
    stacked(names.gate, [expertMlp, hidden], ['expertMlp', 'embed'])
    stacked(names.up, [expertMlp, hidden], ['expertMlp', 'embed'])
    stacked(names.down, [hidden, expertMlp], ['embed', 'expertMlp'])
    if (config.sharedExperts > 0) feedForward(names.shared, config.sharedExperts * expertMlp)
  }
  norm('model.norm.weight', hidden, 'embed')
  if (!config.tied) matrix('lm_head.weight', [vocab, hidden], ['vocab', 'embed'])
  return parameters
}

type AddMatrix = (name: string, shape: number[], axes: string[]) => void

function groupedQueryParameters(config: MoeConfig, prefix: string, matrix: AddMatrix): void {
  const { hidden, headDim } = config
  const queries = config.heads * headDim
  const keys = config.kvHeads * headDim
  matrix(`${prefix}.q_proj.weight`, [queries, hidden], ['heads', 'embed'])
  matrix(`${prefix}.k_proj.weight`, [keys, hidden], ['kvHeads', 'embed'])
  matrix(`${prefix}.v_proj.weight`, [keys, hidden], ['kvHeads', 'embed'])
  matrix(`${prefix}.o_proj.weight`, [hidden, queries], ['embed', 'heads'])
}

function latentParameters(
  config: MoeConfig,
  prefix: string,
  matrix: AddMatrix,
  norm: (name: string, size: number, axis: string) => void,
): void {
  const { hidden, heads, headDim, ropeHeadDim, valueHeadDim, qLoraRank, kvLoraRank } = config
  const queries = heads * (headDim + ropeHeadDim)
  if (qLoraRank === 0) {
    matrix(`${prefix}.q_proj.weight`, [queries, hidden], ['heads', 'embed'])
  } else {
    matrix(`${prefix}.q_a_proj.weight`, [qLoraRank, hidden], ['latent', 'embed'])
    norm(`${prefix}.q_a_layernorm.weight`, qLoraRank, 'latent')
    matrix(`${prefix}.q_b_proj.weight`, [queries, qLoraRank], ['heads', 'latent'])
  }
  matrix(`${prefix}.kv_a_proj_with_mqa.weight`, [kvLoraRank + ropeHeadDim, hidden], ['latent', 'embed'])
  norm(`${prefix}.kv_a_layernorm.weight`, kvLoraRank, 'latent')
  matrix(`${prefix}.kv_b_proj.weight`, [heads * (headDim + valueHeadDim), kvLoraRank], ['heads', 'latent'])
  matrix(`${prefix}.o_proj.weight`, [hidden, heads * valueHeadDim], ['embed', 'heads'])
}
