import type { OnnxEmitter } from '../rule.ts'
import { elementCount } from '../tensor.ts'
import type { FloatDType, OpAttributes, TensorType } from '../types.ts'
import { contrib, isExactF32, one, scalarConstant } from './lowering.ts'

/** Emits the product of matrices in the last two dims, times `scale`. */
export function emitMatmul(
  emit: OnnxEmitter,
  a: string,
  b: string,
  types: readonly [a: TensorType, b: TensorType, result: TensorType],
  { transposeA, transposeB, scale }: OpAttributes['matmul'],
): string {
  if (!transposeA) return emitProduct(emit, a, b, types[0].dtype as FloatDType, transposeB, scale)
  // Explicit transposes beat the fused transposed product on most weight gradients, and take time by their elements: a
  // transposed left operand no smaller than the right one and the result together is left as it is, and those are
  // transposed in its place. So with wide heads, long sequences (.98 of a step at hidden 512) and attention's keys and
  // values, whose result is transposed next in any case.
  const [countA, countB, countResult] = types.map((type) => elementCount(type.shape)) as [
    number,
    number,
    number,
  ]
  const dtype = types[0].dtype as FloatDType
  if (!transposeB && countA >= countB + countResult) {
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
