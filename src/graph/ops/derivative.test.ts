import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { applyCase } from '../../../test/support/graphs.ts'
import { type OpCase, opCases } from '../../../test/support/opCases.ts'
import { Numbers } from '../../../test/support/randomTensors.ts'
import {
  type Cotangent,
  GraphBuilder,
  interpretGraph,
  isFloat,
  makeTensor,
  opNames,
  ruleOf,
  type Tensor,
} from '../index.ts'

/** Central differences of a third derivative of order 1 err by 1e-10 of it; rounding by 1e-16 / step = 1e-11. */
const step = 1e-5
const tolerance = 1e-6

interface Weighted {
  readonly testCase: OpCase
  /** Cotangent of each output that the loss depends on. */
  readonly seeds: readonly (Tensor | undefined)[]
}

function weighted(testCase: OpCase, seed: number): Weighted {
  const numbers = new Numbers(seed)
  const types = ruleOf(testCase.op).infer(
    testCase.inputs.map((input) => input.type),
    testCase.attributes,
  )
  const seeds = types.map((type, index) => {
    const isSeeded = testCase.seeded?.[index] ?? index === 0
    return isSeeded && isFloat(type.dtype) ? numbers.floats(type.dtype, type.shape) : undefined
  })
  return { testCase, seeds }
}

/** Sum of outputs times cotangents. */
function loss({ testCase, seeds }: Weighted, inputs: readonly Tensor[]): number {
  const types = ruleOf(testCase.op).infer(
    inputs.map((input) => input.type),
    testCase.attributes,
  )
  const outputs = ruleOf(testCase.op).reference(inputs, testCase.attributes, types)
  let sum = 0
  seeds.forEach((seed, index) => {
    seed?.data.forEach((weight, element) => {
      sum += weight * outputs[index]!.data[element]!
    })
  })
  return sum
}

function finiteDifferences(problem: Weighted, operand: number): number[] {
  const { inputs } = problem.testCase
  return Array.from(inputs[operand]!.data, (value, element) => {
    const at = (moved: number): number =>
      loss(
        problem,
        inputs.map((input, index) =>
          index === operand ? makeTensor(input.type, Array.from(input.data).with(element, moved)) : input,
        ),
      )
    return (at(value + step) - at(value - step)) / (2 * step)
  })
}

/** What the op's own rule gives for `operand`, evaluated. */
function derivative({ testCase, seeds }: Weighted, operand: number): Tensor | undefined {
  const builder = new GraphBuilder()
  const given = new Map<string, Tensor>()
  const declare = (name: string, tensor: Tensor): number => {
    given.set(name, tensor)
    return builder.input(name, 'activation', tensor.type)
  }
  const inputs = testCase.inputs.map((input, index) => declare(`x${index}`, input))
  const outputs = applyCase(builder, testCase, inputs)
  const cotangents = seeds.map((seed, index) => seed && declare(`dy${index}`, seed))
  const rule = ruleOf(testCase.op)
  const context = { builder, attributes: testCase.attributes, inputs, outputs, cotangents }
  const made = rule.vjp === 'variadic' ? rule.vjpVariadic!(context, operand) : rule.vjp?.[operand]?.(context)
  if (made === undefined) return undefined
  builder.output('dx', dense(builder, made, inputs[operand]!))
  return interpretGraph(builder.build(), given).get('dx')!
}

function dense(builder: GraphBuilder, made: Cotangent, table: number): number {
  if (typeof made === 'number') return made
  const attributes = { rows: builder.type(table).shape[0]! }
  return builder.one('scatterRows', [made.rows.ids, made.rows.values], attributes)
}

const differentiable = opNames.filter((op) => {
  const { vjp } = ruleOf(op)
  return vjp === 'variadic' || vjp?.some((rule) => rule !== null)
})

describe.each(differentiable)('derivative of %s', (op) => {
  it('equals central finite differences for each operand', () => {
    fc.assert(
      fc.property(opCases[op]('f64') as fc.Arbitrary<OpCase>, fc.integer(), (testCase, seed) => {
        const problem = weighted(testCase, seed)
        if (problem.seeds.every((tensor) => tensor === undefined)) return
        testCase.inputs.forEach((input, operand) => {
          if (!isFloat(input.type.dtype)) return
          // None: it is zero.
          const found =
            derivative(problem, operand) ??
            makeTensor(
              input.type,
              input.data.map(() => 0),
            )
          expect(found.type).toMatchObject({ dtype: input.type.dtype, shape: input.type.shape })
          const expected = finiteDifferences(problem, operand)
          const largest = expected.reduce((sofar, value) => Math.max(sofar, Math.abs(value)), 1)
          expected.forEach((value, element) => {
            expect(Math.abs(found.data[element]! - value)).toBeLessThanOrEqual(tolerance * largest)
          })
        })
      }),
      { numRuns: 50 },
    )
  })
})

describe.each(opNames)('rule of %s', (op) => {
  it('says for each operand whether it has a derivative', () => {
    fc.assert(
      fc.property(opCases[op]('f64') as fc.Arbitrary<OpCase>, ({ inputs }) => {
        const { vjp, vjpVariadic } = ruleOf(op)
        if (vjp === 'variadic') expect(vjpVariadic).toBeDefined()
        // Attention has an operand that may be left out.
        else expect(vjp?.slice(0, op === 'attention' ? inputs.length : undefined)).toHaveLength(inputs.length)
      }),
      { numRuns: 5 },
    )
  })
})

describe('where a derivative jumps', () => {
  function derivativesOf(op: 'abs' | 'max' | 'min' | 'reduceMax', inputs: readonly number[][]): number[][] {
    const type = { dtype: 'f64', shape: [inputs[0]!.length] } as const
    const attributes = op === 'reduceMax' ? { dims: [0], keepDims: false } : {}
    const testCase = { op, attributes, inputs: inputs.map((data) => makeTensor(type, data)) } as OpCase
    const outputShape = op === 'reduceMax' ? [] : type.shape
    const ones = makeTensor({ dtype: 'f64', shape: outputShape }, outputShape.length === 0 ? [1] : [1, 1, 1])
    return inputs.map((_, operand) => Array.from(derivative({ testCase, seeds: [ones] }, operand)!.data))
  }

  it('abs has none at 0', () => {
    expect(derivativesOf('abs', [[-2, 0, 2]])).toEqual([[-1, 0, 1]])
  })

  it('equal operands have one derivative between them', () => {
    expect(
      derivativesOf('max', [
        [1, 2, 3],
        [3, 2, 1],
      ]),
    ).toEqual([
      [0, 1, 1],
      [1, 0, 0],
    ])
    expect(
      derivativesOf('min', [
        [1, 2, 3],
        [3, 2, 1],
      ]),
    ).toEqual([
      [1, 1, 0],
      [0, 0, 1],
    ])
    expect(derivativesOf('reduceMax', [[5, 1, 5]])).toEqual([[0.5, 0, 0.5]])
  })
})

describe('ops with outputs for their own derivative', () => {
  it.each([
    ['layerNorm', 2],
    ['rmsNorm', 1],
    ['attention', 1],
    ['crossEntropy', 1],
  ] as const)('%s refuses a cotangent of output %i', (op, output) => {
    const [testCase] = fc.sample(opCases[op]('f64') as fc.Arbitrary<OpCase>, { numRuns: 1, seed: 1 })
    const seeded = [true, true, true].map((_, index) => index === 0 || index === output)
    expect(() => derivative(weighted({ ...testCase!, seeded }, 1), 0)).toThrow(/^internal: /)
  })
})
