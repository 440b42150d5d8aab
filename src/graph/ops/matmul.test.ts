import { describe, expect, it } from 'vitest'
import { Numbers } from '../../../test/support/randomTensors.ts'
import { differentiate, type Graph, GraphBuilder, interpretGraph, type Tensor } from '../index.ts'

interface Head {
  readonly graph: Graph
  readonly inputs: Map<string, Tensor>
}

/** x [..., inner] times a weight [columns, inner], its result weighted by a column: gradients of x and the weight. */
function head(rows: readonly number[], inner: number, columns: number): Head {
  const numbers = new Numbers(5)
  const builder = new GraphBuilder()
  const inputs = new Map<string, Tensor>()
  const input = (name: string, shape: readonly number[]): number => {
    const tensor = numbers.floats('f64', shape)
    inputs.set(name, tensor)
    return builder.input(name, 'activation', tensor.type)
  }
  const x = input('x', [...rows, inner])
  const weight = input('weight', [columns, inner])
  const attributes = { transposeA: false, transposeB: true, scale: 0.5 }
  const y = builder.one('matmul', [x, weight], attributes)
  const cotangent = builder.one('mul', [input('d', [...rows, columns]), input('scale', [...rows, 1])], {})
  const gradients = differentiate(builder, { outputs: [{ value: y, cotangent }], wanted: [x, weight] })
  builder.output('dx', gradients.get(x)!.dense!)
  builder.output('dweight', gradients.get(weight)!.dense!)
  return { graph: builder.build(), inputs }
}

/** Sums written out. */
function expectGradients({ graph, inputs }: Head, inner: number, columns: number): void {
  const [x, weight, d, scale] = ['x', 'weight', 'd', 'scale'].map((name) => inputs.get(name)!.data)
  const dx = new Float64Array(x!.length)
  const dweight = new Float64Array(weight!.length)
  for (let row = 0; row < scale!.length; row++)
    for (let column = 0; column < columns; column++)
      for (let k = 0; k < inner; k++) {
        const dy = 0.5 * d![row * columns + column]! * scale![row]!
        dx[row * inner + k]! += dy * weight![column * inner + k]!
        dweight[column * inner + k]! += dy * x![row * inner + k]!
      }
  const results = interpretGraph(graph, inputs)
  for (const [name, expected] of [
    ['dx', dx],
    ['dweight', dweight],
  ] as const)
    results.get(name)!.data.forEach((value, index) => {
      expect(value).toBeCloseTo(expected[index]!, 12)
    })
}

describe('a cotangent with scaled rows', () => {
  const scaledSizes = ({ graph }: Head): number[] =>
    graph.nodes
      .filter((node) => node.op === 'mul')
      .map((node) => graph.values[node.outputs[0]!]!.type.shape.at(-1)!)

  it.each([[[6]], [[2, 3]]])('of a wide product %j: the narrow operands are scaled in its place', (rows) => {
    const made = head(rows, 2, 4)
    expect(scaledSizes(made)).toEqual([2, 2])
    expectGradients(made, 2, 4)
  })

  it('of a product that is not twice as wide as its operand: it is scaled once for both', () => {
    const made = head([6], 3, 5)
    expect(scaledSizes(made)).toEqual([5])
    expectGradients(made, 3, 5)
  })
})
