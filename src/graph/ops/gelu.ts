import type { GraphBuilder } from '../builder.ts'
import type { OnnxEmitter, OpRule } from '../rule.ts'
import type { DType, TensorType, ValueId } from '../types.ts'
import { emitScaledShifted } from './affine.ts'
import { perOutputElement } from './cost.ts'
import { add, mul, scalarLike, scaled, sub, sumTo } from './derivatives.ts'
import { expanded, zeros } from './elements.ts'
import { one, scalarConstant } from './lowering.ts'
import { commonDType, elementwiseType, requireOperands } from './shapes.ts'

// gelu(x) = x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3): Hendrycks and Gimpel, "Gaussian Error Linear
// Units", section 2, the form that GPT-2 has.
const linear: number = Math.sqrt(2 / Math.PI)
const cubic: number = linear * 0.044715

const floats: readonly DType[] = ['f32', 'f64']

/**
 * sigmoid(2u) and x^2: since (1 + tanh u)/2 = sigmoid(2u), gelu is x sigmoid(2u), with two ops less than the tanh form
 * and without its cancellation at negative x.
 */
function sigmoidForm(emit: OnnxEmitter, x: string, type: TensorType): { sigmoid: string; square: string } {
  const square = one(emit, 'Mul', [x, x])
  const slope = emitScaledShifted(emit, square, type, 2 * cubic, 2 * linear)
  return { sigmoid: one(emit, 'Sigmoid', [one(emit, 'Mul', [x, slope])]), square }
}

export const geluTanh: OpRule<'geluTanh'> = {
  summary: 'GELU in its tanh form',
  elementwise: true,
  infer: (inputs) => {
    requireOperands('geluTanh', inputs, 1)
    return [elementwiseType('geluTanh', inputs, commonDType('geluTanh', inputs, floats))]
  },
  vjp: [
    ({ builder, inputs, outputs, cotangents }) =>
      builder.one('geluTanhGradient', [inputs[0]!, outputs[0]!, cotangents[0]!], {}),
  ],
  cost: perOutputElement(8),
  reference: ([x], _attributes, [type]) => {
    const result = zeros(type!)
    for (let index = 0; index < result.data.length; index++) {
      const value = x!.data[index]!
      result.data[index] = 0.5 * value * (1 + Math.tanh(linear * value + cubic * value ** 3))
    }
    return [result]
  },
  onnx: ({ emit, inputs, inputTypes }) => {
    // In double ONNX Runtime has the op only as a function with float32 constants.
    if (inputTypes[0]!.dtype === 'f32') return emit.node('Gelu', inputs, { approximate: { string: 'tanh' } })
    return emit.node('Mul', [inputs[0]!, sigmoidForm(emit, inputs[0]!, inputTypes[0]!).sigmoid])
  },
}

/** x -> sigmoid(2u), its complement to 1, and (2u)'. */
function parts(builder: GraphBuilder, x: ValueId): { s: ValueId; rest: ValueId; slope: ValueId } {
  const square = mul(builder, x, x)
  const line = (factor: number): ValueId =>
    add(builder, scaled(builder, square, factor * cubic), scalarLike(builder, x, 2 * linear))
  const s = builder.one('sigmoid', [mul(builder, x, line(2))], {})
  return { s, rest: sub(builder, scalarLike(builder, x, 1), s), slope: line(6) }
}

// With s = sigmoid(2u) the derivative of x s is s + x s (1 - s) (2u)', where x s = y is there already: of eleven passes
// over the elements that saves one.
export const geluTanhGradient: OpRule<'geluTanhGradient'> = {
  summary: 'cotangent times the derivative of GELU in its tanh form',
  elementwise: true,
  infer: (inputs) => {
    requireOperands('geluTanhGradient', inputs, 3)
    return [elementwiseType('geluTanhGradient', inputs, commonDType('geluTanhGradient', inputs, floats))]
  },
  vjp: [
    ({ builder, inputs, cotangents }) => {
      const [x, y, dy] = inputs as [number, number, number]
      const { s, rest, slope } = parts(builder, x)
      const direct = sub(builder, scalarLike(builder, x, 1), mul(builder, y, slope))
      const throughS = mul(builder, mul(builder, mul(builder, s, rest), slope), direct)
      const throughSlope = mul(builder, mul(builder, rest, y), scaled(builder, x, 12 * cubic))
      const whole = mul(builder, mul(builder, cotangents[0]!, dy), add(builder, throughS, throughSlope))
      return sumTo(builder, whole, builder.type(x))
    },
    ({ builder, inputs, cotangents }) => {
      const [x, y, dy] = inputs as [number, number, number]
      const { rest, slope } = parts(builder, x)
      const whole = mul(builder, mul(builder, cotangents[0]!, dy), mul(builder, rest, slope))
      return sumTo(builder, whole, builder.type(y))
    },
    ({ builder, inputs, cotangents }) => {
      const [x, y, dy] = inputs as [number, number, number]
      const gradient = builder.one('geluTanhGradient', [x, y, cotangents[0]!], {})
      return sumTo(builder, gradient, builder.type(dy))
    },
  ],
  cost: perOutputElement(12),
  reference: ([x, y, dy], _attributes, [type]) => {
    const result = zeros(type!)
    const [values, geluValues, cotangents] = [x!, y!, dy!].map((tensor) => expanded(tensor, type!.shape))
    for (let index = 0; index < result.data.length; index++) {
      const value = values![index]!
      const t = Math.tanh(linear * value + cubic * value ** 3)
      const slope = linear + 3 * cubic * value ** 2
      const derivative = 0.5 * (1 + t) + geluValues![index]! * (1 - t) * slope
      result.data[index] = cotangents![index]! * derivative
    }
    return [result]
  },
  onnx: ({ emit, inputs, inputTypes }) => {
    const [x, y, dy] = inputs as [string, string, string]
    const type = inputTypes[0]!
    const { sigmoid, square } = sigmoidForm(emit, x, type)
    const slope = emitScaledShifted(emit, square, type, 6 * cubic, 2 * linear)
    const rest = one(emit, 'Sub', [scalarConstant(emit, type.dtype, 1), sigmoid])
    const bend = one(emit, 'Mul', [one(emit, 'Mul', [rest, y]), slope])
    return emit.node('Mul', [dy, one(emit, 'Add', [bend, sigmoid])])
  },
}
