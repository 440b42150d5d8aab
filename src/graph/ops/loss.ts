import { MeshwrightError } from '../../base/index.ts'
import type { OpRule } from '../rule.ts'
import { elementCount, isFloat, sameShape } from '../tensor.ts'
import type { TensorType } from '../types.ts'
import { costOf } from './cost.ts'
import { mul, onlyFirstCotangent, scalarLike, sub } from './derivatives.ts'
import { zeros } from './elements.ts'
import { integers, one, scalarConstant } from './lowering.ts'
import { requireOperands, shapeError, withLastSize } from './shapes.ts'

export const crossEntropy: OpRule<'crossEntropy'> = {
  summary:
    'sum over all positions with a label >= 0 of -log softmax(logits)[label], and the log-probabilities',
  infer: (inputs) => {
    requireOperands('crossEntropy', inputs, 2)
    const [logits, labels] = inputs as [TensorType, TensorType]
    if (!isFloat(logits.dtype)) throw shapeError('crossEntropy', inputs, 'logits must be floats')
    if (labels.dtype !== 'i32') throw shapeError('crossEntropy', inputs, 'labels must be i32')
    if (!(logits.shape.at(-1)! > 0) || !sameShape(logits.shape.slice(0, -1), labels.shape))
      throw shapeError('crossEntropy', inputs, 'needs one label for each row of logits')
    return [{ dtype: logits.dtype, shape: [] }, logits]
  },
  vjp: [
    (context) => {
      const { builder, inputs, outputs } = context
      const loss = onlyFirstCotangent('crossEntropy', context)
      const [, labels] = inputs as [number, number]
      const logits = builder.type(inputs[0]!)
      const dtype = logits.dtype as 'f32' | 'f64'
      const zero = builder.one('fill', [], { shape: [], dtype: 'i32', value: 0 })
      const column = withLastSize(logits, 1)
      const ignored = builder.one('reshape', [builder.one('less', [labels, zero], {})], {
        shape: column.shape,
      })
      const weight = builder.one('where', [ignored, scalarLike(builder, loss, 0), loss], {})
      const target = builder.one('oneHot', [labels], { depth: logits.shape.at(-1)!, dtype })
      return mul(builder, sub(builder, builder.one('exp', [outputs[1]!], {}), target), weight)
    },
    null,
  ],
  cost: (inputs, outputs) => costOf(5 * elementCount(inputs[0]!.shape), inputs, outputs),
  reference: ([logits, labels], _attributes, types) => {
    const [loss, logProbabilities] = types.map(zeros)
    const size = logits!.type.shape.at(-1)!
    labels!.data.forEach((label, row) => {
      if (label >= size)
        throw new MeshwrightError('GRAPH_ID_RANGE', `crossEntropy: label ${label} among ${size} classes`)
      const start = row * size
      let largest = Number.NEGATIVE_INFINITY
      for (let column = 0; column < size; column++) largest = Math.max(largest, logits!.data[start + column]!)
      let sum = 0
      for (let column = 0; column < size; column++) sum += Math.exp(logits!.data[start + column]! - largest)
      const logSum = Math.log(sum)
      for (let column = 0; column < size; column++)
        logProbabilities!.data[start + column] = logits!.data[start + column]! - largest - logSum
      if (label >= 0) loss!.data[0]! -= logProbabilities!.data[start + label]!
    })
    return [loss!, logProbabilities!]
  },
  onnx: ({ emit, inputs, inputTypes }) => {
    const { dtype, shape } = inputTypes[0]!
    const logProbabilities = one(emit, 'LogSoftmax', [inputs[0]!], { axis: { int: -1 } })
    const zero = scalarConstant(emit, 'i32', 0)
    const labels = one(emit, 'Unsqueeze', [inputs[1]!, integers(emit, [shape.length - 1])])
    const inRange = one(emit, 'Max', [labels, zero])
    const picked = one(emit, 'GatherElements', [logProbabilities, inRange], { axis: { int: -1 } })
    // Chosen, not multiplied by zero: a row that is not counted may hold anything.
    const ignored = one(emit, 'Less', [labels, zero])
    const counted = one(emit, 'Where', [ignored, scalarConstant(emit, dtype, 0), picked])
    const sum = one(emit, 'ReduceSum', [counted], { keepdims: { int: 0 } })
    return [one(emit, 'Neg', [sum]), logProbabilities]
  },
}
