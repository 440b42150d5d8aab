import { describe, expect, it } from 'vitest'
import { inputsOf, largestDifference, lossAndGradients } from '../../test/support/modelFixture.ts'
import { interpretGraph } from '../graph/index.ts'
import gpt2 from './fixtures/gpt2.json' with { type: 'json' }
import { gptModel } from './gpt.ts'
import type { GptConfig } from './types.ts'

const config: GptConfig = {
  family: 'gpt',
  layers: 2,
  hidden: 8,
  heads: 2,
  mlp: 20,
  context: 6,
  vocab: 11,
  tied: true,
  epsilon: 1e-5,
  initialStd: 0.02,
}
const parameters: Readonly<Record<string, { readonly values: readonly number[] }>> = gpt2.parameters

/** Weights of the tied fixture; the head of an untied model is a copy of the embedding. */
function weights(name: string): readonly number[] {
  return parameters[name === 'lm_head.weight' ? 'transformer.wte.weight' : name]!.values
}

describe('gpt', () => {
  it('splits the gradient of a tied embedding between embedding and head when untied', () => {
    const tied = gptModel(config)
    const untied = gptModel({ ...config, tied: false })
    const whole = lossAndGradients(tied, inputsOf(tied, gpt2, weights))
    const parts = lossAndGradients(untied, inputsOf(untied, gpt2, weights))
    expect(parts.loss).toBeCloseTo(whole.loss, 12)
    const embedding = parts.gradients.get('transformer.wte.weight')!
    const head = parts.gradients.get('lm_head.weight')!
    const sum = Array.from(embedding, (value, index) => value + head[index]!)
    expect(largestDifference(sum, whole.gradients.get('transformer.wte.weight')!)).toBeLessThan(1e-12)
    expect(largestDifference(embedding, sum)).toBeGreaterThan(1e-3)
  })

  it('adds up over samples, since losses are summed', () => {
    const model = gptModel(config)
    const losses = [0, 1].map((sample) => {
      const data = { tokens: [gpt2.tokens[sample]!], labels: [gpt2.labels[sample]!] }
      return lossAndGradients(model, inputsOf(model, data, weights)).loss
    })
    expect(losses[0]! + losses[1]!).toBeCloseTo(gpt2.loss, 11)
  })

  it('lets no position see a later token', () => {
    const model = gptModel(config)
    const graph = model.build({ batch: 1, sequence: 5, dtype: 'f64' })
    const labels = [[3, 8, 1, -1, -1]]
    const lossOf = (tokens: number[][]): number =>
      interpretGraph(graph, inputsOf(model, { tokens, labels }, weights)).get('loss')!.data[0]!
    expect(lossOf([[6, 3, 2, 4, 0]])).toBe(lossOf([[6, 3, 2, 9, 10]]))
    expect(lossOf([[6, 3, 2, 4, 0]])).not.toBe(lossOf([[6, 3, 5, 4, 0]]))
  })

  it('declares tokens, labels and every parameter, and marks its blocks', () => {
    const model = gptModel({ ...config, tied: false })
    const graph = model.build({ batch: 2, sequence: 5, dtype: 'f32' })
    expect(graph.inputs.map((input) => input.name)).toEqual([
      'tokens',
      'labels',
      ...model.parameters.map((parameter) => parameter.name),
    ])
    expect(model.blocks).toEqual(['embed', 'h.0', 'h.1', 'head'])
    expect(graph.blocks).toEqual(model.blocks)
    expect(new Set(graph.nodes.map((node) => node.block))).toEqual(new Set([0, 1, 2, 3]))
  })

  it('passes one value of [batch, sequence, embed] from block to block', () => {
    const graph = gptModel(config).build({ batch: 3, sequence: 5, dtype: 'f32' })
    const home = new Map(graph.nodes.flatMap((node) => node.outputs.map((output) => [output, node.block])))
    const crossing = new Set(
      graph.nodes.flatMap((node) =>
        node.inputs.filter((input) => home.has(input) && home.get(input) !== node.block),
      ),
    )
    expect(crossing.size).toBe(3)
    for (const value of crossing)
      expect(graph.values[value]!.type).toEqual({
        dtype: 'f32',
        shape: [3, 5, 8],
        axes: ['batch', 'sequence', 'embed'],
      })
  })

  it('multiplies by weights in two dims only', () => {
    const graph = gptModel(config).build({ batch: 3, sequence: 6, dtype: 'f32' })
    const products = graph.nodes.filter((node) => node.op === 'matmul')
    expect(products).toHaveLength(2 * 4 + 1)
    for (const product of products)
      for (const input of product.inputs) expect(graph.values[input]!.type.shape).toHaveLength(2)
  })

  it('starts as GPT-2 does', () => {
    const model = gptModel({ ...config, layers: 8 })
    const initial = new Map(model.parameters.map((parameter) => [parameter.name, parameter]))
    const std = (name: string): unknown => initial.get(`transformer.${name}`)!.initial
    expect(std('wte.weight')).toEqual({ kind: 'normal', std: 0.02 })
    expect(std('h.7.attn.c_attn.weight')).toEqual({ kind: 'normal', std: 0.02 })
    // Two branches of eight layers: 0.02 / sqrt(16).
    expect(std('h.7.attn.c_proj.weight')).toEqual({ kind: 'normal', std: 0.005 })
    expect(std('h.7.mlp.c_proj.weight')).toEqual({ kind: 'normal', std: 0.005 })
    expect(std('h.7.mlp.c_proj.bias')).toEqual({ kind: 'zeros' })
    expect(std('h.7.ln_2.weight')).toEqual({ kind: 'ones' })
    expect(std('ln_f.bias')).toEqual({ kind: 'zeros' })
  })

  it('decays matrices and embeddings, not biases and norms', () => {
    const decayed = gptModel({ ...config, layers: 1 }).parameters.filter((parameter) => parameter.decay)
    expect(decayed.map((parameter) => parameter.name)).toEqual([
      'transformer.wte.weight',
      'transformer.wpe.weight',
      'transformer.h.0.attn.c_attn.weight',
      'transformer.h.0.attn.c_proj.weight',
      'transformer.h.0.mlp.c_fc.weight',
      'transformer.h.0.mlp.c_proj.weight',
    ])
  })

  it('refuses sequences beyond its context, and empty batches', () => {
    const model = gptModel(config, { name: 'tiny' })
    expect(() => model.build({ batch: 1, sequence: 7, dtype: 'f32' })).toThrow(
      expect.objectContaining({
        code: 'MODEL_SEQUENCE',
        message: 'sequences of 7 tokens do not fit tiny, whose context is 6',
      }),
    )
    expect(() => model.build({ batch: 0, sequence: 5, dtype: 'f32' })).toThrow(
      expect.objectContaining({ code: 'MODEL_BATCH' }),
    )
  })

  it('refuses sizes that no model has', () => {
    const refused = (change: Partial<GptConfig>): unknown => {
      try {
        return gptModel({ ...config, ...change })
      } catch (error) {
        return error
      }
    }
    expect(refused({ hidden: 10, heads: 4 })).toMatchObject({
      code: 'MODEL_HEADS',
      message: 'hidden 10 is not divisible by heads 4',
      hint: 'hidden 8 or 12 would work, or heads 2 or 5',
    })
    expect(refused({ hidden: 2 ** 31 - 1, heads: 2 })).toMatchObject({
      hint: 'hidden 2147483646 would work, or heads 1 or 2147483647',
    })
    expect(refused({ layers: 0 })).toMatchObject({ code: 'MODEL_SIZE' })
    expect(refused({ layers: 1e6 })).toMatchObject({ code: 'MODEL_SIZE' })
    expect(refused({ vocab: 2.5 })).toMatchObject({ code: 'MODEL_SIZE' })
    expect(refused({ hidden: 2 ** 30 })).toMatchObject({ code: 'MODEL_TOO_LARGE' })
    expect(refused({ epsilon: Number.NaN })).toMatchObject({ code: 'MODEL_NUMBER' })
    expect(refused({ initialStd: 0 })).toMatchObject({ family: 'gpt' })
  })
})
