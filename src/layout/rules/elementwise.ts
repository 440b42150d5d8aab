import { isFloat, type OpName, type TensorType } from '../../graph/index.ts'
import {
  anyReduction,
  dimIndices,
  type LayoutRule,
  type LayoutRules,
  linear,
  type TermRule,
} from './notation.ts'

/** Indices of an operand of an elementwise op: those of the result's dims that it is not repeated along. */
function alignedIndices(input: TensorType, output: TensorType): string[] {
  const missing = output.shape.length - input.shape.length
  return input.shape.map((size, dim) => (size === output.shape[missing + dim] ? `d${missing + dim}` : ''))
}

function elementwise<K extends OpName>(terms: readonly TermRule[] = []): LayoutRule<K> {
  return {
    signature: ({ inputs, outputs }) => ({
      inputs: inputs.map((input) => alignedIndices(input, outputs[0]!)),
      outputs: [dimIndices(outputs[0]!.shape.length)],
      terms,
    }),
  }
}

const linearIn = (...inputs: number[]): TermRule => ({ inputs, reductions: linear })

type ElementwiseName =
  | 'neg'
  | 'abs'
  | 'exp'
  | 'log'
  | 'sqrt'
  | 'reciprocal'
  | 'tanh'
  | 'sigmoid'
  | 'geluTanh'
  | 'not'
  | 'cast'
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  | 'max'
  | 'min'
  | 'equal'
  | 'less'
  | 'and'
  | 'where'
  | 'geluTanhGradient'

export const elementwiseRules: Pick<LayoutRules, ElementwiseName> = {
  neg: elementwise([linearIn(0)]),
  abs: elementwise(),
  exp: elementwise(),
  log: elementwise(),
  sqrt: elementwise(),
  reciprocal: elementwise(),
  tanh: elementwise(),
  sigmoid: elementwise(),
  geluTanh: elementwise(),
  not: elementwise(),
  cast: {
    signature: (context) => {
      const floats = isFloat(context.inputs[0]!.dtype) && isFloat(context.outputs[0]!.dtype)
      return elementwise<'cast'>(floats ? [{ inputs: [0], reductions: anyReduction }] : []).signature(context)
    },
  },
  // Both terms or none: a whole operand counts once (`keepOne`).
  add: elementwise([linearIn(0, 1)]),
  sub: elementwise([linearIn(0, 1)]),
  mul: elementwise([linearIn(0), linearIn(1)]),
  div: elementwise([linearIn(0)]),
  max: elementwise([{ inputs: [0, 1], reductions: ['max'] }]),
  min: elementwise(),
  equal: elementwise(),
  less: elementwise(),
  and: elementwise(),
  where: elementwise([{ inputs: [1, 2], reductions: anyReduction }]),
  geluTanhGradient: elementwise([linearIn(2)]),
}
