import { describe, expect, it } from 'vitest'
import { inputsOf, lossAndGradients } from '../../test/support/modelFixture.ts'
import { type NaiveNames, naiveMoe } from '../../test/support/naiveMoe.ts'
import { Numbers } from '../../test/support/randomTensors.ts'
import { graphCost, interpretGraph } from '../graph/index.ts'
import { expertCapacity } from './router.ts'
import { modelFromShortName } from './shortName.ts'
import type { Model, MoeConfig } from './types.ts'

const tiny = 'layers=2,hidden=8,heads=4,kvHeads=2,mlp=10,context=16,vocab=11'
const mixtralNames: NaiveNames = { block: 'block_sparse_moe', gate: 'w1', up: 'w3', down: 'w2' }
const deepseekNames: NaiveNames = { block: 'mlp', gate: 'gate_proj', up: 'up_proj', down: 'down_proj' }

/** What is to be computed: model, names of its experts' weights, and about which share of choices is dropped. */
const cases: readonly (readonly [string, NaiveNames, boolean])[] = [
  ['experts=4,topk=2,balanceWeight=0.3,zLossWeight=0.2', mixtralNames, false],
  ['experts=4,topk=2,capacityFactor=0.75,balanceWeight=0.3', mixtralNames, true],
  ['experts=6,topk=1,normalizeGates=false,capacityFactor=1,balance=sequence', deepseekNames, true],
  [
    'experts=6,topk=2,groups=3,groupsPerToken=2,normalizeGates=false,expertMlp=5,gateScale=3,moeFrequency=2',
    deepseekNames,
    false,
  ],
  [
    'experts=6,topk=3,groups=3,groupsPerToken=2,scoring=sigmoid,routerBias=true,sharedExperts=2,expertMlp=3,' +
      'denseLayers=1,gateScale=2.5,balance=sequence,balanceWeight=0.3,capacityFactor=1',
    deepseekNames,
    true,
  ],
  ['experts=4,topk=4,scoring=sigmoid,balanceWeight=0,zLossWeight=0.1', deepseekNames, false],
]

/** Weights large enough that routers have preferences. */
function someWeights(model: Model, seed: number): Map<string, Float64Array> {
  const numbers = new Numbers(seed)
  return new Map(
    model.parameters.map(({ name, shape }) => [
      name,
      numbers.floats('f64', shape, -0.8, 0.8).data as Float64Array,
    ]),
  )
}

function someData(batch: number, sequence: number, vocab: number, seed: number) {
  const numbers = new Numbers(seed)
  const rows = (low: number): number[][] =>
    Array.from({ length: batch }, () =>
      Array.from({ length: sequence }, () => numbers.integer(low, vocab - 1)),
    )
  return { tokens: rows(0), labels: rows(-1) }
}

function lossOf(
  model: Model,
  data: { readonly tokens: number[][]; readonly labels: number[][] },
  weights: ReadonlyMap<string, Float64Array>,
): number {
  const [batch, sequence] = [data.tokens.length, data.tokens[0]!.length]
  const graph = model.build({ batch, sequence, dtype: 'f64' })
  return interpretGraph(
    graph,
    inputsOf(model, data, (name) => weights.get(name)!),
  ).get('loss')!.data[0]!
}

describe.each(cases)('moe:%s', (keys, names, drops) => {
  const model = modelFromShortName(`moe:${tiny},${keys}`)
  const config = model.config as MoeConfig
  const weights = someWeights(model, 3)
  const data = someData(3, 9, 11, 5)

  it('has the loss of a loop over tokens and experts', () => {
    const capacity = expertCapacity(config, 9)
    const each = data.tokens.map((tokens, sample) =>
      naiveMoe(
        config,
        names,
        (name) => weights.get(name)!,
        { tokens, labels: data.labels[sample]! },
        capacity,
      ),
    )
    expect(each.some(({ dropped }) => dropped > 0)).toBe(drops)
    const expected = each.reduce((sum, { loss }) => sum + loss, 0)
    expect(Math.abs(lossOf(model, data, weights) / expected - 1)).toBeLessThan(1e-12)
  })

  it('has the sum of the losses of its samples', () => {
    const alone = data.tokens.map((tokens, sample) =>
      lossOf(model, { tokens: [tokens], labels: [data.labels[sample]!] }, weights),
    )
    const together = lossOf(model, data, weights)
    expect(Math.abs(alone.reduce((sum, loss) => sum + loss, 0) - together) / Math.abs(together)).toBeLessThan(
      1e-13,
    )
  })

  it('has the gradients of finite differences', () => {
    const { gradients } = lossAndGradients(
      model,
      inputsOf(model, data, (name) => weights.get(name)!),
    )
    const numbers = new Numbers(7)
    const step = 1e-6
    for (const [name, values] of weights) {
      const element = numbers.integer(0, values.length - 1)
      const at = (moved: number): number =>
        lossOf(model, data, new Map([...weights, [name, values.with(element, values[element]! + moved)]]))
      const expected = (at(step) - at(-step)) / (2 * step)
      const scale = Math.max(1, Math.abs(expected))
      expect(Math.abs(gradients.get(name)![element]! - expected) / scale, name).toBeLessThan(1e-6)
    }
  })
})

describe('the graph of a mixture of experts', () => {
  const build = (keys: string) =>
    modelFromShortName(`moe:${tiny},${keys}`).build({ batch: 2, sequence: 8, dtype: 'f32' })

  it('multiplies as many rows as experts have slots', () => {
    const base = { experts: 4, topk: 2 }
    const flops = (factor: number): number =>
      graphCost(build(`experts=4,topk=2,expertMlp=6,capacityFactor=${factor}`)).flops
    // Three products of 8 x 6 a slot and layer, in two layers of two samples; some elementwise work beside.
    const products = (slots: number): number => 2 * 2 * (slots * base.experts) * 3 * 2 * 8 * 6
    const difference = flops(0) - flops(1)
    expect(difference).toBeGreaterThanOrEqual(products(8 - 4))
    expect(difference).toBeLessThan(1.2 * products(8 - 4))
  })

  it('keeps experts, their widths and the stream apart by name', () => {
    const graph = build('experts=4,topk=2,expertMlp=6')
    const products = graph.nodes.filter(
      ({ op, outputs }) => op === 'matmul' && graph.values[outputs[0]!]!.type.shape.length === 3,
    )
    expect(products.map(({ outputs }) => graph.values[outputs[0]!]!.type.axes)).toEqual(
      [0, 1].flatMap(() => [
        ['experts', 'tokens', 'expertMlp'],
        ['experts', 'tokens', 'expertMlp'],
        ['experts', 'tokens', 'embed'],
      ]),
    )
    expect(graph.blocks).toEqual(['embed', 'layers.0', 'layers.1', 'head'])
  })

  it('gives no slot more than once, and a slot for a share of the tokens', () => {
    const { config } = modelFromShortName(`moe:${tiny},experts=4,topk=2,capacityFactor=1.25`)
    // 1.25 x 12 x 2 / 4 = 7.5
    expect(expertCapacity(config as MoeConfig, 12)).toBe(8)
    expect(expertCapacity({ ...(config as MoeConfig), capacityFactor: 9 }, 12)).toBe(12)
    expect(expertCapacity({ ...(config as MoeConfig), capacityFactor: 0 }, 12)).toBe(12)
    // 1.1 x 10 x 2 / 2 is 11 but for rounding.
    expect(expertCapacity({ ...(config as MoeConfig), capacityFactor: 1.1, experts: 2 }, 100)).toBe(100)
    expect(expertCapacity({ ...(config as MoeConfig), capacityFactor: 1.1, experts: 22 }, 100)).toBe(10)
  })
})

describe('what cannot be', () => {
  it.each([
    ['experts=4,topk=5', 'MODEL_TOPK', 'topk is 5 of 4 experts', 'topk 1 to 4 would work, or experts 5'],
    [
      'experts=8,groups=3',
      'MODEL_EXPERT_GROUPS',
      'experts 8 is not divisible by groups 3',
      'experts 6 or 9 would work, or groups 2 or 4',
    ],
    [
      'experts=8,groups=4,groupsPerToken=5',
      'MODEL_EXPERT_GROUPS',
      'groupsPerToken is 5 of 4 groups',
      'groupsPerToken 1 to 4 would work, or groups 5',
    ],
    [
      'experts=8,groups=4,groupsPerToken=1,topk=3',
      'MODEL_TOPK',
      'topk is 3, but 1 of 4 groups hold 2 experts',
      'topk 1 to 2 would work, or groupsPerToken 2',
    ],
    [
      'experts=4,groups=4,scoring=sigmoid',
      'MODEL_EXPERT_GROUPS',
      '4 groups of 4 experts have 1 each: a group is as good as its two best',
      'groups 2 would work, or experts 8',
    ],
    [
      'routerBias=true',
      'MODEL_ROUTER',
      'routerBias is true with softmax scores',
      'scoring=sigmoid would work, or routerBias=false',
    ],
    [
      'denseLayers=2',
      'MODEL_EXPERT_LAYERS',
      'none of 2 layers has experts with denseLayers 2 and moeFrequency 1',
      'denseLayers 0 to 1 would work, or the llama family',
    ],
    [
      'kvLoraRank=4',
      'MODEL_KV_HEADS',
      'kvHeads is 2 of 4 heads: with latent attention every head has its own keys and values',
      'kvHeads 4 would work, or kvLoraRank 0',
    ],
    [
      'valueHeadDim=3',
      'MODEL_LATENT',
      'valueHeadDim is 3 without latent attention (kvLoraRank 0), where it is headDim 2',
      'valueHeadDim 2 would work, or a kvLoraRank above 0',
    ],
    [
      'qLoraRank=3',
      'MODEL_LATENT',
      'qLoraRank is 3 without latent attention (kvLoraRank 0)',
      'qLoraRank 0 would work, or a kvLoraRank above 0',
    ],
    [
      'ropeInterleaved=true',
      'MODEL_LATENT',
      'ropeInterleaved is true without latent attention (kvLoraRank 0)',
      'ropeInterleaved=false would work, or a kvLoraRank above 0',
    ],
    [
      'kvLoraRank=4,ropeHeadDim=3,hidden=12',
      'MODEL_HEAD_DIM',
      'ropeHeadDim is 3: rotary positions turn pairs',
      'ropeHeadDim 2 or 4 would work',
    ],
  ])('%s', (keys, code, message, hint) => {
    const given = new Map(
      [...tiny.split(','), ...keys.split(',')].map((pair) => pair.split('=') as [string, string]),
    )
    const name = `moe:${[...given].map((pair) => pair.join('=')).join(',')}`
    expect(() => modelFromShortName(name)).toThrow(expect.objectContaining({ code, message, hint }))
  })

  it('more experts than tokens', () => {
    const model = modelFromShortName(`moe:${tiny},experts=8`)
    expect(() => model.build({ batch: 4, sequence: 7, dtype: 'f32' })).toThrow(
      expect.objectContaining({
        code: 'MODEL_EXPERTS',
        hint: 'use sequences of at least 8 tokens, or at most 7 experts',
      }),
    )
  })
})
