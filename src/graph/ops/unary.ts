import type { GraphBuilder } from '../builder.ts'
import type { OpRule } from '../rule.ts'
import { isFloat } from '../tensor.ts'
import type { DType, ValueId } from '../types.ts'
import { perOutputElement } from './cost.ts'
import { mul, scalarLike, scaled, sub } from './derivatives.ts'
import { zeros } from './elements.ts'
import { onnxDataType } from './lowering.ts'
import { commonDType, elementwiseType, requireOperands } from './shapes.ts'

type UnaryName = 'neg' | 'abs' | 'exp' | 'log' | 'sqrt' | 'reciprocal' | 'tanh' | 'sigmoid'

interface UnaryDefinition {
  readonly summary: string
  readonly flops: number
  readonly compute: (x: number) => number
  /** Cotangent of the operand `x`, given the result `y` and the cotangent `dy` of it. */
  readonly derivative: (builder: GraphBuilder, dy: ValueId, x: ValueId, y: ValueId) => ValueId
  readonly onnx: string
}

const floats: readonly DType[] = ['f32', 'f64']

function unary<K extends UnaryName>(op: K, definition: UnaryDefinition): OpRule<K> {
  return {
    summary: definition.summary,
    elementwise: true,
    infer: (inputs) => {
      requireOperands(op, inputs, 1)
      return [elementwiseType(op, inputs, commonDType(op, inputs, floats))]
    },
    vjp: [
      ({ builder, inputs, outputs, cotangents }) =>
        definition.derivative(builder, cotangents[0]!, inputs[0]!, outputs[0]!),
    ],
    cost: perOutputElement(definition.flops),
    reference: ([x], _attributes, [type]) => {
      const result = zeros(type!)
      for (let index = 0; index < result.data.length; index++)
        result.data[index] = definition.compute(x!.data[index]!)
      return [result]
    },
    onnx: ({ emit, inputs }) => emit.node(definition.onnx, inputs),
  }
}

export const neg: OpRule<'neg'> = unary('neg', {
  summary: '-x',
  flops: 1,
  compute: (x) => -x,
  derivative: (builder, dy) => builder.one('neg', [dy], {}),
  onnx: 'Neg',
})

export const abs: OpRule<'abs'> = unary('abs', {
  summary: '|x|, with derivative 0 at 0',
  flops: 1,
  compute: Math.abs,
  derivative: (builder, dy, x) => {
    const zero = scalarLike(builder, x, 0)
    const negative = builder.one('less', [x, zero], {})
    const positive = builder.one('less', [zero, x], {})
    const below = builder.one('where', [negative, builder.one('neg', [dy], {}), zero], {})
    return builder.one('where', [positive, dy, below], {})
  },
  onnx: 'Abs',
})

export const exp: OpRule<'exp'> = unary('exp', {
  summary: 'e to the x',
  flops: 1,
  compute: Math.exp,
  derivative: (builder, dy, _x, y) => mul(builder, dy, y),
  onnx: 'Exp',
})

export const log: OpRule<'log'> = unary('log', {
  summary: 'natural logarithm',
  flops: 1,
  compute: Math.log,
  derivative: (builder, dy, x) => builder.one('div', [dy, x], {}),
  onnx: 'Log',
})

export const sqrt: OpRule<'sqrt'> = unary('sqrt', {
  summary: 'square root',
  flops: 1,
  compute: Math.sqrt,
  derivative: (builder, dy, _x, y) => builder.one('div', [scaled(builder, dy, 0.5), y], {}),
  onnx: 'Sqrt',
})

export const reciprocal: OpRule<'reciprocal'> = unary('reciprocal', {
  summary: '1 / x',
  flops: 1,
  compute: (x) => 1 / x,
  derivative: (builder, dy, _x, y) => builder.one('neg', [mul(builder, dy, mul(builder, y, y))], {}),
  onnx: 'Reciprocal',
})

export const tanh: OpRule<'tanh'> = unary('tanh', {
  summary: 'hyperbolic tangent',
  flops: 1,
  compute: Math.tanh,
  derivative: (builder, dy, _x, y) => sub(builder, dy, mul(builder, dy, mul(builder, y, y))),
  onnx: 'Tanh',
})

export const sigmoid: OpRule<'sigmoid'> = unary('sigmoid', {
  summary: '1 / (1 + exp(-x))',
  flops: 3,
  compute: (x) => 1 / (1 + Math.exp(-x)),
  derivative: (builder, dy, _x, y) => mul(builder, dy, sub(builder, y, mul(builder, y, y))),
  onnx: 'Sigmoid',
})

export const not: OpRule<'not'> = {
  summary: 'logical negation',
  elementwise: true,
  infer: (inputs) => {
    requireOperands('not', inputs, 1)
    return [elementwiseType('not', inputs, commonDType('not', inputs, ['bool']))]
  },
  vjp: [null],
  cost: perOutputElement(1),
  reference: ([x], _attributes, [type]) => {
    const result = zeros(type!)
    for (let index = 0; index < result.data.length; index++) result.data[index] = x!.data[index] === 0 ? 1 : 0
    return [result]
  },
  onnx: ({ emit, inputs }) => emit.node('Not', inputs),
}

export const cast: OpRule<'cast'> = {
  summary: 'another dtype; floats become integers by truncation and bools by being other than 0',
  elementwise: true,
  infer: (inputs, { dtype }) => {
    requireOperands('cast', inputs, 1)
    return [elementwiseType('cast', inputs, dtype)]
  },
  vjp: [
    ({ builder, inputs, cotangents }) => {
      const { dtype } = builder.type(inputs[0]!)
      const cotangent = cotangents[0]!
      if (!isFloat(dtype) || !isFloat(builder.type(cotangent).dtype)) return undefined
      return builder.one('cast', [cotangent], { dtype })
    },
  ],
  cost: perOutputElement(0),
  reference: ([x], { dtype }, [type]) => {
    const result = zeros(type!)
    for (let index = 0; index < result.data.length; index++) {
      const value = x!.data[index]!
      result.data[index] = dtype === 'bool' ? (value === 0 ? 0 : 1) : value
    }
    return [result]
  },
  onnx: ({ emit, attributes: { dtype }, inputs, inputTypes }) =>
    inputTypes[0]!.dtype === dtype ? inputs : emit.node('Cast', inputs, { to: { int: onnxDataType[dtype] } }),
}
