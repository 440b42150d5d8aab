import { describe, expect, it } from 'vitest'
import { GraphBuilder } from './builder.ts'
import { checkGraph } from './check.ts'
import type { Graph, Node } from './types.ts'

function valid(): Graph {
  const builder = new GraphBuilder()
  const type = { dtype: 'f32', shape: [2, 3] } as const
  const x = builder.input('x', 'activation', type)
  const y = builder.input('y', 'activation', type)
  builder.startBlock('b')
  const sum = builder.one('add', [x, y], {})
  builder.output('sum', sum)
  builder.output('total', builder.one('reduceSum', [sum], { dims: [0, 1], keepDims: false }))
  return builder.build()
}

function changedNode(change: Partial<Node>): Graph {
  const graph = valid()
  return { ...graph, nodes: graph.nodes.with(0, { ...graph.nodes[0]!, ...change } as Node) }
}

describe('checkGraph', () => {
  const graph = valid()
  it('accepts what a builder makes', () => {
    expect(() => checkGraph(graph)).not.toThrow()
  })

  const cases: readonly [string, Graph][] = [
    ['used before it is made', { ...graph, nodes: graph.nodes.toReversed() }],
    ['made twice', changedNode({ outputs: [0] })],
    ['no value 9', changedNode({ outputs: [9] })],
    ['value 9 is used before', changedNode({ inputs: [0, 9] })],
    ['no block 1', changedNode({ block: 1 })],
    [
      'makes f32[2, 3], not f64[2, 3]',
      { ...graph, values: graph.values.with(2, { type: { dtype: 'f64', shape: [2, 3] } }) },
    ],
    [
      'makes f32[2, 3], not f32[3, 2]',
      { ...graph, values: graph.values.with(2, { type: { dtype: 'f32', shape: [3, 2] } }) },
    ],
    [
      'two inputs have one name',
      { ...graph, inputs: graph.inputs.map((input) => ({ ...input, name: 'x' })) },
    ],
    [
      'two outputs have one name',
      { ...graph, outputs: graph.outputs.map(({ value }) => ({ name: 'y', value })) },
    ],
    ['value 9 is used before', { ...graph, outputs: [{ name: 'y', value: 9 }] }],
  ]
  it.each(cases)('refuses: %s', (message, broken) => {
    expect(() => checkGraph(broken)).toThrow(message)
  })
})
