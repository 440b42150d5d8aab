import { describe, expect, it } from 'vitest'
import { collectives } from '../../../test/support/layoutGraph.ts'
import { checkLayer, modelLayers } from '../../../test/support/layoutLayers.ts'
import {
  axesOf,
  checkModel,
  largestElements,
  plainSettings,
  wholeDerivative,
} from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import { byteSize } from '../../graph/index.ts'
import { type LocalGraph, layoutWants, localDerivative } from '../index.ts'

const [batch, sequence, layers] = [2, 12, 2]
const tokens = batch * sequence

function modelOf(family: 'gpt' | 'llama', sizes: string, samples: number = batch) {
  return smallModel(`${family}:layers=${layers},context=${sequence},${sizes}`, samples, sequence)
}

/** How often each collective is made that moves more than a number a token. */
function countsOf(whole: LocalGraph): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const line of collectives(whole)) {
    const [, operation, sizes] = /^(\w+) of ([\d x]+) over/.exec(line)!
    const elements = sizes!.split(' x ').reduce((product, size) => product * Number(size), 1)
    // Per token: a maximum and a sum.
    if (elements <= tokens) continue
    counts[operation!] = (counts[operation!] ?? 0) + 1
  }
  return counts
}

describe('layers over a tensor axis', () => {
  const cases = [2, 3].flatMap((ranks) =>
    [false, true].flatMap((cut) => Object.keys(modelLayers).map((name) => [ranks, cut, name] as const)),
  )
  it.each(cases)('of %i ranks, stream cut: %s: %s', (ranks, cut, name) => {
    // All sizes differ, so that exchanged dims are seen.
    const sizes = {
      batch: 2,
      sequence: 5 * ranks,
      heads: 2 * ranks,
      hidden: 8 * ranks,
      mlp: 3 * ranks,
      vocab: 7 * ranks,
    }
    checkLayer(modelLayers[name]!, sizes, axesOf({ tensor: ranks }), { tensor: 'megatron', sequence: cut })
  })
})

describe('models over a tensor axis as Megatron-LM has it', () => {
  const megatron = { tensor: 'megatron' } as const

  const cases = [2, 3, 4].flatMap((parts) => [false, true].map((cut) => [parts, cut] as const))
  it.each(cases)('llama on %i ranks, stream cut: %s', (parts, cut) => {
    const heads = parts === 3 ? 6 : 8
    const [hidden, vocabulary] = [4 * heads, 144]
    const model = modelOf(
      'llama',
      `hidden=${hidden},heads=${heads},kvHeads=${heads / 2},mlp=96,vocab=${vocabulary}`,
    )
    const { whole, local } = checkModel(model, axesOf({ tensor: parts }), { ...megatron, sequence: cut })
    // No rank holds logits of the whole vocabulary.
    expect(largestElements(whole)).toBeLessThan(tokens * vocabulary)

    // Two a layer each way (Shoeybi et al. 2019, figure 4), and one each for the embedding and for the head's derivative.
    const count = 4 * layers + 2
    const counted = countsOf(whole)
    // With a cut stream what the embedding's rows belong to is gathered once more, for its gradient.
    expect(counted).toEqual(cut ? { reduceScatter: count, allGather: count + 1 } : { allReduce: count })
    // A ring moves as much either way (Korthikanti et al. 2022, section 4.2.2): 2 (n - 1) b s h.
    const bytes = count * 2 * (parts - 1) * tokens * hidden * 8
    if (cut) expect(local.wireBytes).toBeGreaterThan(bytes)
    // Of the rest two numbers a token for the loss.
    else expect(local.wireBytes - bytes).toBe(2 * (parts - 1) * 2 * tokens * 8)
  })

  it.each([2, 4])('hold full / shards of every matrix on each of %i ranks', (parts) => {
    const model = modelOf('llama', 'hidden=32,heads=8,kvHeads=4,mlp=64,vocab=96')
    const { whole, local } = checkModel(model, axesOf({ tensor: parts }), megatron)
    const perLayer = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64
    const expected = 8 * ((layers * perLayer + 2 * 96 * 32) / parts + (2 * layers + 1) * 32)
    const { joint } = local
    const bytesOf = (of: readonly { readonly value: number }[]): number =>
      of.reduce((sum, { value }) => sum + byteSize(joint.values[value]!.type), 0)
    expect(bytesOf(whole.graph.inputs.filter(({ kind }) => kind === 'parameter'))).toBe(expected)
    const dense = local.gradients.flatMap((gradient) => (gradient.kind === 'dense' ? [gradient.output] : []))
    const table = (96 * 32 * 8) / parts
    expect(bytesOf(joint.outputs.filter(({ name }) => dense.includes(name)))).toBe(expected - table)
  })

  it.each([false, true])('gpt with a tied table and fused heads, stream cut: %s', (cut) => {
    const model = modelOf('gpt', 'hidden=16,heads=4,mlp=48,vocab=72')
    const { whole, local } = checkModel(model, axesOf({ tensor: 2 }), { ...megatron, sequence: cut })
    expect(largestElements(whole)).toBeLessThan(tokens * 72)
    if (!cut) expect(countsOf(whole)).toEqual({ allReduce: 4 * layers + 2 })
    const { layout, type } = local.placed.get('transformer.h.0.attn.c_attn.weight')!
    expect(type.shape).toEqual([16, 3, 4, 4])
    expect(layout.dims).toEqual([[], [], ['tensor'], []])
    // With a cut stream, norms and what is added to it see part of the tokens; terms are added at the end of the step.
    expect(local.terms.get('transformer.h.0.ln_1.weight')).toEqual(cut ? ['tensor'] : [])
  })

  it('llama with fewer kv heads than ranks, of which two have the same', () => {
    const model = modelOf('llama', 'hidden=32,heads=8,kvHeads=2,mlp=48,vocab=72')
    const axes = axesOf({ 'tensor.kv': 2, 'tensor.group': 2 }, { tensor: ['tensor.kv', 'tensor.group'] })
    const { local, whole } = checkModel(model, axes, megatron)
    const { layout } = local.placed.get('model.layers.0.self_attn.k_proj.weight')!
    expect(layout.dims.flat()).toEqual(['tensor.kv'])
    expect(local.terms.get('model.layers.0.self_attn.k_proj.weight')).toEqual(['tensor.group'])
    expect(countsOf(whole)).toEqual({ allReduce: 4 * layers + 2 })
  })

  it('llama with one kv head on all ranks', () => {
    const model = modelOf('llama', 'hidden=16,heads=4,kvHeads=1,mlp=40,vocab=48')
    const axes = axesOf({ tensor: 2 }, { 'tensor.kv': [], 'tensor.group': ['tensor'] })
    const { local } = checkModel(model, axes, megatron)
    expect(local.terms.get('model.layers.0.self_attn.k_proj.weight')).toEqual(['tensor'])
  })

  it('refuse a sequence that the axis does not divide, and say of what', () => {
    const { graph } = smallModel('llama:layers=1,hidden=16,heads=4,kvHeads=4,mlp=40,vocab=48,context=6', 2, 6)
    const derivative = wholeDerivative(graph)
    const axes = axesOf({ tensor: 4 })
    const settings = { ...plainSettings, ...megatron, sequence: true }
    expect(() =>
      localDerivative(derivative, axes.mesh, layoutWants(settings, axes, derivative.joint)),
    ).toThrow(
      expect.objectContaining({ code: 'LAYOUT_UNEVEN', message: expect.stringContaining('sequence 6') }),
    )
  })
})
