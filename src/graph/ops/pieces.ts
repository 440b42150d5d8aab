import type { GraphBuilder } from '../builder.ts'
import type { OpRule } from '../rule.ts'
import { axesOf, tensorType } from '../tensor.ts'
import type { Tensor, TensorType, ValueId } from '../types.ts'
import { costOf } from './cost.ts'
import { offsetsOf, pick, rowMajorStrides, zeros } from './elements.ts'
import { integers } from './lowering.ts'
import {
  broadcastAxes,
  commonDType,
  requireDim,
  requireOperands,
  requireSizes,
  shapeError,
} from './shapes.ts'

/** Pieces write what they read: the operands of `concat`, the outputs of the rest. */
const pieceCost = (inputs: readonly TensorType[], outputs: readonly TensorType[]) =>
  costOf(0, inputs, outputs)

/** Where position `starts` lies in a tensor of these strides. */
function startOffset(starts: readonly number[], strides: readonly number[]): number {
  return starts.reduce((offset, start, dim) => offset + start * strides[dim]!, 0)
}

/** The block of `input` that begins at `starts` and has the shape of `type`. */
function block(input: Tensor, starts: readonly number[], type: TensorType): Tensor {
  const strides = rowMajorStrides(input.type.shape)
  return pick(type, input.data, offsetsOf(type.shape, strides, startOffset(starts, strides)))
}

/** Writes all of `source` into `target`, beginning at `starts`. */
function writeBlock(target: Tensor, starts: readonly number[], source: Tensor): void {
  const strides = rowMajorStrides(target.type.shape)
  const offsets = offsetsOf(source.type.shape, strides, startOffset(starts, strides))
  for (let index = 0; index < offsets.length; index++) target.data[offsets[index]!] = source.data[index]!
}

/** Starts of a piece that begins at `position` along `dim` and at 0 elsewhere. */
function startsAlong(rank: number, dim: number, position: number): number[] {
  return Array.from({ length: rank }, (_, other) => (other === dim ? position : 0))
}

export const slice: OpRule<'slice'> = {
  summary: 'a block: a half-open range along each dim',
  infer: (inputs, { starts, ends }) => {
    requireOperands('slice', inputs, 1)
    requireSizes('slice', inputs, [...starts, ...ends])
    const { dtype, shape } = inputs[0]!
    if (starts.length !== shape.length || ends.length !== shape.length)
      throw shapeError('slice', inputs, 'needs a start and an end for each dim')
    shape.forEach((size, dim) => {
      if (starts[dim]! > ends[dim]! || ends[dim]! > size)
        throw shapeError('slice', inputs, `${starts[dim]}..${ends[dim]} is not a range of dim ${dim}`)
    })
    const sizes = shape.map((_, dim) => ends[dim]! - starts[dim]!)
    return [tensorType(dtype, sizes, axesOf(inputs[0]!))]
  },
  vjp: [
    ({ builder, attributes: { starts, ends }, inputs, cotangents }) => {
      const { shape } = builder.type(inputs[0]!)
      const after = shape.map((size, dim) => size - ends[dim]!)
      return builder.one('pad', [cotangents[0]!], { before: starts, after })
    },
  ],
  cost: (_inputs, outputs) => costOf(0, outputs, outputs),
  reference: ([x], { starts }, [type]) => [block(x!, starts, type!)],
  onnx: ({ emit, attributes: { starts, ends }, inputs, inputTypes }) => {
    const { shape } = inputTypes[0]!
    const cut = [...shape.keys()].filter((dim) => starts[dim] !== 0 || ends[dim] !== shape[dim])
    if (cut.length === 0) return inputs
    const bounds = [starts, ends].map((list) =>
      integers(
        emit,
        cut.map((dim) => list[dim]!),
      ),
    )
    return emit.node('Slice', [inputs[0]!, ...bounds, integers(emit, cut)])
  },
}

export const pad: OpRule<'pad'> = {
  summary: 'zeros around',
  infer: (inputs, { before, after }) => {
    requireOperands('pad', inputs, 1)
    requireSizes('pad', inputs, [...before, ...after])
    const { dtype, shape } = inputs[0]!
    if (before.length !== shape.length || after.length !== shape.length)
      throw shapeError('pad', inputs, 'needs an amount before and one after for each dim')
    const sizes = shape.map((size, dim) => before[dim]! + size + after[dim]!)
    return [tensorType(dtype, sizes, axesOf(inputs[0]!))]
  },
  vjp: [
    ({ builder, attributes: { before }, inputs, cotangents }) => {
      const { shape } = builder.type(inputs[0]!)
      const ends = shape.map((size, dim) => before[dim]! + size)
      return builder.one('slice', [cotangents[0]!], { starts: before, ends })
    },
  ],
  cost: pieceCost,
  reference: ([x], { before }, [type]) => {
    const result = zeros(type!)
    writeBlock(result, before, x!)
    return [result]
  },
  onnx: ({ emit, attributes: { before, after }, inputs }) =>
    [...before, ...after].every((amount) => amount === 0)
      ? inputs
      : emit.node('Pad', [inputs[0]!, integers(emit, [...before, ...after])]),
}

/** Zeros of the type of `like`. */
function zerosLike(builder: GraphBuilder, like: ValueId): ValueId {
  const { dtype, shape } = builder.type(like)
  return builder.one('fill', [], { shape, dtype, value: 0 })
}

export const concat: OpRule<'concat'> = {
  summary: 'joined along a dim',
  infer: (inputs, { dim }) => {
    if (inputs.length === 0) throw shapeError('concat', inputs, 'needs an operand')
    const dtype = commonDType('concat', inputs, ['f32', 'f64', 'i32', 'bool'])
    const { shape } = inputs[0]!
    requireDim('concat', inputs, dim, shape.length)
    for (const input of inputs)
      if (
        input.shape.length !== shape.length ||
        shape.some((size, at) => at !== dim && input.shape[at] !== size)
      )
        throw shapeError('concat', inputs, `shapes differ elsewhere than in dim ${dim}`)
    const joined = inputs.reduce((sum, input) => sum + input.shape[dim]!, 0)
    const named = broadcastAxes(inputs, shape)
    named[dim] = inputs.map((input) => axesOf(input)[dim]!).find((axis) => axis !== '') ?? ''
    return [
      tensorType(
        dtype,
        shape.map((size, at) => (at === dim ? joined : size)),
        named,
      ),
    ]
  },
  vjp: 'variadic',
  vjpVariadic: ({ builder, attributes: { dim }, inputs, cotangents }, index) => {
    const sizes = inputs.map((input) => builder.type(input).shape[dim]!)
    return builder.op('split', [cotangents[0]!], { dim, sizes })[index]!
  },
  cost: pieceCost,
  reference: (inputs, { dim }, [type]) => {
    const result = zeros(type!)
    let position = 0
    for (const input of inputs) {
      writeBlock(result, startsAlong(type!.shape.length, dim, position), input)
      position += input.type.shape[dim]!
    }
    return [result]
  },
  onnx: ({ emit, attributes: { dim }, inputs }) =>
    inputs.length === 1 ? inputs : emit.node('Concat', inputs, { axis: { int: dim } }),
}

export const split: OpRule<'split'> = {
  summary: 'cut along a dim into pieces of given sizes',
  infer: (inputs, { dim, sizes }) => {
    requireOperands('split', inputs, 1)
    const { dtype, shape } = inputs[0]!
    requireDim('split', inputs, dim, shape.length)
    requireSizes('split', inputs, sizes)
    if (sizes.length === 0 || sizes.reduce((sum, size) => sum + size, 0) !== shape[dim])
      throw shapeError('split', inputs, `sizes ${sizes.join(' + ')} do not make up dim ${dim}`)
    const axes = axesOf(inputs[0]!)
    return sizes.map((size) =>
      tensorType(
        dtype,
        shape.map((own, at) => (at === dim ? size : own)),
        axes,
      ),
    )
  },
  vjp: [
    ({ builder, attributes: { dim, sizes }, inputs, outputs, cotangents }) => {
      const present = cotangents.flatMap((cotangent, index) => (cotangent === undefined ? [] : [index]))
      const only = present[0]!
      if (present.length === 1) {
        const rank = builder.type(inputs[0]!).shape.length
        const start = sizes.slice(0, only).reduce((sum, size) => sum + size, 0)
        const end = sizes.slice(only + 1).reduce((sum, size) => sum + size, 0)
        const amounts = { before: startsAlong(rank, dim, start), after: startsAlong(rank, dim, end) }
        return builder.one('pad', [cotangents[only]!], amounts)
      }
      const pieces = outputs.map((output, index) => cotangents[index] ?? zerosLike(builder, output))
      return builder.one('concat', pieces, { dim })
    },
  ],
  cost: pieceCost,
  reference: ([x], { dim, sizes }, types) => {
    let position = 0
    return types.map((type, index) => {
      const piece = block(x!, startsAlong(type.shape.length, dim, position), type)
      position += sizes[index]!
      return piece
    })
  },
  onnx: ({ emit, attributes: { dim, sizes }, inputs }) =>
    sizes.length === 1
      ? inputs
      : emit.node(
          'Split',
          [inputs[0]!, integers(emit, sizes)],
          { axis: { int: dim } },
          { outputs: sizes.length },
        ),
}
