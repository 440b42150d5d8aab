import { internalError } from '../../base/index.ts'
import type { GraphBuilder } from '../builder.ts'
import type { VjpContext } from '../rule.ts'
import { sameShape } from '../tensor.ts'
import type { OpName, TensorType, ValueId } from '../types.ts'

// Shorthands in which derivative rules are written.

export function add(builder: GraphBuilder, left: ValueId, right: ValueId): ValueId {
  return builder.one('add', [left, right], {})
}

export function sub(builder: GraphBuilder, left: ValueId, right: ValueId): ValueId {
  return builder.one('sub', [left, right], {})
}

export function mul(builder: GraphBuilder, left: ValueId, right: ValueId): ValueId {
  return builder.one('mul', [left, right], {})
}

/** A constant of shape [] and of the dtype of `like`. */
export function scalarLike(builder: GraphBuilder, like: ValueId, value: number): ValueId {
  return builder.one('fill', [], { shape: [], dtype: builder.type(like).dtype, value })
}

export function scaled(builder: GraphBuilder, value: ValueId, factor: number): ValueId {
  return mul(builder, value, scalarLike(builder, value, factor))
}

export function reshapeTo(builder: GraphBuilder, value: ValueId, target: TensorType): ValueId {
  if (sameShape(builder.type(value).shape, target.shape)) return value
  const { shape, axes } = target
  return builder.one('reshape', [value], axes === undefined ? { shape } : { shape, axes })
}

export function broadcastTo(builder: GraphBuilder, value: ValueId, shape: readonly number[]): ValueId {
  return sameShape(builder.type(value).shape, shape) ? value : builder.one('broadcast', [value], { shape })
}

/** Sums `value` over every dim along which a tensor of type `target` was repeated to get its shape. */
export function sumTo(builder: GraphBuilder, value: ValueId, target: TensorType): ValueId {
  const { shape } = builder.type(value)
  const extra = shape.length - target.shape.length
  const dims: number[] = []
  for (let dim = 0; dim < shape.length; dim++)
    if (dim < extra || (target.shape[dim - extra] === 1 && shape[dim] !== 1)) dims.push(dim)
  if (dims.length === 0) return value
  return reshapeTo(builder, builder.one('reduceSum', [value], { dims, keepDims: false }), target)
}

/** The cotangent of the first output of an op whose other outputs exist for its own derivative only. */
export function onlyFirstCotangent<K extends OpName>(op: K, context: VjpContext<K>): ValueId {
  const [first, ...others] = context.cotangents
  if (first === undefined || others.some((other) => other !== undefined))
    throw internalError(`${op}: only its first output has a derivative`)
  return first
}
