import { describe, expect, it } from 'vitest'
import { GraphBuilder } from './builder.ts'
import { checkGraph } from './check.ts'
import { nodesBehind, sliceGraph } from './slice.ts'
import type { Graph } from './types.ts'

/** y = exp(n), where n and a statistic r of it come from one node. */
function normed(): Graph {
  const builder = new GraphBuilder()
  const x = builder.input('x', 'activation', { dtype: 'f32', shape: [2, 3] })
  const weight = builder.input('weight', 'parameter', { dtype: 'f32', shape: [3] })
  const [n, r] = builder.op('rmsNorm', [x, weight], { epsilon: 0 })
  builder.output('n', n!)
  builder.output('r', r!)
  builder.output('y', builder.one('mul', [builder.one('exp', [n!], {}), r!], {}))
  return builder.build()
}

function named(graph: Graph, name: string): number {
  return graph.outputs.find((output) => output.name === name)!.value
}

describe('sliceGraph', () => {
  const graph = normed()
  const given = (name: string): { name: string; kind: 'activation'; value: number } => ({
    name,
    kind: 'activation',
    value: named(graph, name),
  })
  const y = { name: 'y', value: named(graph, 'y') }

  it('stops at what is given', () => {
    const slice = sliceGraph(graph, [...graph.inputs, given('n'), given('r')], [y])
    checkGraph(slice)
    expect(slice.inputs.map(({ name }) => name)).toEqual(['n', 'r'])
    expect(slice.nodes.map(({ op }) => op)).toEqual(['exp', 'mul'])
  })

  it('runs a node again for the output that is not given, without making the given one twice', () => {
    const slice = sliceGraph(graph, [...graph.inputs, given('r')], [y])
    checkGraph(slice)
    expect(slice.inputs.map(({ name }) => name)).toEqual(['x', 'weight', 'r'])
    expect(slice.nodes.map(({ op }) => op)).toEqual(['rmsNorm', 'exp', 'mul'])
    const [norm, , product] = slice.nodes
    const r = slice.inputs[2]!.value
    expect(norm!.outputs).not.toContain(r)
    expect(product!.inputs).toContain(r)
  })
})

describe('nodesBehind', () => {
  const graph = normed()
  it('are those that the outputs need, up to given values', () => {
    const ops = (outputs: number[], given: number[]): string[] =>
      graph.nodes.filter((node) => nodesBehind(graph, outputs, new Set(given)).has(node)).map(({ op }) => op)
    expect(ops([named(graph, 'r')], [])).toEqual(['rmsNorm'])
    expect(ops([named(graph, 'y')], [named(graph, 'n'), named(graph, 'r')])).toEqual(['exp', 'mul'])
    expect(ops([named(graph, 'y')], [named(graph, 'n')])).toEqual(['rmsNorm', 'exp', 'mul'])
  })
})
