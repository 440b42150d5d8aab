import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Numbers, seeds, shapes } from '../../../../test/support/randomTensors.ts'
import { distance, runOnnx } from '../../../../test/support/runOnnx.ts'
import { type Graph, GraphBuilder, interpretGraph, type Tensor, type ValueId } from '../../../graph/index.ts'
import { findRowAffines } from './affine.ts'

interface Rows {
  readonly builder: GraphBuilder
  readonly x: ValueId
  readonly columns: readonly [ValueId, ValueId, ValueId]
  readonly inputs: Map<string, Tensor>
}

function rows(shape: readonly number[], seed: number, dtype: 'f32' | 'f64' = 'f64'): Rows {
  const builder = new GraphBuilder()
  const numbers = new Numbers(seed)
  const inputs = new Map<string, Tensor>()
  const input = (name: string, of: readonly number[]): ValueId => {
    const tensor = numbers.floats(dtype, of)
    inputs.set(name, tensor)
    return builder.input(name, 'activation', tensor.type)
  }
  const column = shape.with(-1, 1)
  const columns = [input('a', column), input('b', column), input('c', column)] as const
  return { builder, x: input('x', shape), columns, inputs }
}

/** How many nodes run and how many of these were found to be affine. */
function fused(graph: Graph): { nodes: number; affine: number } {
  const { found, absorbed } = findRowAffines(graph)
  return { nodes: graph.nodes.length - absorbed.size, affine: found.size }
}

describe('affine functions of rows', () => {
  const forms: Record<string, (rows: Rows) => ValueId> = {
    '(x - a) b': ({ builder, x, columns: [a, b] }) =>
      builder.one('mul', [builder.one('sub', [x, a], {}), b], {}),
    'c + b x': ({ builder, x, columns: [, b, c] }) =>
      builder.one('add', [c, builder.one('mul', [b, x], {})], {}),
    'b (x - a) + c': ({ builder, x, columns: [a, b, c] }) =>
      builder.one('add', [builder.one('mul', [b, builder.one('sub', [x, a], {})], {}), c], {}),
  }

  it.each(Object.entries(forms))('%s is one node of the same value', async (_, form) => {
    await fc.assert(
      fc.asyncProperty(shapes(1, 3, 4), fc.integer({ min: 2, max: 5 }), seeds, async (lead, width, seed) => {
        for (const dtype of ['f32', 'f64'] as const) {
          const given = rows([...lead.slice(1), width], seed, dtype)
          given.builder.output('y', form(given))
          const graph = given.builder.build()
          expect(fused(graph)).toEqual({ nodes: 1, affine: 1 })
          const expected = interpretGraph(graph, given.inputs).get('y')!
          const actual = await runOnnx(graph, given.inputs)
          expect(actual.get('y')!.type.shape).toEqual(expected.type.shape)
          expect(distance(actual.get('y')!, expected)).toBeLessThan(dtype === 'f32' ? 2e-6 : 1e-14)
        }
      }),
      { numRuns: 15 },
    )
  })

  it('are left alone where the inner result is read elsewhere', () => {
    const given = rows([2, 3], 1)
    const { builder, x, columns } = given
    const inner = builder.one('sub', [x, columns[0]], {})
    builder.output('y', builder.one('mul', [inner, columns[1]], {}))
    builder.output('inner', inner)
    expect(fused(builder.build())).toEqual({ nodes: 2, affine: 0 })
  })

  it('are no functions of which an operand is broadcast in another way', () => {
    const given = rows([2, 3], 1)
    const { builder, x, columns } = given
    const vector = builder.one('fill', [], { shape: [3], dtype: 'f64', value: 2 })
    const scaled = builder.one('mul', [x, columns[0]], {})
    builder.output('vector', builder.one('add', [scaled, vector], {}))
    builder.output(
      'from column',
      builder.one('mul', [builder.one('sub', [columns[1], x], {}), columns[2]], {}),
    )
    expect(fused(builder.build()).affine).toBe(0)
  })
})
