import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { runByBlocks, withGradients } from '../../test/support/layoutGraph.ts'
import { layoutOf, meshes, uses } from '../../test/support/layouts.ts'
import { randomModels } from '../../test/support/randomGraphs.ts'
import { Numbers, seeds } from '../../test/support/randomTensors.ts'
import { GraphBuilder, interpretGraph } from '../graph/index.ts'
import { cuttableOp, opPlans, parseLayout, printLayout } from './index.ts'

const use = fc.array(uses(false), { minLength: 6, maxLength: 6 })

describe('graphs by blocks', () => {
  it.each([
    ['forward', 30],
    ['forward and backward', 10],
  ])('%s, from any layouts and with any plans of ops, are the graph', (what, numRuns) => {
    fc.assert(
      fc.property(randomModels, meshes, use, seeds, ({ graph, inputs }, mesh, drawn, seed) => {
        const whole = what === 'forward' ? graph : withGradients(graph)
        const numbers = new Numbers(seed)
        const run = runByBlocks(whole, inputs, mesh, {
          // Ids have no terms.
          layoutOf: (name, shape) => {
            const own = drawn[numbers.integer(0, 5)]!
            const isTokens = name === 'tokens'
            const kept = own.use.map((one) => (isTokens && one === 'partial' ? 'none' : one))
            return layoutOf({ ...own, use: kept }, shape, mesh)
          },
          choose: (plans) => plans[Math.min(plans.length - 1, numbers.integer(0, 3))]!,
          random: () => numbers.integer(-3, 3),
        })
        const expected = interpretGraph(whole, inputs)
        expect(run.sentElements).toBeCloseTo(run.predictedElements, 6)
        for (const [name, tensor] of expected)
          tensor.data.forEach((value, index) => {
            const found = run.outputs.get(name)![index]!
            if (!(Math.abs(found - value) <= 1e-9 * (1 + Math.abs(value)))) expect(found, name).toBe(value)
          })
      }),
      { numRuns },
    )
  })

  it('move nothing for a linear over samples and positions that are both cut, forward and backward', () => {
    const numbers = new Numbers(3)
    const builder = new GraphBuilder()
    const inputs = new Map([
      ['x', numbers.floats('f64', [4, 6, 5])],
      ['w', numbers.floats('f64', [5, 7])],
    ])
    const [x, w] = [...inputs].map(([name, { type }]) => builder.input(name, 'activation', type))
    const y = builder.one('matmul', [x!, w!], { transposeA: false, transposeB: false, scale: 1 })
    const squares = builder.one('mul', [y, y], {})
    builder.output('loss', builder.one('reduceSum', [squares], { dims: [0, 1, 2], keepDims: false }))
    const graph = withGradients(builder.build())
    const mesh = {
      axes: [
        { name: 'data', size: 2 },
        { name: 'context', size: 3 },
      ],
    }
    const run = runByBlocks(graph, inputs, mesh, {
      layoutOf: (name) => parseLayout(name === 'x' ? '[data | context | .]' : '[. | .]'),
      choose: (plans) => plans[0]!,
      random: () => 0,
    })
    expect(run.sentElements).toBe(0)
    for (const [name, { data }] of interpretGraph(graph, inputs))
      data.forEach((value, index) => {
        expect(run.outputs.get(name)![index], name).toBeCloseTo(value, 9)
      })
  })

  it('let values that differ on purpose pass every op, and only where all results may differ', () => {
    const type = { dtype: 'f64', shape: [4, 6] } as const
    const mesh = {
      axes: [
        { name: 'data', size: 2 },
        { name: 'tensor', size: 3 },
      ],
    }
    const op = cuttableOp({ op: 'mul', attributes: {}, inputs: [type, type], outputs: [type] })
    const layouts = [parseLayout('[. | tensor] varying data'), parseLayout('[data | .]')]
    const [plan] = opPlans(op, { mesh, layouts })
    // The other operand may not stay cut along an axis on which results are whole, each in its own way.
    expect(plan!.operands.map(({ to }) => printLayout(to))).toEqual([
      '[. | tensor] varying data',
      '[. | tensor]',
    ])
    expect(plan!.outputs.map(printLayout)).toEqual(['[. | tensor] varying data'])
    expect(opPlans(op, { mesh, layouts, wanted: [parseLayout('[. | .]')] })).toEqual([])
  })
})
