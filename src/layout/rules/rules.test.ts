import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { collect, spread } from '../../../test/support/layoutExecutor.ts'
import { computeByBlocks, drawAssignment, inferredOp } from '../../../test/support/layoutOps.ts'
import { meshes } from '../../../test/support/layouts.ts'
import { type OpCase, opCases } from '../../../test/support/opCases.ts'
import { Numbers, seeds } from '../../../test/support/randomTensors.ts'
import { opNames, ruleOf } from '../../graph/index.ts'
import { canCut, inputLayouts, outputLayouts } from '../index.ts'

const plain = { transposeA: false, transposeB: false, scale: 1 }

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
        const operands = opCase.inputs.map(({ data }, input) =>
          spread(data, node.inputs[input]!.shape, mesh, layouts[input]!, () => numbers.integer(-9, 9)),
        )
        const outputs = ruleOf(op).infer(types, opCase.attributes)
        const expected = ruleOf(op).reference(opCase.inputs, opCase.attributes, outputs)
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
      { numRuns: op === 'causalMask' ? 6 : 30, seed: 7 },
    )
    // What a rank communicates is a block already.
    if (op === 'communicate') expect(cuts).toBe(0)
    else expect(cuts).toBeGreaterThan(0)
  })

  const f64 = (...shape: number[]) => ({ dtype: 'f64', shape }) as const

  it.each([
    // Heads of two elements each are whole in two or five parts of the row, not in four, though that has room.
    ['reshape', { shape: [10, 2] }, [f64(20)], 'g0', [2, 5, 10], [3, 4, 20]],
    ['reshape', { shape: [10] }, [f64(10)], 'g0', [2, 5, 10], [3, 4, 11]],
    ['reshape', { shape: [24] }, [f64(4, 6)], 'g0', [2, 4], [3, 6, 8]],
    // The inner of two dims that become one: no run of the whole, but a factor of it.
    ['reshape', { shape: [24] }, [f64(4, 6)], 'g1', [2, 3, 6], [4, 8]],
    // Six query heads share three kv heads.
    [
      'attention',
      { scale: 1, causal: true },
      [f64(2, 6, 4, 5), f64(2, 3, 4, 5), f64(2, 3, 4, 5)],
      'heads',
      [3],
      [2, 6],
    ],
    // A part of the queries knows which keys it sees where that is an operand.
    [
      'attention',
      { scale: 1, causal: false },
      [f64(2, 2, 4, 5), f64(2, 2, 4, 5), f64(2, 2, 4, 5), { dtype: 'bool', shape: [4, 4] }],
      'queries',
      [2, 4],
      [3],
    ],
    // A roll among ranks that have one element each.
    ['roll', { dim: 1, shift: 1 }, [f64(3, 4)], 'd1', [4], [2]],
    ['roll', { dim: 1, shift: 1 }, [f64(4, 3)], 'd0', [2, 4], [3]],
    ['matmul', plain, [f64(7, 5), f64(5, 3)], 'inner', [5], [2, 3, 6]],
  ] as const)(
    '%s %j cuts %j along %s in %j parts and not in %j',
    (op, attributes, inputs, index, can, cannot) => {
      const node = inferredOp({ op, attributes, inputs })
      const cuts = (size: number): boolean =>
        canCut(node.signature, node, { axes: [{ name: 'a', size }] }, index, ['a'])
      expect(can.map(cuts)).toEqual(can.map(() => true))
      expect(cannot.map(cuts)).toEqual(cannot.map(() => false))
    },
  )

  it('cut no index that every rank needs whole', () => {
    const node = inferredOp({ op: 'softmax', attributes: {}, inputs: [f64(4, 6)] })
    expect(node.signature.inputs).toEqual([['d0', '']])
    expect(canCut(node.signature, node, { axes: [{ name: 'a', size: 2 }] }, '', ['a'])).toBe(false)
  })
})
