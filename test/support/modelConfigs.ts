/** configs of models that can be, small but of any proportion. */
import fc from 'fast-check'
import type { GptConfig, LlamaConfig, ModelConfig, MoeConfig, RopeScaling } from '../../src/models/index.ts'

const size = (maximum: number): fc.Arbitrary<number> => fc.integer({ min: 1, max: maximum })
const positive: fc.Arbitrary<number> = fc.double({ min: 1e-9, max: 1e6, noNaN: true })

const ropeScaling: fc.Arbitrary<RopeScaling> = fc.oneof(
  fc.constant<RopeScaling>({ kind: 'none' }),
  fc.double({ min: 1, max: 64, noNaN: true }).map((factor): RopeScaling => ({ kind: 'linear', factor })),
  fc.record({ factor: size(64), lowFactor: size(4), over: size(4), originalContext: size(10_000) }).map(
    ({ factor, lowFactor, over, originalContext }): RopeScaling => ({
      kind: 'llama3',
      factor,
      lowFactor,
      highFactor: lowFactor + over,
      originalContext,
    }),
  ),
  fc
    .record({
      factor: size(64),
      originalContext: size(10_000),
      betaSlow: size(4),
      over: size(40),
      mscale: fc.constantFrom(0, 0.7, 1),
      mscaleAllDim: fc.constantFrom(0, 0.7, 1),
    })
    .map(({ over, ...rest }): RopeScaling => ({ kind: 'yarn', ...rest, betaFast: rest.betaSlow + over })),
)

const shared = {
  layers: size(6),
  mlp: size(512),
  context: size(4096),
  vocab: size(60_000),
  tied: fc.boolean(),
  epsilon: positive,
  initialStd: positive,
}

const gptConfig: fc.Arbitrary<GptConfig> = fc
  .record({ ...shared, heads: size(8), width: size(32) })
  .map(({ width, ...rest }) => ({ family: 'gpt', ...rest, hidden: rest.heads * width }))

const llamaConfig: fc.Arbitrary<LlamaConfig> = fc
  .record({
    ...shared,
    kvHeads: size(4),
    group: size(4),
    half: size(16),
    extra: size(8),
    ropeTheta: positive,
    ropeScaling,
  })
  .map(({ group, half, extra, ...rest }) => ({
    family: 'llama',
    ...rest,
    heads: rest.kvHeads * group,
    headDim: 2 * half,
    // A head's width need not follow from the stream's.
    hidden: rest.kvHeads * group * extra,
  }))

const router = {
  groups: size(3),
  perGroup: fc.integer({ min: 2, max: 5 }),
  topk: size(2),
  capacityFactor: fc.constantFrom(0, 1, 1.25),
  balanceWeight: fc.constantFrom(0.001, 0.02),
  zLossWeight: fc.constantFrom(0, 0.001),
}

const mixtralConfig: fc.Arbitrary<MoeConfig> = fc
  .record({ llama: llamaConfig, ...router })
  .map(({ llama: { family: _, ...llama }, perGroup: experts, ...rest }) => ({
    family: 'moe',
    ...llama,
    ...rest,
    qLoraRank: 0,
    kvLoraRank: 0,
    ropeHeadDim: llama.headDim,
    valueHeadDim: llama.headDim,
    ropeInterleaved: false,
    experts,
    expertMlp: llama.mlp,
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
  }))

const deepseekConfig: fc.Arbitrary<MoeConfig> = fc
  .record({
    llama: llamaConfig,
    ...router,
    qLoraRank: fc.constantFrom(0, 5),
    kvLoraRank: size(6),
    half: size(4),
    valueHeadDim: size(9),
    ropeInterleaved: fc.boolean(),
    expertMlp: size(40),
    sharedExperts: size(2),
    normalizeGates: fc.boolean(),
    gateScale: fc.constantFrom(1, 2.5),
  })
  .map(({ llama: { family: _, ...llama }, perGroup, half, ...rest }) => ({
    family: 'moe',
    ...llama,
    ...rest,
    kvHeads: llama.heads,
    ropeHeadDim: 2 * half,
    experts: rest.groups * perGroup,
    groupsPerToken: Math.ceil(rest.groups / 2),
    denseLayers: llama.layers - 1,
    moeFrequency: 1,
    scoring: 'sigmoid',
    routerBias: true,
    balance: 'sequence',
  }))

export const modelConfigs: fc.Arbitrary<ModelConfig> = fc.oneof(
  gptConfig,
  llamaConfig,
  mixtralConfig,
  deepseekConfig,
)
