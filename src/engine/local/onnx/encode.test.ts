import fc from 'fast-check'
import * as ort from 'onnxruntime-node'
import { describe, expect, it } from 'vitest'
import { graphOfCase } from '../../../../test/support/graphs.ts'
import { type OpCase, opCases } from '../../../../test/support/opCases.ts'
import {
  type DType,
  type FloatDType,
  type Graph,
  GraphBuilder,
  interpretGraph,
  makeTensor,
  opNames,
  type Tensor,
} from '../../../graph/index.ts'
import { encodeOnnxModel, onnxInputName, onnxOutputName } from './encode.ts'

const options: ort.InferenceSession.SessionOptions = {
  executionProviders: ['cpu'],
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  graphOptimizationLevel: 'disabled',
  enableMemPattern: false,
  // One test makes a run fail on purpose: only what is fatal is printed.
  logSeverityLevel: 4,
}

function feed({ type, data }: Tensor): ort.Tensor {
  switch (type.dtype) {
    case 'f32':
      return new ort.Tensor('float32', Float32Array.from(data), type.shape)
    case 'f64':
      return new ort.Tensor('float64', Float64Array.from(data), type.shape)
    case 'i32':
      return new ort.Tensor('int32', Int32Array.from(data), type.shape)
    case 'bool':
      return new ort.Tensor('bool', Uint8Array.from(data), type.shape)
  }
}

const dtypes: Readonly<Record<string, DType>> = { float32: 'f32', float64: 'f64', int32: 'i32', bool: 'bool' }

async function run(graph: Graph, inputs: ReadonlyMap<string, Tensor>): Promise<Map<string, Tensor>> {
  const session = await ort.InferenceSession.create(encodeOnnxModel(graph), options)
  const feeds = Object.fromEntries(
    graph.inputs.map(({ name }, index) => [onnxInputName(index), feed(inputs.get(name)!)]),
  )
  const results = await session.run(feeds)
  await session.release()
  return new Map(
    graph.outputs.map(({ name }, index) => {
      const result = results[onnxOutputName(index)]!
      const type = { dtype: dtypes[result.type]!, shape: result.dims }
      return [name, makeTensor(type, Array.from(result.data as ArrayLike<number | bigint>, Number))]
    }),
  )
}

/** Largest difference relative to the largest element, at least 1. */
function distance(actual: Tensor, expected: Tensor): number {
  let largest = 1
  for (const value of expected.data) largest = Math.max(largest, Math.abs(value))
  let worst = 0
  expected.data.forEach((value, index) => {
    worst = Math.max(worst, Math.abs(value - actual.data[index]!) / largest)
  })
  return worst
}

const tolerances: Readonly<Record<FloatDType, number>> = { f32: 1e-5, f64: 1e-12 }

describe.each(['f32', 'f64'] as const)('in %s', (dtype) => {
  it.each(opNames)('%s equals the reference', async (op) => {
    await fc.assert(
      fc.asyncProperty(opCases[op](dtype) as fc.Arbitrary<OpCase>, async (testCase) => {
        const { graph, inputs } = graphOfCase(testCase)
        const expected = interpretGraph(graph, inputs)
        const actual = await run(graph, inputs)
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
    const results = await run(builder.build(), new Map([['a strange/name', vector]]))
    expect([...results.values()].map((tensor) => Array.from(tensor.data))).toEqual([
      [1, 2, 3],
      [2, 4, 6],
      [2, 4, 6],
      [7, 7],
      [-2, -4, -6],
    ])
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
    const results = await run(builder.build({ keepInputs: true }), inputs)
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
    await expect(run(builder.build(), inputs)).rejects.toThrow('wte/gather#0')
  })
})
