import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { collectives, expectSame, runLocal, withGradients } from '../../test/support/layoutGraph.ts'
import { layoutOf, meshes, uses } from '../../test/support/layouts.ts'
import { randomModels } from '../../test/support/randomGraphs.ts'
import { Numbers, seeds } from '../../test/support/randomTensors.ts'
import { GraphBuilder, hashText, interpretGraph } from '../graph/index.ts'
import { cuttableOp, localGraph, opPlans, parseLayout, printLayout, type Wants } from './index.ts'

const use = fc.array(uses(false), { minLength: 6, maxLength: 6 })

describe('graphs by blocks', () => {
  it.each([
    ['forward', 30],
    ['forward and backward', 10],
  ])('%s, with any layouts wanted, are the graph', (what, numRuns) => {
    fc.assert(
      fc.property(randomModels, meshes, use, seeds, ({ graph, inputs }, mesh, drawn, seed) => {
        const whole = what === 'forward' ? graph : withGradients(graph)
        const numbers = new Numbers(seed)
        const wants: Wants = ({ role, name, type: { shape, dtype } }) => {
          // A third of what nodes make is chosen, and some of the outputs.
          const draw = hashText(`${role} ${name} ${shape} ${seed}`)[0]
          if (role !== 'input' && draw % 3 === 0) return undefined
          const own = drawn[draw % drawn.length]!
          // Ids have no terms.
          const kept = own.use.map((one) => (dtype !== 'f64' && one === 'partial' ? 'none' : one))
          return layoutOf(
            { ...own, use: kept, reduce: role === 'input' ? own.reduce : 'sum' },
            shape,
            mesh,
            true,
          )
        }
        const partition = localGraph(whole, mesh, wants)
        const run = runLocal(partition, mesh, inputs, () => numbers.integer(-3, 3))
        expect(run.sentBytes).toBeCloseTo(partition.wireBytes, 6)
        expectSame(run, interpretGraph(whole, inputs))
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
    const partition = localGraph(graph, mesh, ({ role, name }) =>
      role === 'input' ? parseLayout(name === 'x' ? '[data | context | .]' : '[. | .]') : undefined,
    )
    // Terms that are wanted whole once, at the very end: the loss and the gradient of the weight.
    expect(collectives(partition)).toEqual([])
    expectSame(runLocal(partition, mesh, inputs), interpretGraph(graph, inputs))
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

  it('refuse to make a whole of values that differ on purpose', () => {
    const builder = new GraphBuilder()
    const x = builder.input('x', 'activation', { dtype: 'f64', shape: [4] })
    builder.output('y', builder.one('exp', [x], {}))
    const mesh = { axes: [{ name: 'data', size: 2 }] }
    const partition = (wanted: string) => () =>
      localGraph(builder.build(), mesh, ({ role }) =>
        parseLayout(role === 'input' ? '[.] varying data' : wanted),
      )
    expect(partition('[.]')).toThrow(expect.objectContaining({ code: 'LAYOUT_VARYING' }))
    expect(partition('[.] varying data')().wireBytes).toBe(0)
  })
})
