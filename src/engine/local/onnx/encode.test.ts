import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { graphOfCase } from '../../../../test/support/graphs.ts'
import { type OpCase, opCases } from '../../../../test/support/opCases.ts'
import { distance, runOnnx } from '../../../../test/support/runOnnx.ts'
import { type FloatDType, GraphBuilder, interpretGraph, makeTensor, opNames } from '../../../graph/index.ts'
import { encodeOnnxModel } from './encode.ts'

const tolerances: Readonly<Record<FloatDType, number>> = { f32: 1e-5, f64: 1e-12 }

describe.each(['f32', 'f64'] as const)('in %s', (dtype) => {
  // Programs communicate by instructions and never inside a task.
  it.each(opNames.filter((op) => op !== 'communicate'))('%s equals the reference', async (op) => {
    await fc.assert(
      fc.asyncProperty(opCases[op](dtype) as fc.Arbitrary<OpCase>, async (testCase) => {
        const { graph, inputs } = graphOfCase(testCase)
        const expected = interpretGraph(graph, inputs)
        const actual = await runOnnx(graph, inputs)
        for (const [name, tensor] of expected) {
          const { dtype: found, shape } = actual.get(name)!.type
          expect({ dtype: found, shape }).toEqual({ dtype: tensor.type.dtype, shape: tensor.type.shape })
          expect(distance(actual.get(name)!, tensor)).toBeLessThanOrEqual(tolerances[dtype])
        }
      }),
      { numRuns: 20 },
    )
  })
})

describe('a model', () => {
  const vector = makeTensor({ dtype: 'f32', shape: [3] }, [1, 2, 3])

  it('may give an input, a constant and one value twice as outputs', async () => {
    const builder = new GraphBuilder()
    const x = builder.input('a strange/name', 'activation', vector.type)
    const doubled = builder.one('add', [x, x], {})
    builder.output('same', x)
    builder.output('first', doubled)
    builder.output('second', doubled)
    builder.output('constant', builder.one('fill', [], { shape: [2], dtype: 'i32', value: 7 }))
    const used = builder.one('neg', [doubled], {})
    builder.output('negative', used)
    const results = await runOnnx(builder.build(), new Map([['a strange/name', vector]]))
    expect([...results.values()].map((tensor) => Array.from(tensor.data))).toEqual([
      [1, 2, 3],
      [2, 4, 6],
      [2, 4, 6],
      [7, 7],
      [-2, -4, -6],
    ])
  })

  it('cannot communicate with other ranks', () => {
    const builder = new GraphBuilder()
    const x = builder.input('x', 'activation', vector.type)
    const attributes = {
      operation: 'permute',
      reduce: null,
      axes: ['a'],
      members: 2,
      root: 0,
      shift: 1,
    } as const
    builder.output('y', builder.one('communicate', [x], attributes))
    expect(() => encodeOnnxModel(builder.build())).toThrow(/^internal: a task that communicates/)
  })

  it('takes inputs that nothing needs, in their order', async () => {
    const builder = new GraphBuilder()
    const unused = builder.input('unused', 'parameter', { dtype: 'f64', shape: [2, 2] })
    const x = builder.input('x', 'activation', vector.type)
    builder.output('y', builder.one('neg', [x], {}))
    expect(unused).not.toBe(x)
    const inputs = new Map([
      ['unused', makeTensor({ dtype: 'f64', shape: [2, 2] }, [0, 0, 0, 0])],
      ['x', vector],
    ])
    const results = await runOnnx(builder.build({ keepInputs: true }), inputs)
    expect(Array.from(results.get('y')!.data)).toEqual([-1, -2, -3])
  })

  it('stores equal constants once', () => {
    const constants = (values: readonly number[]): number => {
      const builder = new GraphBuilder()
      const x = builder.input('x', 'activation', { dtype: 'f32', shape: [64, 64] })
      values.forEach((offset, index) => {
        const attributes = { queries: 64, keys: 64, offset, dtype: 'f32' as const }
        const masked = builder.one('add', [x, builder.one('causalMask', [], attributes)], {})
        builder.output(`y${index}`, builder.one(index === 0 ? 'exp' : 'tanh', [masked], {}))
      })
      return encodeOnnxModel(builder.build()).length
    }
    // The second offset hides as little as the first: another node, the same numbers.
    expect(constants([70, 80])).toBeLessThan(constants([70]) + 1000)
    expect(constants([0, 1])).toBeGreaterThan(constants([0]) + 64 * 64 * 4)
  })

  it('names the graph op and the block when it fails', async () => {
    const builder = new GraphBuilder()
    const table = builder.input('table', 'parameter', { dtype: 'f32', shape: [4, 2] })
    const ids = builder.input('ids', 'data', { dtype: 'i32', shape: [1] })
    builder.startBlock('wte')
    builder.output('rows', builder.one('gather', [table, ids], {}))
    const inputs = new Map([
      ['table', makeTensor({ dtype: 'f32', shape: [4, 2] }, new Float64Array(8))],
      ['ids', makeTensor({ dtype: 'i32', shape: [1] }, [9])],
    ])
    await expect(runOnnx(builder.build(), inputs)).rejects.toThrow('wte/gather#0')
  })

  it('gives the loss also where the probability of the label underflows', async () => {
    for (const [dtype, far] of [
      ['f32', 500],
      ['f64', 5000],
    ] as const) {
      const builder = new GraphBuilder()
      const logits = builder.input('logits', 'activation', { dtype, shape: [2, 3] })
      const labels = builder.input('labels', 'data', { dtype: 'i32', shape: [2] })
      const [loss, probabilities] = builder.op('crossEntropy', [logits, labels], {})
      builder.output('loss', loss!)
      builder.output('probabilities', probabilities!)
      const inputs = new Map([
        ['logits', makeTensor({ dtype, shape: [2, 3] }, [0, far, 0, 1, 1, 1])],
        ['labels', makeTensor({ dtype: 'i32', shape: [2] }, [2, 0])],
      ])
      const results = await runOnnx(builder.build(), inputs)
      expect(results.get('probabilities')!.data[2]).toBe(0)
      expect(results.get('loss')!.data[0]! / (far + Math.log(3))).toBeCloseTo(1, dtype === 'f32' ? 6 : 14)
    }
  })
})
