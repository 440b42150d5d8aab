import type { OnnxEmitter, OpRule } from '../rule.ts'
import { axesOf, elementCount, tensorType } from '../tensor.ts'
import type { FloatDType, OpAttributes, Tensor, TensorType } from '../types.ts'
import { costOf } from './cost.ts'
import { reshapeTo, sumTo } from './derivatives.ts'
import { broadcastStrides, offsetsOf, pick, rowMajorStrides, zeros } from './elements.ts'
import { contrib, isExactF32, one, scalarConstant } from './lowering.ts'
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

/**
 * How many times more elements a transposed left operand must have than the right one and the result together before
 * those are transposed in its place. Gradients of a wide head and of attention's keys and values lie above it, those
 * of a square weight below; measured with ONNX Runtime 1.30 on the CPU.
 */
const transposeElsewhere = 1.75

/** Emits the product of matrices in the last two dims, times `scale`. */
export function emitMatmul(
  emit: OnnxEmitter,
  a: string,
  b: string,
  types: readonly [a: TensorType, b: TensorType, result: TensorType],
  { transposeA, transposeB, scale }: Attributes,
): string {
  if (!transposeA) return emitProduct(emit, a, b, types[0].dtype as FloatDType, transposeB, scale)
  // Explicit transposes: on most sizes of weight gradients they beat the fused transposed product.
  const [countA, countB, countResult] = types.map((type) => elementCount(type.shape)) as [
    number,
    number,
    number,
  ]
  const dtype = types[0].dtype as FloatDType
  if (!transposeB && countA > transposeElsewhere * (countB + countResult)) {
    const flipped = emitProduct(emit, emitSwap(emit, b, types[1]), a, dtype, false, scale)
    return emitSwap(emit, flipped, types[2])
  }
  return emitProduct(emit, emitSwap(emit, a, types[0]), b, dtype, transposeB, scale)
}

/** `tensor` with its last two dims swapped. */
function emitSwap(emit: OnnxEmitter, tensor: string, type: TensorType): string {
  const rank = type.shape.length
  return one(emit, 'Transpose', [tensor], { perm: { ints: [...Array(rank - 2).keys(), rank - 1, rank - 2] } })
}

function emitProduct(
  emit: OnnxEmitter,
  a: string,
  b: string,
  dtype: FloatDType,
  transposeB: boolean,
  scale: number,
): string {
  const fusedScale = scale !== 1 && (dtype === 'f32' || isExactF32(scale))
  if (!transposeB && scale === 1) return one(emit, 'MatMul', [a, b])
  const attributes = { transB: { int: transposeB ? 1 : 0 }, alpha: { float: fusedScale ? scale : 1 } }
  const product = one(emit, 'FusedMatMul', [a, b], attributes, contrib)
  return scale === 1 || fusedScale ? product : one(emit, 'Mul', [product, scalarConstant(emit, dtype, scale)])
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
      const product = transposeA
        ? builder.one('matmul', [b, cotangents[0]!], { transposeA: transposeB, transposeB: true, scale })
        : builder.one('matmul', [cotangents[0]!, b], { transposeA: false, transposeB: !transposeB, scale })
      return sumTo(builder, product, builder.type(a))
    },
    ({ builder, attributes: { transposeA, transposeB, scale }, inputs, cotangents }) => {
      let [a] = inputs as [number, number]
      let dy = cotangents[0]!
      const type = builder.type(inputs[1]!)
      // A weight shared by the whole batch: one long product, not one for each sample and a sum.
      if (type.shape.length === 2 && !transposeA) {
        a = flattened(builder.type(a), (target) => reshapeTo(builder, inputs[0]!, target))
        dy = flattened(builder.type(dy), (target) => reshapeTo(builder, cotangents[0]!, target))
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

/** Applies `reshape` with the type in which all dims but the last have become one. */
function flattened(type: TensorType, reshape: (target: TensorType) => number): number {
  const last = type.shape.at(-1)!
  const rows = elementCount(type.shape.slice(0, -1))
  return reshape(tensorType(type.dtype, [rows, last], ['', axesOf(type).at(-1)!]))
}
