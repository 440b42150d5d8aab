import { describe, expect, it } from 'vitest'
import { axesOf, checkModel, plainSettings } from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import { type Graph, GraphBuilder, graphCost } from '../../graph/index.ts'
import { communicatedBytes, layoutWants, localDerivative } from '../index.ts'
import { overlapChunks } from './overlapChunks.ts'

const [batch, sequence, layers] = [2, 24, 2]
const tokens = batch * sequence

/** How often each collective is called on more than a number a token. */
function calls({ nodes, values }: Graph): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { op, attributes, inputs } of nodes) {
    if (op !== 'communicate') continue
    const elements = values[inputs[0]!]!.type.shape.reduce((product, size) => product * size, 1)
    if (elements > tokens) counts[attributes.operation] = (counts[attributes.operation] ?? 0) + 1
  }
  return counts
}

describe('products and collectives in chunks', () => {
  const cases = (['gpt', 'llama'] as const).flatMap((family) =>
    [2, 3].flatMap((parts) =>
      [false, true].flatMap((cut) => [2, 4].map((chunks) => ({ family, parts, cut, chunks }))),
    ),
  )

  it.each(cases)('are the same model: %o', ({ family, parts, cut, chunks }) => {
    const heads = 2 * parts
    const ofFamily = family === 'gpt' ? '' : `,kvHeads=${parts}`
    const sizes = `hidden=${16 * heads},heads=${heads},mlp=96,vocab=144`
    const model = smallModel(
      `${family}:layers=${layers},context=${sequence},${sizes}${ofFamily}`,
      batch,
      sequence,
    )
    const axes = axesOf({ tensor: parts })
    const settings = { tensor: 'megatron', sequence: cut } as const
    const { local, derivative } = checkModel(model, axes, { ...settings, overlap: chunks })

    const wants = layoutWants({ ...plainSettings, ...settings }, axes, derivative.joint)
    const plain = localDerivative(derivative, axes.mesh, wants)
    expect(local.wireBytes).toBe(plain.wireBytes)
    expect(communicatedBytes(local.joint, axes.mesh)).toBe(plain.wireBytes)
    // Nothing is computed twice.
    expect(graphCost(local.joint).flops).toBe(graphCost(plain.joint).flops)
    expect(local.joint.outputs.map(({ name }) => name)).toEqual(plain.joint.outputs.map(({ name }) => name))

    // Two a layer each way and one for the head. What is looked up in a table is no product, nor is its gradient.
    const beside = 4 * layers + 1
    const before = calls(plain.joint)
    const expected = Object.fromEntries(
      Object.entries(before).map(([operation, count]) => [operation, count + beside * (chunks - 1)]),
    )
    expect(Object.keys(before)).toEqual(cut ? ['reduceScatter', 'allGather'] : ['allReduce'])
    expect(calls(local.joint)).toEqual(expected)
  })

  it('follow the matrices of a cube that are gathered and scattered', () => {
    const name = 'llama:layers=1,hidden=16,heads=4,kvHeads=2,mlp=24,vocab=48,context=8'
    const model = smallModel(name, 4, 8)
    const names = ['x', 'y', 'z'].map((part) => `tensor.${part}`)
    const axes = axesOf(Object.fromEntries(names.map((part) => [part, 2])), { tensor: names })
    const { local, derivative } = checkModel(model, axes, { tensor: 'cube', overlap: 2 })
    const plain = { ...plainSettings, tensor: 'cube' } as const
    const whole = localDerivative(derivative, axes.mesh, layoutWants(plain, axes, derivative.joint))
    expect(local.wireBytes).toBe(whole.wireBytes)
    expect(graphCost(local.joint).flops).toBe(graphCost(whole.joint).flops)
    const chunked = local.joint.nodes.filter(
      ({ op, attributes }) => op === 'communicate' && attributes.chunk === 1,
    )
    // Seven products a layer and one for the head, forward and for the cotangents, each with a gathering and a sum.
    expect(chunked.length).toBeGreaterThanOrEqual(2 * (7 + 1))
  })
})

/** A product of [batch, 6, 4] by [4, 4], what leads to it gathered or what follows reduced, on two ranks. */
function productGraph(samples: number, operation: 'allReduce' | 'reduceScatter' | 'allGather'): Graph {
  const builder = new GraphBuilder()
  const attributes = { axes: ['a'], members: 2, root: 0, shift: 0 }
  const x = builder.input('x', 'activation', { dtype: 'f64', shape: [samples, 6, 4] })
  const w = builder.input('w', 'parameter', { dtype: 'f64', shape: [4, 4] })
  const product = (value: number): number =>
    builder.one('matmul', [value, w], { transposeA: false, transposeB: false, scale: 1 })
  const reduce = operation === 'allGather' ? null : ('sum' as const)
  const communicated = (value: number): number =>
    builder.one('communicate', [value], { operation, reduce, ...attributes })
  builder.output('y', operation === 'allGather' ? product(communicated(x)) : communicated(product(x)))
  return builder.build()
}

describe('a product by itself', () => {
  /** [op, shape of the result], in order. */
  const shapes = ({ nodes, values }: Graph): string[] =>
    nodes.map(({ op, outputs }) => `${op} ${values[outputs[0]!]!.type.shape.join('x')}`)

  it('is reduced by chunks of rows', () => {
    expect(shapes(overlapChunks(productGraph(1, 'allReduce'), 3))).toEqual([
      ...Array.from({ length: 3 }, () => ['slice 1x2x4', 'matmul 1x2x4', 'communicate 1x2x4']).flat(),
      'concat 1x6x4',
    ])
  })

  it('is scattered by chunks of what every rank is left with', () => {
    const own = ['reshape 2x2x6x4', 'slice 2x1x6x4', 'reshape 2x6x4', 'matmul 2x6x4', 'communicate 1x6x4']
    expect(shapes(overlapChunks(productGraph(4, 'reduceScatter'), 2))).toEqual([
      ...own,
      ...own.slice(1),
      'concat 2x6x4',
    ])
  })

  it('is of chunks of what is gathered', () => {
    const parts = ['slice 2x2x4', 'communicate 4x2x4']
    expect(shapes(overlapChunks(productGraph(2, 'allGather'), 3))).toEqual([
      ...[parts, parts, parts].flat(),
      'matmul 4x2x4',
      'matmul 4x2x4',
      'matmul 4x2x4',
      'concat 4x6x4',
    ])
  })

  it.each(['allReduce', 'reduceScatter', 'allGather'] as const)(
    'stays whole where rows do not divide: %s',
    (operation) => {
      const graph = productGraph(2, operation)
      expect(overlapChunks(graph, 5)).toEqual(graph)
      expect(overlapChunks(graph, 1)).toBe(graph)
    },
  )

  it('stays whole where its terms are wanted as well', () => {
    const graph = productGraph(2, 'allReduce')
    const product = graph.nodes.find(({ op }) => op === 'matmul')!
    const both: Graph = {
      ...graph,
      outputs: [...graph.outputs, { name: 'terms', value: product.outputs[0]! }],
    }
    expect(overlapChunks(both, 2)).toEqual(both)
  })
})
