import { type ConfigFields, show } from './configFields.ts'
import { checkWindow, readDecoder, readHeadDim, requireOneOf } from './configReaders.ts'
import type { MoeConfig } from './types.ts'

/** What training alone depends on, which transformers does not have: written by us, absent elsewhere. */
function readTraining(fields: ConfigFields): Pick<MoeConfig, 'capacityFactor' | 'zLossWeight'> {
  return {
    capacityFactor: fields.number(['moe_expert_capacity_factor'], 0),
    zLossWeight: fields.number(['router_z_loss_coef'], 0),
  }
}

export function readMixtral(fields: ConfigFields, notices: string[]): MoeConfig {
  requireOneOf(fields, 'router_jitter_noise', 0, [0])
  const decoder = readDecoder(fields, notices, { kvHeads: 8, epsilon: 1e-5, theta: 1_000_000 })
  checkWindow(fields, false, decoder.context)
  const headDim = readHeadDim(fields, decoder)
  const width = fields.number(['intermediate_size'])
  // The loss has the auxiliary part only where the router's logits are given out.
  const weight = fields.number(['router_aux_loss_coef'], 0.001)
  const isBalanced = fields.flag('output_router_logits', false)
  if (!isBalanced && weight !== 0 && fields.has('router_aux_loss_coef'))
    notices.push(
      `router_aux_loss_coef ${weight} is read as 0: output_router_logits is false, so the loss does not have it`,
    )
  return {
    family: 'moe',
    ...decoder,
    headDim,
    mlp: width,
    qLoraRank: 0,
    kvLoraRank: 0,
    ropeHeadDim: headDim,
    valueHeadDim: headDim,
    ropeInterleaved: false,
    experts: fields.number(['num_local_experts'], 8),
    topk: fields.number(['num_experts_per_tok'], 2),
    expertMlp: width,
    denseLayers: 0,
    moeFrequency: 1,
    sharedExperts: 0,
    scoring: 'softmax',
    normalizeGates: true,
    gateScale: 1,
    routerBias: false,
    groups: 1,
    groupsPerToken: 1,
    balance: 'switch',
    balanceWeight: isBalanced ? weight : 0,
    ...readTraining(fields),
  }
}

export function readDeepseek(fields: ConfigFields, notices: string[]): MoeConfig {
  requireOneOf(fields, 'scoring_func', 'sigmoid', ['sigmoid'])
  requireOneOf(fields, 'topk_method', 'noaux_tc', ['noaux_tc'])
  const decoder = readDecoder(fields, notices, { epsilon: 1e-6, theta: 10_000 })
  const ropeHeadDim = fields.number(['qk_rope_head_dim'])
  const headDim = fields.number(['qk_nope_head_dim'])
  // transformers writes these beside the sizes that they follow from.
  requireOneOf(fields, 'head_dim', ropeHeadDim, [ropeHeadDim])
  requireOneOf(fields, 'qk_head_dim', headDim + ropeHeadDim, [headDim + ropeHeadDim])
  // How many devices share the experts elsewhere.
  fields.value('ep_size')
  const balanceWeight = fields.number(['aux_loss_alpha'], 0)
  if (balanceWeight > 0) requireOneOf(fields, 'seq_aux', true, [true])
  else fields.value('seq_aux')
  return {
    family: 'moe',
    ...decoder,
    headDim,
    mlp: fields.number(['intermediate_size']),
    qLoraRank: readRank(fields, 'q_lora_rank', 0),
    kvLoraRank: readRank(fields, 'kv_lora_rank', 1),
    ropeHeadDim,
    valueHeadDim: fields.number(['v_head_dim']),
    ropeInterleaved: fields.flag('rope_interleave', true),
    experts: fields.number(['n_routed_experts']),
    topk: fields.number(['num_experts_per_tok']),
    expertMlp: fields.number(['moe_intermediate_size']),
    denseLayers: fields.number(['first_k_dense_replace'], 3),
    moeFrequency: fields.number(['moe_layer_freq'], 1),
    sharedExperts: fields.number(['n_shared_experts'], 1),
    scoring: 'sigmoid',
    normalizeGates: fields.flag('norm_topk_prob', true),
    gateScale: fields.number(['routed_scaling_factor'], 2.5),
    routerBias: true,
    groups: fields.number(['n_group'], 8),
    groupsPerToken: fields.number(['topk_group'], 4),
    balance: 'sequence',
    balanceWeight,
    ...readTraining(fields),
  }
}

/** A width that is compressed to; where null is allowed (`least` 0) it means none. */
function readRank(fields: ConfigFields, name: string, least: 0 | 1): number {
  const absent = least === 0 && fields.has(name) ? 0 : undefined
  const rank = fields.number([name], absent)
  if (rank >= 1) return rank
  if (rank === absent) return 0
  throw fields.refuse('MODEL_CONFIG_VALUE', name, `${name} is ${show(rank)}, no width`)
}
