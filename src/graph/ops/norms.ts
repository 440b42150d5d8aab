import type { GraphBuilder } from '../builder.ts'
import type { OnnxEmitter, OpRule } from '../rule.ts'
import type { DType, FloatDType, OpName, TensorType, ValueId } from '../types.ts'
import { perInputElement } from './cost.ts'
import { add, mul, onlyFirstCotangent, scaled, sub, sumTo } from './derivatives.ts'
import { zeros } from './elements.ts'
import { integers, one, scalarConstant } from './lowering.ts'
import { commonDType, requireOperands, shapeError, withLastSize } from './shapes.ts'

const floats: readonly DType[] = ['f32', 'f64']

/** Operands (x [..., n], then vectors [n]) of an op over the last dim. */
function checkOverLast(op: OpName, inputs: readonly TensorType[], vectors: number, epsilon: number): void {
  requireOperands(op, inputs, 1 + vectors)
  commonDType(op, inputs, floats)
  const size = inputs[0]!.shape.at(-1)
  if (size === undefined || size === 0) throw shapeError(op, inputs, 'needs a last dim that is not empty')
  for (const vector of inputs.slice(1))
    if (vector.shape.length !== 1 || vector.shape[0] !== size)
      throw shapeError(op, inputs, `weights must have the shape [${size}]`)
  if (!Number.isFinite(epsilon) || epsilon < 0) throw shapeError(op, inputs, `${epsilon} is not an epsilon`)
}

/** Mean over the last dim, kept with size 1. */
function emitLastMean(emit: OnnxEmitter, x: string): string {
  return one(emit, 'ReduceMean', [x, integers(emit, [-1])])
}

/** 1 / sqrt(meanSquare + epsilon) */
function emitInverseRoot(emit: OnnxEmitter, x: string, dtype: FloatDType, epsilon: number): string {
  const square = emitLastMean(emit, one(emit, 'Mul', [x, x]))
  const shifted = one(emit, 'Add', [square, scalarConstant(emit, dtype, epsilon)])
  return one(emit, 'Reciprocal', [one(emit, 'Sqrt', [shifted])])
}

/**
 * Mean of x weight over the last dim, as a product of x and weight / n. Of `x normal` the derivative with respect to
 * weight needs x normal as well, so that this takes no pass of its own over the elements.
 */
function weightedMean(builder: GraphBuilder, x: ValueId, weight: ValueId): ValueId {
  const [size] = builder.type(weight).shape as [number]
  const column = builder.one('reshape', [scaled(builder, weight, 1 / size)], { shape: [size, 1] })
  const attributes = { transposeA: false, transposeB: false, scale: 1 }
  const { shape } = builder.type(x)
  if (shape.length > 1) return builder.one('matmul', [x, column], attributes)
  const row = builder.one('reshape', [x], { shape: [1, size] })
  return builder.one('reshape', [builder.one('matmul', [row, column], attributes)], { shape: [1] })
}

export const softmax: OpRule<'softmax'> = {
  summary: 'exponentials over the last dim, divided by their sum',
  infer: (inputs) => {
    checkOverLast('softmax', inputs, 0, 0)
    return [inputs[0]!]
  },
  vjp: [
    ({ builder, outputs, cotangents }) => {
      const [y] = outputs as [number]
      const weighted = mul(builder, cotangents[0]!, y)
      const last = builder.type(y).shape.length - 1
      const sum = builder.one('reduceSum', [weighted], { dims: [last], keepDims: true })
      return sub(builder, weighted, mul(builder, y, sum))
    },
  ],
  cost: perInputElement(5),
  reference: ([x], _attributes, [type]) => {
    const result = zeros(type!)
    const size = type!.shape.at(-1)!
    for (let start = 0; start < result.data.length; start += size) {
      const row = x!.data.subarray(start, start + size)
      let largest = Number.NEGATIVE_INFINITY
      for (const value of row) largest = Math.max(largest, value)
      let sum = 0
      for (const value of row) sum += Math.exp(value - largest)
      row.forEach((value, column) => {
        result.data[start + column] = Math.exp(value - largest) / sum
      })
    }
    return [result]
  },
  onnx: ({ emit, inputs }) => emit.node('Softmax', inputs, { axis: { int: -1 } }),
}

export const layerNorm: OpRule<'layerNorm'> = {
  summary: 'shifted and scaled to mean 0 and variance 1 over the last dim, times weight, plus bias',
  infer: (inputs, { epsilon }) => {
    checkOverLast('layerNorm', inputs, 2, epsilon)
    const column = withLastSize(inputs[0]!, 1)
    return [inputs[0]!, column, column]
  },
  vjp: [
    // With n = (x - mean) / deviation and g = dy weight: dx = (g - (n mean(g n) + mean(g))) / deviation.
    (context) => {
      const { builder, inputs, outputs } = context
      const inverse = outputs[2]!
      const cotangent = onlyFirstCotangent('layerNorm', context)
      const normal = mul(builder, sub(builder, inputs[0]!, outputs[1]!), inverse)
      const shift = weightedMean(builder, cotangent, inputs[1]!)
      const stretch = weightedMean(builder, mul(builder, cotangent, normal), inputs[1]!)
      const along = add(builder, mul(builder, normal, stretch), shift)
      return mul(builder, sub(builder, mul(builder, cotangent, inputs[1]!), along), inverse)
    },
    (context) => {
      const { builder, inputs, outputs } = context
      const normal = mul(builder, sub(builder, inputs[0]!, outputs[1]!), outputs[2]!)
      const product = mul(builder, onlyFirstCotangent('layerNorm', context), normal)
      return sumTo(builder, product, builder.type(inputs[1]!))
    },
    (context) => {
      const { builder, inputs } = context
      return sumTo(builder, onlyFirstCotangent('layerNorm', context), builder.type(inputs[2]!))
    },
  ],
  cost: perInputElement(8),
  reference: ([x, weight, bias], { epsilon }, types) => {
    const [y, means, inverses] = types.map(zeros)
    const size = weight!.data.length
    for (let row = 0; row < means!.data.length; row++) {
      const start = row * size
      let mean = 0
      for (let column = 0; column < size; column++) mean += x!.data[start + column]!
      mean /= size
      let variance = 0
      for (let column = 0; column < size; column++) variance += (x!.data[start + column]! - mean) ** 2
      const inverse = 1 / Math.sqrt(variance / size + epsilon)
      for (let column = 0; column < size; column++)
        y!.data[start + column] =
          (x!.data[start + column]! - mean) * inverse * weight!.data[column]! + bias!.data[column]!
      means!.data[row] = mean
      inverses!.data[row] = inverse
    }
    return [y!, means!, inverses!]
  },
  onnx: ({ emit, attributes: { epsilon }, inputs, inputTypes, used }) => {
    const dtype = inputTypes[0]!.dtype as FloatDType
    const [x, weight, bias] = inputs as [string, string, string]
    if (dtype === 'f32') {
      const attributes = { axis: { int: -1 }, epsilon: { float: epsilon } }
      const outputs = used[1] || used[2] ? 3 : 1
      const made = emit.node('LayerNormalization', inputs, attributes, { outputs })
      return [made[0]!, made[1] ?? '', made[2] ?? '']
    }
    // In double the op gives its statistics, and takes its epsilon, as float32.
    const mean = emitLastMean(emit, x)
    const centred = one(emit, 'Sub', [x, mean])
    const inverse = emitInverseRoot(emit, centred, dtype, epsilon)
    const scaled = one(emit, 'Mul', [one(emit, 'Mul', [centred, inverse]), weight])
    return [one(emit, 'Add', [scaled, bias]), mean, inverse]
  },
}

export const rmsNorm: OpRule<'rmsNorm'> = {
  summary: 'scaled to a mean square of 1 over the last dim, times weight',
  infer: (inputs, { epsilon }) => {
    checkOverLast('rmsNorm', inputs, 1, epsilon)
    return [inputs[0]!, withLastSize(inputs[0]!, 1)]
  },
  vjp: [
    // With n = x / rms and g = dy weight: dx = (g - n mean(g n)) / rms.
    (context) => {
      const { builder, inputs, outputs } = context
      const inverse = outputs[1]!
      const normal = mul(builder, inputs[0]!, inverse)
      const cotangent = onlyFirstCotangent('rmsNorm', context)
      const stretch = weightedMean(builder, mul(builder, cotangent, normal), inputs[1]!)
      const weighted = mul(builder, cotangent, inputs[1]!)
      return mul(builder, sub(builder, weighted, mul(builder, normal, stretch)), inverse)
    },
    (context) => {
      const { builder, inputs, outputs } = context
      const normal = mul(builder, inputs[0]!, outputs[1]!)
      const product = mul(builder, onlyFirstCotangent('rmsNorm', context), normal)
      return sumTo(builder, product, builder.type(inputs[1]!))
    },
  ],
  cost: perInputElement(5),
  reference: ([x, weight], { epsilon }, types) => {
    const [y, inverses] = types.map(zeros)
    const size = weight!.data.length
    for (let row = 0; row < inverses!.data.length; row++) {
      const start = row * size
      let square = 0
      for (let column = 0; column < size; column++) square += x!.data[start + column]! ** 2
      const inverse = 1 / Math.sqrt(square / size + epsilon)
      for (let column = 0; column < size; column++)
        y!.data[start + column] = x!.data[start + column]! * inverse * weight!.data[column]!
      inverses!.data[row] = inverse
    }
    return [y!, inverses!]
  },
  onnx: ({ emit, attributes: { epsilon }, inputs, inputTypes }) => {
    const [x, weight] = inputs as [string, string]
    const dtype = inputTypes[0]!.dtype as FloatDType
    if (dtype === 'f32') {
      const attributes = { axis: { int: -1 }, epsilon: { float: epsilon } }
      return emit.node('SimplifiedLayerNormalization', inputs, attributes, { outputs: 2 })
    }
    const inverse = emitInverseRoot(emit, x, dtype, epsilon)
    return [one(emit, 'Mul', [one(emit, 'Mul', [x, inverse]), weight]), inverse]
  },
}
