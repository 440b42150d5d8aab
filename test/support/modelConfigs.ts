/** configs of models that can be, small but of any proportion. */
import fc from 'fast-check'
import type { GptConfig, LlamaConfig, ModelConfig, RopeScaling } from '../../src/models/index.ts'

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

export const modelConfigs: fc.Arbitrary<ModelConfig> = fc.oneof(gptConfig, llamaConfig)
