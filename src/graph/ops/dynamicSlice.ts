import { MeshwrightError } from '../../base/index.ts'
import type { OpRule } from '../rule.ts'
import { axesOf, tensorType } from '../tensor.ts'
import { costOf } from './cost.ts'
import { offsetsOf, pick, rowMajorStrides } from './elements.ts'
import { integers, one } from './lowering.ts'
import { requireDim, requireOperands, requireSizes, shapeError } from './shapes.ts'

/** Throws `GRAPH_ID_RANGE` (reference only) where the range leaves the operand; a backend need not notice. */
export const dynamicSlice: OpRule<'dynamicSlice'> = {
  summary: 'a range along one dim that begins where a scalar says',
  infer: (inputs, { dim, size }) => {
    requireOperands('dynamicSlice', inputs, 2)
    requireSizes('dynamicSlice', inputs, [size])
    const [x, start] = inputs
    requireDim('dynamicSlice', inputs, dim, x!.shape.length)
    if (start!.dtype !== 'i32' || start!.shape.length !== 0)
      throw shapeError('dynamicSlice', inputs, 'the start must be an i32 scalar')
    if (size > x!.shape[dim]!)
      throw shapeError('dynamicSlice', inputs, `dim ${dim} does not have ${size} elements`)
    return [tensorType(x!.dtype, x!.shape.with(dim, size), axesOf(x!))]
  },
  // Only forward and backward that are there already are cut for ranks, which is what needs a start that is a value.
  vjp: [null, null],
  cost: (_inputs, outputs) => costOf(0, outputs, outputs),
  reference: ([x, start], { dim, size }, [type]) => {
    const first = start!.data[0]!
    const { shape } = x!.type
    if (first < 0 || first + size > shape[dim]!)
      throw new MeshwrightError(
        'GRAPH_ID_RANGE',
        `dynamicSlice: ${first}..${first + size} is not a range of dim ${dim} of ${shape[dim]} elements`,
      )
    const strides = rowMajorStrides(shape)
    return [pick(type!, x!.data, offsetsOf(type!.shape, strides, first * strides[dim]!))]
  },
  onnx: ({ emit, attributes: { dim, size }, inputs, inputTypes }) => {
    if (size === inputTypes[0]!.shape[dim]) return [inputs[0]!]
    const first = one(emit, 'Reshape', [inputs[1]!, integers(emit, [1])])
    const bounds = [first, one(emit, 'Add', [first, emit.constant('i32', [1], [size])])]
    return emit.node('Slice', [inputs[0]!, ...bounds, emit.constant('i32', [1], [dim])])
  },
}
