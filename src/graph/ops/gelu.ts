import type { OnnxEmitter, OpRule } from '../rule.ts'
import type { DType, FloatDType } from '../types.ts'
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
 * sigmoid(2u) and 2 cubic x^2: since (1 + tanh u)/2 = sigmoid(2u), gelu is x sigmoid(2u), with two ops less than the
 * tanh form and without its cancellation at negative x.
 */
function sigmoidForm(emit: OnnxEmitter, x: string, dtype: FloatDType): { sigmoid: string; square: string } {
  const square = one(emit, 'Mul', [one(emit, 'Mul', [x, x]), scalarConstant(emit, dtype, 2 * cubic)])
  const slope = one(emit, 'Add', [square, scalarConstant(emit, dtype, 2 * linear)])
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
    ({ builder, inputs, cotangents }) => builder.one('geluTanhGradient', [inputs[0]!, cotangents[0]!], {}),
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
    return emit.node('Mul', [inputs[0]!, sigmoidForm(emit, inputs[0]!, 'f64').sigmoid])
  },
}

export const geluTanhGradient: OpRule<'geluTanhGradient'> = {
  summary: 'cotangent times the derivative of GELU in its tanh form',
  elementwise: true,
  infer: (inputs) => {
    requireOperands('geluTanhGradient', inputs, 2)
    return [elementwiseType('geluTanhGradient', inputs, commonDType('geluTanhGradient', inputs, floats))]
  },
  vjp: [
    // With t = tanh u: gelu'' = (1 - t^2) (u' + x/2 (u'' - 2 t u'^2)).
    ({ builder, inputs, cotangents }) => {
      const [x, dy] = inputs as [number, number]
      const square = mul(builder, x, x)
      const u = mul(builder, x, add(builder, scaled(builder, square, cubic), scalarLike(builder, x, linear)))
      const du = add(builder, scaled(builder, square, 3 * cubic), scalarLike(builder, x, linear))
      const t = builder.one('tanh', [u], {})
      const bend = sub(
        builder,
        scaled(builder, x, 6 * cubic),
        scaled(builder, mul(builder, t, mul(builder, du, du)), 2),
      )
      const inner = add(builder, du, scaled(builder, mul(builder, x, bend), 0.5))
      const second = mul(builder, sub(builder, scalarLike(builder, x, 1), mul(builder, t, t)), inner)
      return sumTo(builder, mul(builder, mul(builder, cotangents[0]!, dy), second), builder.type(x))
    },
    ({ builder, inputs, cotangents }) =>
      sumTo(
        builder,
        builder.one('geluTanhGradient', [inputs[0]!, cotangents[0]!], {}),
        builder.type(inputs[1]!),
      ),
  ],
  cost: perOutputElement(14),
  reference: ([x, dy], _attributes, [type]) => {
    const result = zeros(type!)
    const values = expanded(x!, type!.shape)
    const cotangents = expanded(dy!, type!.shape)
    for (let index = 0; index < result.data.length; index++) {
      const value = values[index]!
      const t = Math.tanh(linear * value + cubic * value ** 3)
      const slope = linear + 3 * cubic * value ** 2
      result.data[index] = cotangents[index]! * (0.5 * (1 + t) + 0.5 * value * (1 - t * t) * slope)
    }
    return [result]
  },
  // With s = sigmoid(2u) the derivative is s (1 + (1 - s) 2 x u'), and 2 u' = 2 linear + 3 (2 cubic x^2).
  onnx: ({ emit, inputs, inputTypes }) => {
    const [x, dy] = inputs as [string, string]
    const dtype = inputTypes[0]!.dtype as FloatDType
    const { sigmoid, square } = sigmoidForm(emit, x, dtype)
    const tripled = one(emit, 'Mul', [square, scalarConstant(emit, dtype, 3)])
    const slope = one(emit, 'Add', [tripled, scalarConstant(emit, dtype, 2 * linear)])
    const rest = one(emit, 'Sub', [scalarConstant(emit, dtype, 1), sigmoid])
    const bend = one(emit, 'Mul', [rest, one(emit, 'Mul', [x, slope])])
    const ratio = one(emit, 'Add', [bend, scalarConstant(emit, dtype, 1)])
    return emit.node('Mul', [dy, one(emit, 'Mul', [sigmoid, ratio])])
  },
}
