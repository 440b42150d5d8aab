import { describe, expect, it } from 'vitest'
import { GraphBuilder } from './builder.ts'
import { densify, differentiate } from './differentiate.ts'
import { interpretGraph } from './interpret.ts'
import { makeTensor } from './tensor.ts'
import type { Tensor, TensorType, ValueId } from './types.ts'

const matrix: TensorType = { dtype: 'f64', shape: [3, 2] }
const column: TensorType = { dtype: 'f64', shape: [2] }
const idsType: TensorType = { dtype: 'i32', shape: [2] }

/** A builder, and the values of named results for given inputs. */
function scene(): {
  builder: GraphBuilder
  input: (name: string, type: TensorType, data: readonly number[]) => ValueId
  evaluate: (value: ValueId) => number[]
} {
  const builder = new GraphBuilder()
  const tensors = new Map<string, Tensor>()
  let outputs = 0
  return {
    builder,
    input: (name, type, data) => {
      tensors.set(name, makeTensor(type, data))
      return builder.input(name, type.dtype === 'i32' ? 'data' : 'parameter', type)
    },
    evaluate: (value) => {
      const name = `result${outputs++}`
      builder.output(name, value)
      return [...interpretGraph(builder.build(), tensors).get(name)!.data]
    },
  }
}

function opsOf(builder: GraphBuilder): string[] {
  return builder.build().nodes.map((node) => node.op)
}

describe('differentiate', () => {
  it('adds the contributions of every use', () => {
    const { builder, input, evaluate } = scene()
    const x = input('x', column, [3, -2])
    const dy = input('dy', column, [10, 1])
    // y = x^2 + x, also through one operand used twice.
    const y = builder.one('add', [builder.one('mul', [x, x], {}), x], {})
    const gradient = differentiate(builder, { outputs: [{ value: y, cotangent: dy }], wanted: [x] }).get(x)!
    expect(gradient.rows).toEqual([])
    expect(evaluate(gradient.dense!)).toEqual([10 * (2 * 3 + 1), 2 * -2 + 1])
  })

  it('keeps rows of a graph input apart from its dense part', () => {
    const { builder, input, evaluate } = scene()
    const table = input('table', matrix, [1, 2, 3, 4, 5, 6])
    const ids = input('ids', idsType, [2, 2])
    const more = input('more', idsType, [0, 1])
    const dy = input('dy', { dtype: 'f64', shape: [2, 2] }, [1, 2, 3, 4])
    const dz = input('dz', matrix, [1, 1, 1, 1, 1, 1])
    const gradients = differentiate(builder, {
      outputs: [
        { value: builder.one('gather', [table, ids], {}), cotangent: dy },
        { value: builder.one('gather', [table, more], {}), cotangent: dy },
        { value: builder.one('neg', [table], {}), cotangent: dz },
      ],
      wanted: [table],
    })
    const gradient = gradients.get(table)!
    expect(gradient.rows.map((rows) => rows.ids).sort()).toEqual([ids, more].sort())
    expect(gradient.rows.map((rows) => evaluate(rows.values))).toEqual([
      [1, 2, 3, 4],
      [1, 2, 3, 4],
    ])
    expect(evaluate(gradient.dense!)).toEqual([-1, -1, -1, -1, -1, -1])
    expect(evaluate(densify(builder, table, gradient)!)).toEqual([
      -1 + 1,
      -1 + 2,
      -1 + 3,
      -1 + 4,
      -1 + 1 + 3,
      -1 + 2 + 4,
    ])
  })

  it('scatters rows that have to flow further than a graph input', () => {
    const { builder, input, evaluate } = scene()
    const table = input('table', { dtype: 'f64', shape: [2, 3] }, [1, 2, 3, 4, 5, 6])
    const ids = input('ids', idsType, [1, 1])
    const dy = input('dy', { dtype: 'f64', shape: [2, 2] }, [1, 2, 3, 4])
    const turned = builder.one('transpose', [table], { permutation: [1, 0] })
    const y = builder.one('gather', [turned, ids], {})
    const gradient = differentiate(builder, { outputs: [{ value: y, cotangent: dy }], wanted: [table] }).get(
      table,
    )!
    expect(gradient.rows).toEqual([])
    // Row 1 of the transposed table, that is column 1, gets both.
    expect(evaluate(gradient.dense!)).toEqual([0, 1 + 3, 0, 0, 2 + 4, 0])
  })

  it('makes nothing that is not asked for', () => {
    const { builder, input, evaluate } = scene()
    const x = input('x', matrix, [1, 2, 3, 4, 5, 6])
    const weight = input('weight', { dtype: 'f64', shape: [2, 2] }, [1, 0, 2, 1])
    const dy = input('dy', matrix, [1, 0, 0, 1, 1, 1])
    const product = { transposeA: false, transposeB: false, scale: 1 }
    const y = builder.one('matmul', [x, weight], product)
    const gradients = differentiate(builder, { outputs: [{ value: y, cotangent: dy }], wanted: [x] })
    builder.output('y', y)
    // dy W^T
    expect(evaluate(gradients.get(x)!.dense!)).toEqual([1, 2, 0, 1, 1, 3])
    expect(opsOf(builder)).toEqual(['matmul', 'matmul'])
  })

  it('gives the cotangent of a result of a node, and goes no further', () => {
    const { builder, input, evaluate } = scene()
    const x = input('x', column, [1, 2])
    const dy = input('dy', column, [3, 4])
    const middle = builder.one('tanh', [x], {})
    const y = builder.one('mul', [middle, middle], {})
    const gradients = differentiate(builder, { outputs: [{ value: y, cotangent: dy }], wanted: [middle] })
    expect(evaluate(gradients.get(middle)!.dense!)).toEqual([2 * 3 * Math.tanh(1), 2 * 4 * Math.tanh(2)])
  })

  it('says zero by an empty gradient', () => {
    const { builder, input } = scene()
    const x = input('x', column, [1, 2])
    const unused = input('unused', column, [1, 2])
    const compared = input('compared', column, [1, 2])
    const dy = input('dy', column, [1, 1])
    const y = builder.one('where', [builder.one('less', [compared, x], {}), x, x], {})
    const gradients = differentiate(builder, {
      outputs: [{ value: y, cotangent: dy }],
      wanted: [unused, compared],
    })
    expect(gradients.get(unused)).toEqual({ dense: undefined, rows: [] })
    expect(gradients.get(compared)).toEqual({ dense: undefined, rows: [] })
  })

  it('hands an output that is an input its cotangent', () => {
    const { builder, input } = scene()
    const x = input('x', column, [1, 2])
    const dx = input('dx', column, [1, 1])
    const gradients = differentiate(builder, { outputs: [{ value: x, cotangent: dx }], wanted: [x] })
    expect(gradients.get(x)).toEqual({ dense: dx, rows: [] })
  })

  it('marks new nodes with the block of what they are the derivative of', () => {
    const { builder, input } = scene()
    const x = input('x', column, [1, 2])
    const dy = input('dy', column, [1, 1])
    builder.startBlock('a')
    const a = builder.one('tanh', [x], {})
    builder.startBlock('b')
    const b = builder.one('exp', [a], {})
    const { dense } = differentiate(builder, { outputs: [{ value: b, cotangent: dy }], wanted: [x] }).get(x)!
    builder.output('dx', dense!)
    const graph = builder.build()
    const blocks = graph.nodes.map((node) => graph.blocks[node.block])
    expect(blocks.filter((block) => block === undefined)).toEqual([])
    expect(graph.nodes.at(-1)!.block).toBe(0)
    expect(blocks.filter((block) => block === 'b').length).toBe(2)
  })

  it('refuses a cotangent of another type', () => {
    const { builder, input } = scene()
    const x = input('x', column, [1, 2])
    const dy = input('dy', matrix, [1, 1, 1, 1, 1, 1])
    expect(() => differentiate(builder, { outputs: [{ value: x, cotangent: dy }], wanted: [x] })).toThrow(
      'cotangent f64[3, 2] of a value f64[2]',
    )
  })

  it('walks a graph of many nodes in a row', () => {
    const { builder, input, evaluate } = scene()
    const x = input('x', column, [0.1, 0.2])
    const dy = input('dy', column, [1, 1])
    let y = x
    for (let step = 0; step < 20_000; step++) y = builder.one('neg', [y], {})
    const { dense } = differentiate(builder, { outputs: [{ value: y, cotangent: dy }], wanted: [x] }).get(x)!
    expect(evaluate(dense!)).toEqual([1, 1])
  })
})
