import type { OpRule } from '../rule.ts'
import { axesOf, tensorType } from '../tensor.ts'
import { costOf } from './cost.ts'
import { rowMajorStrides, zeros } from './elements.ts'
import { integers, one } from './lowering.ts'
import { requireDim, requireOperands, shapeError } from './shapes.ts'

/** How far elements go up along a dim of that size: from 0 to below the size. */
function distance(size: number, shift: number): number {
  return size === 0 ? 0 : ((shift % size) + size) % size
}

export const roll: OpRule<'roll'> = {
  summary: 'moved along a dim, around the end',
  infer: (inputs, { dim, shift }) => {
    requireOperands('roll', inputs, 1)
    const { dtype, shape } = inputs[0]!
    requireDim('roll', inputs, dim, shape.length)
    if (!Number.isSafeInteger(shift)) throw shapeError('roll', inputs, `${shift} is not a shift`)
    return [tensorType(dtype, shape, axesOf(inputs[0]!))]
  },
  vjp: [
    // Not -0, which is another attribute than 0.
    ({ builder, attributes: { dim, shift }, cotangents }) =>
      builder.one('roll', [cotangents[0]!], { dim, shift: 0 - shift }),
  ],
  cost: (inputs, outputs) => costOf(0, inputs, outputs),
  reference: ([x], { dim, shift }, [type]) => {
    const result = zeros(type!)
    const size = type!.shape[dim]!
    const stride = rowMajorStrides(type!.shape)[dim]!
    const up = distance(size, shift)
    for (let index = 0; index < result.data.length; index++) {
      const at = Math.floor(index / stride) % size
      result.data[index + (((at + up) % size) - at) * stride] = x!.data[index]!
    }
    return [result]
  },
  onnx: ({ emit, attributes: { dim, shift }, inputs, inputTypes }) => {
    const size = inputTypes[0]!.shape[dim]!
    const up = distance(size, shift)
    if (up === 0) return inputs
    const part = (start: number, end: number): string =>
      one(emit, 'Slice', [inputs[0]!, ...[start, end, dim].map((bound) => integers(emit, [bound]))])
    return emit.node('Concat', [part(size - up, size), part(0, size - up)], { axis: { int: dim } })
  },
}
