import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { randomModels } from '../../test/support/randomGraphs.ts'
import { tinyGpt } from '../../test/support/tinyGpt.ts'
import { GraphBuilder } from './builder.ts'
import { checkGraph } from './check.ts'
import { interpretGraph } from './interpret.ts'
import { splitStages } from './stages.ts'
import type { Graph, ValueId } from './types.ts'

const type = { dtype: 'f64', shape: [2] } as const

/** Four blocks; the result of the first feeds the second and, over the third, the fourth. */
function skipping(): Graph {
  const builder = new GraphBuilder()
  const x = builder.input('tokens', 'activation', type)
  const block = (name: string, of: readonly ValueId[]): ValueId => {
    builder.startBlock(name)
    const weight = builder.input(`${name}.weight`, 'parameter', type)
    const joined = of.reduce((sum, value) => builder.one('add', [sum, value], {}))
    return builder.one('tanh', [builder.one('mul', [joined, weight], {})], {}, name)
  }
  const a = block('a', [x])
  const b = block('b', [a])
  const c = block('c', [b])
  const d = block('d', [c, a])
  builder.output('loss', builder.one('reduceSum', [d], { dims: [0], keepDims: false }))
  return builder.build()
}

describe('splitStages', () => {
  it('sends a value that skips stages straight to each that uses it', () => {
    const pieces = splitStages(skipping(), [0, 1, 2, 3])
    expect(pieces.map(({ sends }) => sends)).toEqual([
      [{ name: 'x0', to: [1, 3] }],
      [{ name: 'x1', to: [2] }],
      [{ name: 'x2', to: [3] }],
      [],
    ])
    expect(pieces.map(({ receives }) => receives)).toEqual([
      [],
      [{ name: 'x0', from: 0 }],
      [{ name: 'x1', from: 1 }],
      [
        { name: 'x0', from: 0 },
        { name: 'x2', from: 2 },
      ],
    ])
    expect(pieces[3]!.graph.inputs.map(({ name, kind }) => `${kind} ${name}`)).toEqual([
      'activation x0',
      'activation x2',
      'parameter d.weight',
    ])
    expect(pieces.map(({ graph }) => graph.blocks)).toEqual([['a'], ['b'], ['c'], ['d']])
  })

  it('numbers the values that leave one stage', () => {
    const builder = new GraphBuilder()
    const x = builder.input('x', 'activation', type)
    builder.startBlock('a')
    const left = builder.one('tanh', [x], {})
    const right = builder.one('exp', [x], {})
    builder.startBlock('b')
    const sum = builder.one('add', [right, left], {})
    builder.output('loss', builder.one('reduceSum', [sum], { dims: [0], keepDims: false }))
    const [first, second] = splitStages(builder.build(), [0, 1])
    expect(first!.graph.outputs.map(({ name }) => name)).toEqual(['x0', 'x0.1'])
    expect(first!.graph.nodes.map(({ op }) => op)).toEqual(['tanh', 'exp'])
    expect(second!.receives).toEqual([
      { name: 'x0', from: 0 },
      { name: 'x0.1', from: 0 },
    ])
  })

  it('gives a tied parameter, data, and what follows from one of them to every stage that uses it', () => {
    const builder = new GraphBuilder()
    const table = builder.input('table', 'parameter', { dtype: 'f64', shape: [4, 2] })
    const tokens = builder.input('tokens', 'data', { dtype: 'i32', shape: [3] })
    builder.startBlock('a')
    const double = builder.one('mul', [table, table], {})
    const shifted = builder.one('min', [tokens, tokens], {})
    const x = builder.one('gather', [double, shifted], {})
    builder.startBlock('b')
    const logits = builder.one('matmul', [x, double], { transposeA: false, transposeB: true, scale: 1 })
    builder.output('loss', builder.one('crossEntropy', [logits, shifted], {}))
    const [first, second] = splitStages(builder.build(), [0, 1])
    expect(first!.graph.nodes.map(({ op }) => op)).toEqual(['mul', 'min', 'gather'])
    expect(first!.sends).toEqual([{ name: 'x0', to: [1] }])
    expect(second!.graph.inputs.map(({ name }) => name)).toEqual(['x0', 'table', 'tokens'])
    expect(second!.graph.nodes.map(({ op, block }) => [op, block])).toEqual([
      ['mul', -1],
      ['min', -1],
      ['matmul', 0],
      ['crossEntropy', 0],
    ])
  })

  it('clones nodes without a block, back to what has one', () => {
    const builder = new GraphBuilder()
    const x = builder.input('x', 'activation', type)
    builder.startBlock('a')
    const base = builder.one('tanh', [x], {})
    builder.setBlock(-1)
    const shared = builder.one('exp', [base], {})
    builder.startBlock('b')
    const middle = builder.one('mul', [shared, base], {})
    builder.startBlock('c')
    const end = builder.one('add', [middle, shared], {})
    builder.setBlock(-1)
    builder.output('loss', builder.one('reduceSum', [end], { dims: [0], keepDims: false }))
    const pieces = splitStages(builder.build(), [0, 1, 2])
    expect(pieces.map(({ graph }) => graph.nodes.map(({ op }) => op))).toEqual([
      ['tanh'],
      ['exp', 'mul'],
      ['exp', 'add', 'reduceSum'],
    ])
    expect(pieces[0]!.sends).toEqual([{ name: 'x0', to: [1, 2] }])
  })

  it('makes equal pieces of equal blocks', () => {
    const sizes = {
      batch: 2,
      sequence: 3,
      hidden: 4,
      heads: 2,
      vocabulary: 5,
      layers: 3,
      dtype: 'f32',
    } as const
    const pieces = splitStages(tinyGpt(sizes).graph, [0, 1, 2, 3, 4])
    const shapeOf = ({ graph }: (typeof pieces)[number]): unknown => ({
      values: graph.values.map((value) => value.type),
      nodes: graph.nodes,
      inputs: graph.inputs.map(({ value, kind }) => ({ value, kind })),
    })
    expect(shapeOf(pieces[2]!)).toEqual(shapeOf(pieces[1]!))
    expect(shapeOf(pieces[3]!)).toEqual(shapeOf(pieces[1]!))
  })

  it('computes the same loss in pieces', () => {
    fc.assert(
      fc.property(randomModels, ({ graph, inputs }) => {
        const cut = graph.blocks.map((_, block) => block)
        const scope = new Map(inputs)
        let pieces: ReturnType<typeof splitStages>
        try {
          pieces = splitStages(graph, cut)
        } catch (error) {
          // A block whose every node is cloned elsewhere.
          expect(String(error)).toContain('nothing needs the work of stage')
          return
        }
        for (const piece of pieces) {
          checkGraph(piece.graph)
          for (const [name, tensor] of interpretGraph(piece.graph, scope)) scope.set(name, tensor)
        }
        expect(scope.get('loss')).toEqual(interpretGraph(graph, inputs).get('loss'))
      }),
      { numRuns: 40 },
    )
  })
})

describe('splitStages refuses', () => {
  it('a stage that needs a later one, and names both', () => {
    expect(() => splitStages(skipping(), [0, 2, 1, 3])).toThrow('stage 1 needs b of stage 2 (block b)')
  })

  it.each([
    [[0, 1, 2], '3 stages are given for 4 blocks'],
    [[0, 1, 1, 3], 'stage 2 has no block'],
    [[0, 1, 1, 4], 'block d cannot be in stage 4'],
    [[0, 0.5, 1, 1], 'block b cannot be in stage 0.5'],
    [[0, 0, 0, -1], 'block d cannot be in stage -1'],
  ])('the cut %j', (cut, message) => {
    expect(() => splitStages(skipping(), cut)).toThrow(message)
  })

  it('a stage with nothing to do', () => {
    const graph = skipping()
    expect(() => splitStages({ ...graph, blocks: [...graph.blocks, 'e'] }, [0, 0, 0, 0, 1])).toThrow(
      'nothing needs the work of stage 1',
    )
  })
})
