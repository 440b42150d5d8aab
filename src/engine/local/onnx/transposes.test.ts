import { fromBinary } from '@bufbuild/protobuf'
import { ModelProtoSchema } from 'onnx-buf'
import { describe, expect, it } from 'vitest'
import { Numbers } from '../../../../test/support/randomTensors.ts'
import { distance, runOnnx } from '../../../../test/support/runOnnx.ts'
import { type Graph, GraphBuilder, interpretGraph } from '../../../graph/index.ts'
import { encodeOnnxModel } from './encode.ts'

function transposes(graph: Graph): number {
  const { graph: encoded } = fromBinary(ModelProtoSchema, encodeOnnxModel(graph))
  return encoded!.node.filter((node) => node.opType === 'Transpose').length
}

/** Three orders in turn, with the result of the `kept`th as an output too. */
function chain(kept?: number): Graph {
  const builder = new GraphBuilder()
  let value = builder.input('x', 'activation', { dtype: 'f64', shape: [2, 3, 4, 5] })
  const orders = [
    [2, 0, 3, 1],
    [3, 1, 0, 2],
    [1, 2, 3, 0],
  ]
  orders.forEach((permutation, index) => {
    value = builder.one('transpose', [value], { permutation })
    if (index === kept) builder.output('kept', value)
  })
  builder.output('y', value)
  return builder.build()
}

describe('transposes in turn', () => {
  const inputs = new Map([['x', new Numbers(3).floats('f64', [2, 3, 4, 5])]])

  it.each([
    [undefined, 1],
    [0, 2],
    [1, 2],
  ])('are one where nothing reads what lies between (%s): %i', async (kept, count) => {
    const graph = chain(kept)
    expect(transposes(graph)).toBe(count)
    const actual = await runOnnx(graph, inputs)
    for (const [name, expected] of interpretGraph(graph, inputs))
      expect(distance(actual.get(name)!, expected)).toBe(0)
  })
})
