import { MeshwrightError } from '../base/index.ts'
import { checkCounts, checkDivides, checkNumbers, checkSizes, divisorsOf } from './checks.ts'
import { hasExperts } from './moeParameters.ts'
import { checkRopeScaling } from './rotary.ts'
import type { BuildOptions, MoeConfig } from './types.ts'

/** Throws `MODEL_*` for a config that no model can have. */
export function checkMoeConfig(config: MoeConfig): void {
  const { layers, hidden, heads, kvHeads, headDim, mlp, context, vocab } = config
  checkSizes({ layers, hidden, heads, kvHeads, headDim, mlp, context, vocab })
  const { ropeHeadDim, valueHeadDim, experts, topk, expertMlp, moeFrequency, groups, groupsPerToken } = config
  checkSizes({ ropeHeadDim, valueHeadDim, experts, topk, expertMlp, moeFrequency, groups, groupsPerToken })
  const { qLoraRank, kvLoraRank, denseLayers, sharedExperts } = config
  checkCounts({ qLoraRank, kvLoraRank, denseLayers, sharedExperts })
  const { epsilon, ropeTheta, initialStd, gateScale, capacityFactor, balanceWeight, zLossWeight } = config
  checkNumbers({ epsilon, ropeTheta, initialStd, gateScale, capacityFactor, balanceWeight, zLossWeight })
  checkRopeScaling(config.ropeScaling)
  checkAttention(config)
  checkExperts(config)
}

function refuse(code: string, message: string, hint: string): never {
  throw new MeshwrightError(code, message, { hint })
}

function checkAttention(config: MoeConfig): void {
  const { heads, kvHeads, headDim, ropeHeadDim, valueHeadDim } = config
  if (ropeHeadDim % 2 !== 0)
    refuse(
      'MODEL_HEAD_DIM',
      `ropeHeadDim is ${ropeHeadDim}: rotary positions turn pairs`,
      `ropeHeadDim ${ropeHeadDim === 1 ? '2' : `${ropeHeadDim - 1} or ${ropeHeadDim + 1}`} would work`,
    )
  if (config.kvLoraRank > 0) {
    if (kvHeads !== heads)
      refuse(
        'MODEL_KV_HEADS',
        `kvHeads is ${kvHeads} of ${heads} heads: with latent attention every head has its own keys and values`,
        `kvHeads ${heads} would work, or kvLoraRank 0`,
      )
    return
  }
  checkDivides('MODEL_KV_HEADS', { name: 'heads', size: heads }, { name: 'kvHeads', size: kvHeads })
  const without = 'without latent attention (kvLoraRank 0)'
  for (const [name, size] of Object.entries({ ropeHeadDim, valueHeadDim }))
    if (size !== headDim)
      refuse(
        'MODEL_LATENT',
        `${name} is ${size} ${without}, where it is headDim ${headDim}`,
        `${name} ${headDim} would work, or a kvLoraRank above 0`,
      )
  if (config.qLoraRank > 0)
    refuse(
      'MODEL_LATENT',
      `qLoraRank is ${config.qLoraRank} ${without}`,
      'qLoraRank 0 would work, or a kvLoraRank above 0',
    )
  if (config.ropeInterleaved)
    refuse(
      'MODEL_LATENT',
      `ropeInterleaved is true ${without}`,
      'ropeInterleaved=false would work, or a kvLoraRank above 0',
    )
}

function checkExperts(config: MoeConfig): void {
  const { layers, denseLayers, moeFrequency, experts, topk, groups, groupsPerToken } = config
  if (!Array.from({ length: layers }, (_, layer) => layer).some((layer) => hasExperts(config, layer)))
    refuse(
      'MODEL_EXPERT_LAYERS',
      `none of ${layers} layers has experts with denseLayers ${denseLayers} and moeFrequency ${moeFrequency}`,
      `denseLayers 0 to ${moeFrequency * Math.floor((layers - 1) / moeFrequency)} would work, or the llama family`,
    )
  if (topk > experts)
    refuse(
      'MODEL_TOPK',
      `topk is ${topk} of ${experts} experts`,
      `topk 1 to ${experts} would work, or experts ${topk}`,
    )
  checkDivides('MODEL_EXPERT_GROUPS', { name: 'experts', size: experts }, { name: 'groups', size: groups })
  if (groupsPerToken > groups)
    refuse(
      'MODEL_EXPERT_GROUPS',
      `groupsPerToken is ${groupsPerToken} of ${groups} groups`,
      `groupsPerToken 1 to ${groups} would work, or groups ${groupsPerToken}`,
    )
  const perGroup = experts / groups
  if (groups > 1 && config.scoring === 'sigmoid' && perGroup < 2)
    refuse(
      'MODEL_EXPERT_GROUPS',
      `${groups} groups of ${experts} experts have ${perGroup} each: a group is as good as its two best`,
      `groups ${divisorsOf(experts).findLast((divisor) => 2 * divisor <= experts) ?? 1} would work, or experts ${2 * groups}`,
    )
  if (topk > groupsPerToken * perGroup)
    refuse(
      'MODEL_TOPK',
      `topk is ${topk}, but ${groupsPerToken} of ${groups} groups hold ${groupsPerToken * perGroup} experts`,
      `topk 1 to ${groupsPerToken * perGroup} would work, or groupsPerToken ${Math.ceil(topk / perGroup)}`,
    )
  if (config.routerBias && config.scoring !== 'sigmoid')
    refuse(
      'MODEL_ROUTER',
      `routerBias is true with ${config.scoring} scores`,
      'scoring=sigmoid would work, or routerBias=false',
    )
}

/** Throws `MODEL_EXPERTS` where a sequence has not one token for each expert. */
export function checkTokens(config: MoeConfig, { sequence }: BuildOptions): void {
  if (config.experts > sequence)
    refuse(
      'MODEL_EXPERTS',
      `${config.experts} experts are more than the ${sequence} tokens of a sequence, which alone fill their slots`,
      `use sequences of at least ${config.experts} tokens, or at most ${sequence} experts`,
    )
}
