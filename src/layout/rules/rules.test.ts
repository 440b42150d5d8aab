import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { collect, spread } from '../../../test/support/layoutExecutor.ts'
import { computeByBlocks, drawAssignment, inferredOp } from '../../../test/support/layoutOps.ts'
import { meshes } from '../../../test/support/layouts.ts'
import { type OpCase, opCases } from '../../../test/support/opCases.ts'
import { Numbers, seeds } from '../../../test/support/randomTensors.ts'
import { opNames, ruleOf } from '../../graph/index.ts'
import { inputLayouts, outputLayouts } from '../index.ts'

describe('layout rules', () => {
  it.each(opNames)('%s by blocks is the op', (op) => {
    let cuts = 0
    fc.assert(
      fc.property(opCases[op]('f64') as fc.Arbitrary<OpCase>, meshes, seeds, (opCase, mesh, seed) => {
        const numbers = new Numbers(seed)
        const types = opCase.inputs.map(({ type }) => type)
        const node = inferredOp({ op, attributes: opCase.attributes, inputs: types })
        const assignment = drawAssignment(node, mesh, (below) => numbers.integer(0, below - 1))
        const layouts = inputLayouts(node.signature, assignment)
        cuts += outputLayouts(node.signature, assignment).filter(
          ({ dims, partial }) => dims.flat().length + Object.keys(partial).length > 0,
        ).length
        const operands = opCase.inputs.map(({ data, type }, input) =>
          spread(data, type.shape, mesh, layouts[input]!, () => numbers.integer(-9, 9)),
        )
        const expected = ruleOf(op).reference(opCase.inputs, opCase.attributes, node.outputs)
        const results = computeByBlocks(node, operands, mesh, assignment)
        results.forEach((result, output) => {
          const whole = collect(result, 1e-9)
          const right = expected[output]!.data
          expect(whole.length).toBe(right.length)
          whole.forEach((value, index) => {
            if (!(Math.abs(value - right[index]!) <= 1e-9 * (1 + Math.abs(right[index]!))))
              expect(value).toBe(right[index]!)
          })
        })
      }),
      // Masks may be large.
      { numRuns: op === 'causalMask' ? 6 : 30 },
    )
    expect(cuts).toBeGreaterThan(0)
  })
})
