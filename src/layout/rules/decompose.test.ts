import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { collectives, expectSame, runLocal } from '../../../test/support/layoutGraph.ts'
import { type OpCase, opCases } from '../../../test/support/opCases.ts'
import { Numbers } from '../../../test/support/randomTensors.ts'
import { type Graph, GraphBuilder, ruleOf, type Tensor } from '../../graph/index.ts'
import { type DecomposedName, decompose, type Layout, localGraph, type Mesh, makeLayout } from '../index.ts'

function decomposed({ op, attributes, inputs }: OpCase): Graph {
  const builder = new GraphBuilder()
  const values = inputs.map(({ type }, index) => builder.input(`x${index}`, 'activation', type))
  for (const [index, value] of decompose(builder, op, attributes, values)!.entries())
    builder.output(`y${index}`, value)
  return builder.build({ keepInputs: true })
}

function named(inputs: readonly Tensor[]): Map<string, Tensor> {
  return new Map(inputs.map((tensor, index) => [`x${index}`, tensor]))
}

/** The last dim cut by `tensor`, the first by `data` where they are even. */
function cutLayout(shape: readonly number[], operand: number, isLabels: boolean): Layout {
  return makeLayout(
    shape.map((size, dim) => {
      if (!isLabels && dim === shape.length - 1 && size % 2 === 0) return ['tensor']
      return dim === 0 && operand !== 1 && size % 2 === 0 ? ['data'] : []
    }),
  )
}

describe('decompositions', () => {
  const names: readonly DecomposedName[] = ['softmax', 'layerNorm', 'rmsNorm', 'crossEntropy']
  const mesh: Mesh = {
    axes: [
      { name: 'data', size: 2 },
      { name: 'tensor', size: 2 },
    ],
  }

  it.each(names)('%s is the op, with its last dim cut', (op) => {
    fc.assert(
      fc.property(opCases[op]('f64') as fc.Arbitrary<OpCase>, (opCase) => {
        const types = opCase.inputs.map(({ type }) => type)
        const rule = ruleOf(op)
        const outputs = rule.infer(types, opCase.attributes)
        const expected = rule.reference(opCase.inputs, opCase.attributes, outputs)
        const isLabels = (name: string): boolean => op === 'crossEntropy' && name === 'x1'
        const graph = decomposed(opCase)
        const partition = localGraph(graph, mesh, ({ role, name, type: { shape } }) =>
          role === 'input' ? cutLayout(shape, Number(name!.slice(1)), isLabels(name!)) : undefined,
        )
        const run = runLocal(partition, mesh, named(opCase.inputs))
        expectSame(run, new Map(expected.map((tensor, output) => [`y${output}`, tensor])))
      }),
      { numRuns: 30 },
    )
  })

  /** Megatron-LM's loss all-reduces a maximum, the label's logit and a sum for each row; here the second waits for the sum over rows. */
  it('of a loss over a cut vocabulary all-reduces two numbers a row and never the logits', () => {
    const [rows, classes, parts] = [6, 20, 4]
    const line: Mesh = { axes: [{ name: 'tensor', size: parts }] }
    const numbers = new Numbers(7)
    const inputs = [numbers.floats('f64', [rows, classes], -2, 2), numbers.integers([rows], -1, classes - 1)]
    const graph = decomposed({ op: 'crossEntropy', attributes: {}, inputs })
    const partition = localGraph(graph, line, ({ role, name }) =>
      role === 'input' ? makeLayout(name === 'x0' ? [[], ['tensor']] : [[]]) : undefined,
    )
    expect(collectives(partition)).toEqual([
      `allReduce of ${rows} x 1 over tensor`,
      `allReduce of ${rows} x 1 over tensor`,
    ])
    const { sentBytes } = runLocal(partition, line, named(inputs))
    expect(sentBytes / 8 / parts).toBe(2 * 2 * ((parts - 1) / parts) * rows)
  })
})
