import { describe, expect, it } from 'vitest'
import { smallModel } from '../../../test/support/smallModels.ts'
import { GraphBuilder, type ValueId } from '../../graph/index.ts'
import { factorGraph } from './factorGraph.ts'

const f64 = (...shape: number[]) => ({ dtype: 'f64', shape }) as const

function factorsOf(build: (builder: GraphBuilder) => ValueId): number[][][] {
  const builder = new GraphBuilder()
  builder.output('y', build(builder))
  const graph = builder.build({ keepInputs: true })
  return factorGraph(graph).factors.map((dims) => dims.map((parts) => [...parts]))
}

describe('dims by their factors', () => {
  it('are divided where a reshape divides or joins them, on both sides of it and beyond', () => {
    // x is never reshaped itself, but goes with what is.
    const [x, y] = factorsOf((builder) => {
      const [left, right] = ['x', 'y'].map((name) => builder.input(name, 'activation', f64(24, 10)))
      const sum = builder.one('add', [left!, right!], {})
      return builder.one('reshape', [sum], { shape: [4, 6, 5, 2] })
    })
    expect([x, y]).toEqual([
      [
        [4, 6],
        [5, 2],
      ],
      [
        [4, 6],
        [5, 2],
      ],
    ])
  })

  it('nest several divisions of one dim, and keep the first of two that do not nest', () => {
    const nested = factorsOf((builder) => {
      const x = builder.input('x', 'activation', f64(24))
      const two = builder.one('reshape', [x], { shape: [2, 12] })
      const six = builder.one('reshape', [x], { shape: [6, 4] })
      return builder.one(
        'reshape',
        [builder.one('add', [two, builder.one('reshape', [six], { shape: [2, 12] })], {})],
        { shape: [24] },
      )
    })
    expect(nested[0]).toEqual([[2, 3, 4]])
    const crossing = factorsOf((builder) => {
      const x = builder.input('x', 'activation', f64(24))
      const four = builder.one('reshape', [x], { shape: [4, 6] })
      const six = builder.one('reshape', [x], { shape: [6, 4] })
      return builder.one('concat', [four, builder.one('transpose', [six], { permutation: [1, 0] })], {
        dim: 0,
      })
    })
    expect(crossing[0]!.flat().reduce((product, size) => product * size, 1)).toBe(24)
    expect([[[4, 6]], [[6, 4]]]).toContainEqual(crossing[0])
  })

  it('see parts of a split as an inner factor of the whole', () => {
    const [x] = factorsOf((builder) => {
      const whole = builder.input('x', 'activation', f64(5, 24))
      const [first] = builder.op('split', [whole], { dim: 1, sizes: [8, 8, 8] })
      return builder.one('reshape', [first!], { shape: [5, 4, 2] })
    })
    expect(x).toEqual([[5], [3, 4, 2]])
  })

  it("name the parts of gpt's fused projection and of llama's shared heads", () => {
    const namesOf = (model: string, parameter: string): [readonly number[], readonly string[]] => {
      const { graph } = smallModel(model, 2, 6)
      const { types } = factorGraph(graph)
      const { shape, axes } = types[graph.inputs.find(({ name }) => name === parameter)!.value]!
      return [shape, axes!]
    }
    expect(
      namesOf(
        'gpt:layers=1,hidden=12,heads=3,mlp=20,context=6,vocab=9',
        'transformer.h.0.attn.c_attn.weight',
      ),
    ).toEqual([
      [12, 3, 3, 4],
      ['embed', '', 'heads', 'headDim'],
    ])
    expect(
      namesOf(
        'llama:layers=1,hidden=24,heads=6,kvHeads=2,mlp=20,context=6,vocab=9',
        'model.layers.0.self_attn.q_proj.weight',
      ),
    ).toEqual([
      // Rotary positions turn halves of a head.
      [2, 3, 2, 2, 24],
      ['kvHeads', 'heads.1', 'headDim.0', 'headDim', 'embed'],
    ])
  })
})
