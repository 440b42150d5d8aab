import { describe, expect, it } from 'vitest'
import { collectives } from '../../../test/support/layoutGraph.ts'
import { axesOf, checkModel, plainSettings } from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import type { ContextRecipe, FactoredAxes, LayoutSettings } from '../index.ts'
import { layoutForm } from '../index.ts'

const [batch, layers, heads, kvHeads, headDim] = [2, 2, 4, 2, 4]

function check(
  family: 'gpt' | 'llama',
  sequence: number,
  axes: FactoredAxes,
  options: Partial<LayoutSettings> & { readonly context: ContextRecipe },
  sharedHeads: number = kvHeads,
) {
  const ofFamily = family === 'gpt' ? '' : `,kvHeads=${sharedHeads}`
  const sizes = `vocab=40,mlp=20,hidden=${heads * headDim},heads=${heads}${ofFamily}`
  const name = `${family}:layers=${layers},context=${sequence},${sizes}`
  const model = smallModel(name, batch, sequence)
  const graph = layoutForm({ ...plainSettings, ...options }, axes, model.graph)
  return checkModel({ ...model, graph, original: model.graph }, axes, options)
}

function operations(whole: Parameters<typeof collectives>[0]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const line of collectives(whole)) {
    const operation = line.split(' ')[0]!
    counts[operation] = (counts[operation] ?? 0) + 1
  }
  return counts
}

describe('a context over ranks', () => {
  it.each([
    [2, 12, false],
    [3, 12, false],
    [4, 16, true],
    [5, 10, true],
  ])(
    'of %i: keys, values and their cotangents go once around a ring (%i tokens, zig-zag %s)',
    (ranks, sequence, zigzag) => {
      const { whole, local } = check('llama', sequence, axesOf({ context: ranks }), {
        context: 'ring',
        zigzag,
      })
      expect(operations(whole)).toEqual({ permute: layers * 4 * (ranks - 1) })
      const keys = batch * kvHeads * sequence * headDim * 8
      expect(local.wireBytes).toBe(layers * 4 * (ranks - 1) * keys)
      // Gradients of all that every rank has are terms, until the end of the step.
      expect([...new Set([...local.terms.values()].flat())]).toEqual(['context'])
      expect(local.lossTerms).toEqual(['context'])
    },
  )

  it.each(['ring', 'gather'] as const)('of 3 has learned positions as well, by %s', (context) => {
    const { local } = check('gpt', 12, axesOf({ context: 3 }), { context, zigzag: true })
    // Of which a rank has some rows.
    expect(local.terms.get('transformer.wpe.weight')).toEqual(['context'])
  })

  it.each([
    [2, false],
    [3, true],
    [4, false],
    [4, true],
  ])('of %i gathers keys and values, and adds up their cotangents (zig-zag %s)', (ranks, zigzag) => {
    const sequence = 24
    const axes = axesOf({ context: ranks })
    const { whole, local } = check('llama', sequence, axes, { context: 'gather', zigzag })
    expect(operations(whole)).toEqual({ allGather: 2 * layers, reduceScatter: 2 * layers })
    const keys = batch * kvHeads * sequence * headDim * 8
    expect(local.wireBytes).toBe(layers * 4 * (ranks - 1) * keys)
  })

  it.each([2, 4])('of %i has all tokens of some heads, by all-to-all', (ranks) => {
    const sequence = 12
    const { whole, local } = check(
      'llama',
      sequence,
      axesOf({ context: ranks }),
      { context: 'ulysses' },
      heads,
    )
    // Of queries, keys, values and results there and back, and of the sums of what results were worth.
    expect(operations(whole)).toEqual({ allToAll: 9 * layers })
    const values = batch * heads * sequence * headDim * 8
    const sums = batch * heads * sequence * 8
    expect(local.wireBytes).toBe(layers * ((ranks - 1) / ranks) * (8 * values + sums))
  })

  it('of 4 has each of 2 kv heads on two ranks', () => {
    const axes = axesOf({ 'context.kv': 2, 'context.group': 2 }, { context: ['context.kv', 'context.group'] })
    check('llama', 12, axes, { context: 'ulysses' })
  })

  it.each(['ring', 'gather', 'ulysses'] as const)(
    'by %s, with heads and the stream cut over tensor',
    (context) => {
      const axes = axesOf({ context: 2, tensor: 2 })
      const options = { tensor: 'megatron', sequence: true, context, zigzag: context !== 'ulysses' } as const
      check('llama', 16, axes, options, heads)
      check('gpt', 16, axes, { ...options, sequence: false })
    },
  )
})
