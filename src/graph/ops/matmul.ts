import type { GraphBuilder } from '../builder.ts'
import type { OpRule } from '../rule.ts'
import { axesOf, elementCount, sameShape, tensorType } from '../tensor.ts'
import type { OpAttributes, Tensor, TensorType, ValueId } from '../types.ts'
import { costOf } from './cost.ts'
import { mul, reshapeTo, sumTo } from './derivatives.ts'
import { broadcastStrides, offsetsOf, pick, rowMajorStrides, zeros } from './elements.ts'
import { emitMatmul } from './matmulOnnx.ts'
import { broadcastAxes, broadcastShapes, commonDType, requireOperands, shapeError } from './shapes.ts'

type Attributes = OpAttributes['matmul']

/** Sizes of the product of matrices in the last two dims. */
function sizesOf(a: readonly number[], b: readonly number[], { transposeA, transposeB }: Attributes) {
  return {
    rows: a.at(transposeA ? -1 : -2)!,
    inner: a.at(transposeA ? -2 : -1)!,
    innerB: b.at(transposeB ? -1 : -2)!,
    columns: b.at(transposeB ? -2 : -1)!,
  }
}

/**
 * Multiplies row-major matrices [rows, inner] and [inner, columns] into `out`, adding in order of the inner index. Four
 * inner indices at a time halve the time that a plain loop takes: this is where the interpreter spends it.
 */
function multiplyInto(
  out: Float64Array,
  outAt: number,
  a: Tensor['data'],
  aAt: number,
  b: Tensor['data'],
  bAt: number,
  rows: number,
  inner: number,
  columns: number,
): void {
  for (let row = 0; row < rows; row++) {
    const outRow = outAt + row * columns
    const aRow = aAt + row * inner
    let k = 0
    for (; k + 3 < inner; k += 4) {
      const [a0, a1, a2, a3] = [a[aRow + k]!, a[aRow + k + 1]!, a[aRow + k + 2]!, a[aRow + k + 3]!]
      const b0 = bAt + k * columns
      const b1 = b0 + columns
      const b2 = b1 + columns
      const b3 = b2 + columns
      for (let column = 0; column < columns; column++)
        out[outRow + column] =
          out[outRow + column]! +
          a0 * b[b0 + column]! +
          a1 * b[b1 + column]! +
          a2 * b[b2 + column]! +
          a3 * b[b3 + column]!
    }
    for (; k < inner; k++) {
      const factor = a[aRow + k]!
      const bRow = bAt + k * columns
      for (let column = 0; column < columns; column++) out[outRow + column]! += factor * b[bRow + column]!
    }
  }
}

/** The data of `tensor` with its last two dims swapped where asked. */
function asRowMajor(tensor: Tensor, swap: boolean): Tensor['data'] {
  if (!swap) return tensor.data
  const { dtype, shape } = tensor.type
  const rank = shape.length
  const order = [...shape.keys()].slice(0, -2).concat(rank - 1, rank - 2)
  const strides = rowMajorStrides(shape)
  const swapped = order.map((dim) => shape[dim]!)
  return pick(
    { dtype, shape: swapped },
    tensor.data,
    offsetsOf(
      swapped,
      order.map((dim) => strides[dim]!),
    ),
  ).data
}

export const matmul: OpRule<'matmul'> = {
  summary:
    'product of the matrices in the last two dims, either transposed, times a constant; leading dims broadcast',
  infer: (inputs, attributes) => {
    requireOperands('matmul', inputs, 2)
    const dtype = commonDType('matmul', inputs, ['f32', 'f64'])
    if (!Number.isFinite(attributes.scale)) throw shapeError('matmul', inputs, 'the scale must be finite')
    const [a, b] = inputs as [TensorType, TensorType]
    if (a.shape.length < 2 || b.shape.length < 2)
      throw shapeError('matmul', inputs, 'needs at least two dims')
    const { rows, inner, innerB, columns } = sizesOf(a.shape, b.shape, attributes)
    if (inner !== innerB) throw shapeError('matmul', inputs, `the inner sizes ${inner} and ${innerB} differ`)
    const batches = inputs.map((input) =>
      tensorType(dtype, input.shape.slice(0, -2), axesOf(input).slice(0, -2)),
    )
    const batch = broadcastShapes(batches.map((type) => type.shape))
    if (batch === undefined) throw shapeError('matmul', inputs, 'the leading dims do not broadcast')
    const outer = [
      axesOf(a).at(attributes.transposeA ? -1 : -2)!,
      axesOf(b).at(attributes.transposeB ? -2 : -1)!,
    ]
    return [tensorType(dtype, [...batch, rows, columns], [...broadcastAxes(batches, batch), ...outer])]
  },
  vjp: [
    ({ builder, attributes: { transposeA, transposeB, scale }, inputs, cotangents }) => {
      const [a, b] = inputs as [number, number]
      if (transposeA) {
        const attributes = { transposeA: transposeB, transposeB: true, scale }
        return sumTo(builder, builder.one('matmul', [b, cotangents[0]!], attributes), builder.type(a))
      }
      const { value, rowScale } = withoutRowScale(builder, cotangents[0]!, builder.type(a))
      const attributes = { transposeA: false, transposeB: !transposeB, scale }
      const product = builder.one('matmul', [value, b], attributes)
      return sumTo(builder, scaledRows(builder, product, rowScale), builder.type(a))
    },
    ({ builder, attributes: { transposeA, transposeB, scale }, inputs, cotangents }) => {
      let [a] = inputs as [number, number]
      let dy = cotangents[0]!
      const type = builder.type(inputs[1]!)
      // A weight shared by the whole batch: one long product, not one for each sample and a sum.
      if (type.shape.length === 2 && !transposeA) {
        const { value, rowScale } = withoutRowScale(builder, dy, builder.type(a))
        a = flattened(builder, scaledRows(builder, a, rowScale))
        dy = flattened(builder, value)
      }
      const product = transposeB
        ? builder.one('matmul', [dy, a], { transposeA: true, transposeB: transposeA, scale })
        : builder.one('matmul', [a, dy], { transposeA: !transposeA, transposeB: false, scale })
      return sumTo(builder, product, type)
    },
  ],
  cost: (inputs, outputs, { transposeA }) => {
    const inner = inputs[0]!.shape.at(transposeA ? -2 : -1)!
    return costOf(2 * elementCount(outputs[0]!.shape) * inner, inputs, outputs)
  },
  reference: ([a, b], attributes, [type]) => {
    const { rows, inner, columns } = sizesOf(a!.type.shape, b!.type.shape, attributes)
    const left = asRowMajor(a!, attributes.transposeA)
    const right = asRowMajor(b!, attributes.transposeB)
    const batch = type!.shape.slice(0, -2)
    const aBatches = offsetsOf(batch, broadcastStrides(a!.type.shape.slice(0, -2), batch))
    const bBatches = offsetsOf(batch, broadcastStrides(b!.type.shape.slice(0, -2), batch))
    const result = zeros(type!)
    const out = result.data as Float64Array
    for (let index = 0; index < aBatches.length; index++) {
      const aAt = aBatches[index]! * rows * inner
      const bAt = bBatches[index]! * inner * columns
      multiplyInto(out, index * rows * columns, left, aAt, right, bAt, rows, inner, columns)
    }
    if (attributes.scale !== 1)
      for (let index = 0; index < out.length; index++) out[index]! *= attributes.scale
    return [result]
  },
  onnx: ({ emit, attributes, inputs, inputTypes, outputTypes }) => {
    const types = [inputTypes[0]!, inputTypes[1]!, outputTypes[0]!] as const
    return [emitMatmul(emit, inputs[0]!, inputs[1]!, types, attributes)]
  },
}

/** `value` with all dims but the last as one. */
function flattened(builder: GraphBuilder, value: ValueId): ValueId {
  const type = builder.type(value)
  const last = type.shape.at(-1)!
  const rows = elementCount(type.shape.slice(0, -1))
  return reshapeTo(builder, value, tensorType(type.dtype, [rows, last], ['', axesOf(type).at(-1)!]))
}

interface RowScaled {
  readonly value: ValueId
  /** [..., 1], where the rows are still to be multiplied by it. */
  readonly rowScale: ValueId | undefined
}

/**
 * A cotangent of the shape [..., columns] that is some value times a column, taken apart where both gradients together
 * have no more elements to scale than it has: diag(s) D B = diag(s) (D B) and A' diag(s) D = (diag(s) A)' D. The head of
 * a language model has many times more columns than inner elements.
 */
function withoutRowScale(builder: GraphBuilder, cotangent: ValueId, operand: TensorType): RowScaled {
  const whole = { value: cotangent, rowScale: undefined }
  const node = builder.producer(cotangent)
  const { shape } = builder.type(cotangent)
  if (node?.op !== 'mul' || 2 * operand.shape.at(-1)! > shape.at(-1)!) return whole
  if (!sameShape(operand.shape.slice(0, -1), shape.slice(0, -1))) return whole
  const [value, rowScale] = node.inputs as [ValueId, ValueId]
  const isColumn = sameShape(builder.type(rowScale).shape, [...shape.slice(0, -1), 1])
  return isColumn && sameShape(builder.type(value).shape, shape) ? { value, rowScale } : whole
}

function scaledRows(builder: GraphBuilder, value: ValueId, rowScale: ValueId | undefined): ValueId {
  return rowScale === undefined ? value : mul(builder, value, rowScale)
}
