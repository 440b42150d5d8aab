import { describe, expect, it } from 'vitest'
import { tinyGpt } from '../../test/support/tinyGpt.ts'
import { blockCosts, graphCost } from './cost.ts'

const batch = 2
const sequence = 8
const hidden = 64
const vocabulary = 50
const layers = 2
const { graph } = tinyGpt({ batch, sequence, hidden, heads: 4, vocabulary, layers, dtype: 'f32' })

describe('costs of a GPT forward', () => {
  it('count two flops for each weight and token in linear layers, and the scores of attention', () => {
    // Narayanan et al., "Efficient large-scale language model training on GPU clusters" (SC 2021), appendix: products
    // of a layer take 24 B s h^2 + 4 B s^2 h flops, those of the logits 2 B s h V. Other ops add a few percent.
    const layer = 24 * batch * sequence * hidden ** 2 + 4 * batch * sequence ** 2 * hidden
    const logits = 2 * batch * sequence * hidden * vocabulary
    const { blocks } = blockCosts(graph)
    for (const index of [1, 2]) {
      expect(blocks[index]!.flops).toBeGreaterThan(layer)
      expect(blocks[index]!.flops).toBeLessThan(1.06 * layer)
    }
    expect(blocks[3]!.flops).toBeGreaterThan(logits)
    expect(blocks[3]!.flops).toBeLessThan(1.3 * logits)
  })

  it('read every weight and more', () => {
    const weights = 4 * (12 * hidden ** 2 + 13 * hidden)
    expect(blockCosts(graph).blocks[1]!.bytes).toBeGreaterThan(weights)
  })

  it('add up to those of the graph', () => {
    const { blocks, unassigned } = blockCosts(graph)
    const all = graphCost(graph)
    expect(all.flops).toBe([...blocks, unassigned].reduce((sum, cost) => sum + cost.flops, 0))
    expect(all.bytes).toBe([...blocks, unassigned].reduce((sum, cost) => sum + cost.bytes, 0))
  })
})
