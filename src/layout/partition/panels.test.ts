import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { expectSame, runLocal } from '../../../test/support/layoutGraph.ts'
import { largestElements } from '../../../test/support/layoutModels.ts'
import { Numbers } from '../../../test/support/randomTensors.ts'
import { elementCount, GraphBuilder, interpretGraph, type ValueId } from '../../graph/index.ts'
import { type LocalGraph, localGraph, makeLayout, type WantedLayout, type Wants } from '../index.ts'

function squareOf(edge: number) {
  return {
    axes: [
      { name: 'row', size: edge },
      { name: 'column', size: edge },
    ],
  }
}

/** Inputs and outputs by name, cut by rows along the first dim and by columns along the last, products by panels. */
function wantsOf(style: Wants['products']): Wants {
  const wants = ({ role, type, kind }: Parameters<Wants>[0]): WantedLayout | undefined => {
    if (role === 'result') return undefined
    if (kind === 'data') return makeLayout(type.shape.map(() => []))
    const dims = type.shape.map((): string[] => [])
    dims[0] = ['row']
    dims[dims.length - 1] = ['column']
    return makeLayout(dims)
  }
  return style === undefined ? wants : Object.assign(wants, { products: style })
}

const panels = { kind: 'panels', axes: ['row', 'column'] } as const

/** The product of two matrices, or of samples of rows and a matrix, as ranks make it. */
function product(
  shapes: readonly (readonly number[])[],
  attributes: { readonly transposeA: boolean; readonly transposeB: boolean },
  edge: number,
  style: Wants['products'] = panels,
): LocalGraph {
  const builder = new GraphBuilder()
  const operands = shapes.map((shape, index) =>
    builder.input(`operand ${index}`, 'activation', { dtype: 'f64', shape }),
  )
  builder.output('product', builder.one('matmul', operands, { ...attributes, scale: 0.5 }))
  return run(builder, edge, style)
}

/** Made by all ranks, equal to what one makes, and with as many bytes as said before. */
function run(builder: GraphBuilder, edge: number, style: Wants['products'] = panels): LocalGraph {
  const graph = builder.build()
  const mesh = squareOf(edge)
  const local = localGraph(graph, mesh, wantsOf(style))
  const numbers = new Numbers(3)
  const given = new Map(
    graph.inputs.map(({ name, value }) => {
      const { type } = graph.values[value]!
      if (type.dtype === 'f64') return [name, numbers.floats('f64', type.shape, -2, 2)]
      const data = Int32Array.from({ length: elementCount(type.shape) }, () =>
        numbers.integer(0, edge * 3 - 1),
      )
      return [name, { type, data }]
    }),
  )
  const found = runLocal(local, mesh, given)
  expectSame(found, interpretGraph(graph, given))
  expect(found.sentBytes).toBeCloseTo(local.wireBytes, 6)
  return local
}

/** Collectives of a local graph: what they are, over which axis, from or to which rank. */
function passes({ graph }: LocalGraph): string[] {
  return graph.nodes.flatMap((node) => {
    if (node.op !== 'communicate') return []
    const { operation, axes, root } = node.attributes
    return [`${operation} ${axes} ${root}`]
  })
}

const plain = { transposeA: false, transposeB: false }
/** Of rows, inner and columns M, K and N: what goes around along which axis, and who stays. */
const forms = [
  [
    'A B',
    plain,
    (m: number, k: number) => [m, k],
    (k: number, n: number) => [k, n],
    ['broadcast column', 'broadcast row'],
  ],
  [
    'A Bᵀ',
    { ...plain, transposeB: true },
    (m: number, k: number) => [m, k],
    (k: number, n: number) => [n, k],
    ['broadcast row', 'reduce column'],
  ],
  [
    'Aᵀ B',
    { ...plain, transposeA: true },
    (m: number, k: number) => [k, m],
    (k: number, n: number) => [k, n],
    ['broadcast column', 'reduce row'],
  ],
] as const

describe('products by panels', () => {
  const cases = forms.flatMap((form) => [2, 3, 4].map((edge) => [form[0], edge, form] as const))
  it.each(cases)('%s on a square of edge %i', (_, edge, [, attributes, shapeA, shapeB, around]) => {
    const [m, k, n] = [2 * edge, 3 * edge, 5 * edge]
    const local = product([shapeA(m, k), shapeB(k, n)], attributes, edge)
    const turns = Array.from({ length: edge }, (_, root) => around.map((pass) => `${pass} ${root}`))
    expect(passes(local)).toEqual(turns.flat())
    // Of each of the two matrices that go around q panels pass q - 1 hops in each of q groups.
    const moved = { 'A B': m * k + k * n, 'A Bᵀ': k * n + m * n, 'Aᵀ B': m * k + m * n }
    const form = forms.find(([, own]) => own === attributes)!
    expect(local.wireBytes).toBe(8 * (edge - 1) * moved[form[0]])
    expect(largestElements(local)).toBe(Math.max(m * k, k * n, m * n) / edge ** 2)
  })

  it('move as much as gathering both operands does, of any sizes', () => {
    const size = fc.integer({ min: 1, max: 4 })
    fc.assert(
      fc.property(fc.constantFrom(2, 3), size, size, size, fc.boolean(), (edge, m, k, n, isBatched) => {
        const rows = isBatched ? [m * edge, 3] : [m * edge]
        const shapes = [
          [...rows, k * edge],
          [k * edge, n * edge],
        ]
        const around = product(shapes, plain, edge)
        expect(passes(around)).toHaveLength(2 * edge)
        const elements = elementCount(rows) * k * edge + k * n * edge ** 2
        expect(around.wireBytes).toBe(8 * (edge - 1) * elements)
        // What moves the fewest bytes never moves more.
        expect(product(shapes, plain, edge, undefined).wireBytes).toBeLessThanOrEqual(around.wireBytes)
      }),
      { numRuns: 15, seed: 4 },
    )
  })

  const table = (builder: GraphBuilder, edge: number): [ValueId, ValueId] => [
    builder.input('table', 'activation', { dtype: 'f64', shape: [3 * edge, 2 * edge] }),
    builder.input('ids', 'data', { dtype: 'i32', shape: [4 * edge, 7] }),
  ]

  it.each([2, 3])('look up rows of a table that passes by, on edge %i', (edge) => {
    const builder = new GraphBuilder()
    builder.output('rows', builder.one('gather', table(builder, edge), {}))
    const local = run(builder, edge)
    expect(passes(local)).toEqual(Array.from({ length: edge }, (_, root) => `broadcast row ${root}`))
    expect(local.wireBytes).toBe(8 * (edge - 1) * 6 * edge ** 2)
    expect(largestElements(local)).toBeLessThanOrEqual(4 * 7 * 2 * edge)
  })

  it.each([2, 3])('add rows up in the part of a table that they belong to, on edge %i', (edge) => {
    const builder = new GraphBuilder()
    const [, ids] = table(builder, edge)
    const rows = builder.input('rows', 'activation', { dtype: 'f64', shape: [4 * edge, 7, 2 * edge] })
    builder.output('sums', builder.one('scatterRows', [ids, rows], { rows: 3 * edge }))
    const local = run(builder, edge)
    expect(passes(local)).toEqual(Array.from({ length: edge }, (_, root) => `reduce row ${root}`))
    expect(local.wireBytes).toBe(8 * (edge - 1) * 6 * edge ** 2)
  })

  it('are not made of what one axis alone cuts, nor on a rectangle', () => {
    const builder = new GraphBuilder()
    const x = builder.input('x', 'activation', { dtype: 'f64', shape: [4, 6] })
    const y = builder.input('y', 'activation', { dtype: 'f64', shape: [6, 12] })
    builder.output('z', builder.one('matmul', [x, y], { ...plain, scale: 1 }))
    const mesh = {
      axes: [
        { name: 'row', size: 2 },
        { name: 'column', size: 3 },
      ],
    }
    const local = localGraph(builder.build(), mesh, wantsOf(panels))
    expect(passes(local).some((pass) => pass.startsWith('broadcast') || pass.startsWith('reduce '))).toBe(
      false,
    )
  })
})
