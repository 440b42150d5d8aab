import * as ort from 'onnxruntime-node'
import { encodeOnnxModel, onnxInputName, onnxOutputName } from '../../src/engine/local/onnx/index.ts'
import { type DType, type Graph, makeTensor, type Tensor } from '../../src/graph/index.ts'

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

/** Encodes `graph` and runs it once. */
export async function runOnnx(
  graph: Graph,
  inputs: ReadonlyMap<string, Tensor>,
): Promise<Map<string, Tensor>> {
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
export function distance(actual: Tensor, expected: Tensor): number {
  let largest = 1
  for (const value of expected.data) largest = Math.max(largest, Math.abs(value))
  let worst = 0
  expected.data.forEach((value, index) => {
    worst = Math.max(worst, Math.abs(value - actual.data[index]!) / largest)
  })
  return worst
}
