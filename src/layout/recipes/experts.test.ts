import { describe, expect, it } from 'vitest'
import { collectives } from '../../../test/support/layoutGraph.ts'
import { axesOf, checkModel } from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'

const [layers, hidden, experts, sequence, samples] = [2, 16, 4, 8, 4]
const sizes = `layers=${layers},hidden=${hidden},heads=4,kvHeads=4,mlp=24,vocab=32,context=${sequence}`
const routed = `moe:${sizes},experts=${experts},topk=2,expertMlp=64`
const model = smallModel(routed, samples, sequence)

describe('experts over ranks', () => {
  it.each([2, 4])('of %i data ranks: each has some, and tokens go there and back by all-to-all', (ranks) => {
    const axes = axesOf({ 'data.expert': ranks }, { data: ['data.expert'], expert: ['data.expert'] })
    const { whole, local } = checkModel(model, axes, {})
    // There and back, forward and backward.
    expect(collectives(whole)).toHaveLength(4 * layers)
    const slots = samples * experts * sequence * hidden
    expect(local.wireBytes).toBe(4 * layers * ((ranks - 1) / ranks) * slots * 8)
    // What all ranks have is added up over them at the end of the step; of its experts a rank has the whole gradient.
    const prefix = 'model.layers.1.block_sparse_moe'
    expect(local.terms.get(`${prefix}.gate.weight`)).toEqual(['data.expert'])
    expect(local.terms.get(`${prefix}.experts.w1.weight`)).toEqual([])
  })

  it('cut over tensor as well: their terms are added up as tokens', () => {
    const axes = axesOf(
      { 'data.expert': 2, tensor: 2 },
      { data: ['data.expert'], expert: ['data.expert'], expertTensor: ['tensor'] },
    )
    const { whole } = checkModel(model, axes, { tensor: 'megatron' })
    const moved = collectives(whole)
    expect(moved.filter((line) => line.includes('allToAll'))).toHaveLength(4 * layers)
    // Of attention and experts both ways, of gates, of embedding and head, and a maximum and a sum for the loss.
    expect(moved.filter((line) => line.includes('allReduce'))).toHaveLength(4 * layers + layers + 2 + 2)
    expect(moved).toHaveLength(4 * layers + 5 * layers + 4)
  })

  // Axes of experts that lie across those of what is dense, in other orders, and with the stream or the context cut.
  it.each([
    ['data and tensor', { 'data.expert': 2, tensor: 2 }, ['data.expert', 'tensor'], [], false],
    ['data and tensor, stream cut', { 'data.expert': 2, tensor: 2 }, ['data.expert', 'tensor'], [], true],
    [
      'data, of parts over tensor, stream cut',
      { 'data.expert': 2, tensor: 2 },
      ['data.expert'],
      ['tensor'],
      true,
    ],
    ['context', { context: 2, tensor: 2 }, ['context'], ['tensor'], false],
  ] as const)('over %s', (_, mesh, expert, expertTensor, sequenceCut) => {
    const data = Object.keys(mesh).filter((axis) => axis.startsWith('data'))
    const axes = axesOf(mesh, { data, expert, expertTensor })
    const context = 'context' in mesh ? 'ulysses' : null
    checkModel(model, axes, { tensor: 'megatron', sequence: sequenceCut, context })
  })

  it('with latent attention, a shared expert, groups and a bias, as DeepSeek-V3 has them', () => {
    const latent = 'qLoraRank=8,kvLoraRank=8,ropeHeadDim=2,valueHeadDim=4,headDim=4'
    const router =
      'scoring=sigmoid,normalizeGates=true,routerBias=true,groups=2,groupsPerToken=1,sharedExperts=1'
    const deepseek = smallModel(
      `moe:${sizes},experts=${experts},topk=2,expertMlp=8,denseLayers=1,${latent},${router},balance=sequence,balanceWeight=0.1`,
      samples,
      sequence,
    )
    const axes = axesOf(
      { 'data.expert': 2, tensor: 2 },
      { data: ['data.expert'], expert: ['data.expert'], expertTensor: ['tensor'] },
    )
    const { local } = checkModel(deepseek, axes, { tensor: 'megatron' })
    expect(local.wireBytes).toBeGreaterThan(0)
  })
})
