import { MeshwrightError } from '../../base/index.ts'
import type { OnnxEmitter, OpRule } from '../rule.ts'
import { elementCount, isFloat, sameShape } from '../tensor.ts'
import type { TensorType } from '../types.ts'
import { costOf } from './cost.ts'
import { mul, onlyFirstCotangent, scalarLike } from './derivatives.ts'
import { zeros } from './elements.ts'
import { integers, one, scalarConstant } from './lowering.ts'
import { requireOperands, shapeError, withLastSize } from './shapes.ts'

/** Operands (x [..., classes], labels i32 [...]). */
function checkLabels(op: 'crossEntropy' | 'crossEntropyGradient', inputs: readonly TensorType[]): void {
  requireOperands(op, inputs, 2)
  const [x, labels] = inputs as [TensorType, TensorType]
  const name = op === 'crossEntropy' ? 'logits' : 'probabilities'
  if (!isFloat(x.dtype)) throw shapeError(op, inputs, `${name} must be floats`)
  if (labels.dtype !== 'i32') throw shapeError(op, inputs, 'labels must be i32')
  if (!(x.shape.at(-1)! > 0) || !sameShape(x.shape.slice(0, -1), labels.shape))
    throw shapeError(op, inputs, `needs one label for each row of ${name}`)
}

function checkedLabel(op: 'crossEntropy' | 'crossEntropyGradient', label: number, classes: number): number {
  if (label >= classes)
    throw new MeshwrightError('GRAPH_ID_RANGE', `${op}: label ${label} among ${classes} classes`)
  return label
}

/** Labels as a column, those that are not counted as 0, and whether each is one of those. */
function emitColumn(emit: OnnxEmitter, labels: string, rank: number): { inRange: string; ignored: string } {
  const zero = scalarConstant(emit, 'i32', 0)
  const column = one(emit, 'Unsqueeze', [labels, integers(emit, [rank - 1])])
  return { inRange: one(emit, 'Max', [column, zero]), ignored: one(emit, 'Less', [column, zero]) }
}

export const crossEntropy: OpRule<'crossEntropy'> = {
  summary: 'sum over all positions with a label >= 0 of -log softmax(logits)[label], and the probabilities',
  infer: (inputs) => {
    checkLabels('crossEntropy', inputs)
    return [{ dtype: inputs[0]!.dtype, shape: [] }, inputs[0]!]
  },
  vjp: [
    // Rows are scaled last: matmul moves that to whichever of its operands is narrowest.
    (context) => {
      const { builder, inputs, outputs } = context
      const loss = onlyFirstCotangent('crossEntropy', context)
      const [logits, labels] = inputs as [number, number]
      const zero = builder.one('fill', [], { shape: [], dtype: 'i32', value: 0 })
      const column = withLastSize(builder.type(logits), 1)
      const ignored = builder.one('reshape', [builder.one('less', [labels, zero], {})], {
        shape: column.shape,
      })
      const weight = builder.one('where', [ignored, scalarLike(builder, loss, 0), loss], {})
      return mul(builder, builder.one('crossEntropyGradient', [outputs[1]!, labels], {}), weight)
    },
    null,
  ],
  cost: (inputs, outputs) => costOf(5 * elementCount(inputs[0]!.shape), inputs, outputs),
  reference: ([logits, labels], _attributes, types) => {
    const [loss, probabilities] = types.map(zeros)
    const size = logits!.type.shape.at(-1)!
    labels!.data.forEach((label, row) => {
      checkedLabel('crossEntropy', label, size)
      const start = row * size
      let largest = Number.NEGATIVE_INFINITY
      for (let column = 0; column < size; column++) largest = Math.max(largest, logits!.data[start + column]!)
      let sum = 0
      for (let column = 0; column < size; column++) sum += Math.exp(logits!.data[start + column]! - largest)
      for (let column = 0; column < size; column++)
        probabilities!.data[start + column] = Math.exp(logits!.data[start + column]! - largest) / sum
      if (label >= 0) loss!.data[0]! -= logits!.data[start + label]! - largest - Math.log(sum)
    })
    return [loss!, probabilities!]
  },
  // The largest probability is 1 / sum exp(logits - largest logit), so its logarithm gives the denominator also where
  // that of the label has underflowed. Two more maxima, yet .9 of the time of LogSoftmax and its exponential.
  onnx: ({ emit, inputs, inputTypes }) => {
    const { dtype, shape } = inputTypes[0]!
    const [logits, labels] = inputs as [string, string]
    const last = integers(emit, [shape.length - 1])
    const probabilities = one(emit, 'Softmax', [logits], { axis: { int: -1 } })
    const { inRange, ignored } = emitColumn(emit, labels, shape.length)
    const picked = one(emit, 'GatherElements', [logits, inRange], { axis: { int: -1 } })
    const below = one(emit, 'Sub', [one(emit, 'ReduceMax', [logits, last]), picked])
    const largest = one(emit, 'ReduceMax', [probabilities, last])
    const losses = one(emit, 'Sub', [below, one(emit, 'Log', [largest])])
    // Chosen, not multiplied by zero: a row that is not counted may hold anything.
    const counted = one(emit, 'Where', [ignored, scalarConstant(emit, dtype, 0), losses])
    return [one(emit, 'ReduceSum', [counted], { keepdims: { int: 0 } }), probabilities]
  },
}

export const crossEntropyGradient: OpRule<'crossEntropyGradient'> = {
  summary: 'probabilities, less 1 at the label where it is >= 0',
  infer: (inputs) => {
    checkLabels('crossEntropyGradient', inputs)
    return [inputs[0]!]
  },
  vjp: [({ cotangents }) => cotangents[0]!, null],
  cost: (inputs, outputs) => costOf(elementCount(inputs[1]!.shape), inputs, outputs),
  reference: ([probabilities, labels], _attributes, [type]) => {
    const result = { type: type!, data: probabilities!.data.slice() }
    const size = type!.shape.at(-1)!
    labels!.data.forEach((label, row) => {
      if (checkedLabel('crossEntropyGradient', label, size) >= 0) result.data[row * size + label]! -= 1
    })
    return [result]
  },
  // In place where nothing else reads the probabilities. A one-hot tensor would be three passes over all classes.
  onnx: ({ emit, inputs, inputTypes }) => {
    const { dtype, shape } = inputTypes[0]!
    const [probabilities, labels] = inputs as [string, string]
    const { inRange, ignored } = emitColumn(emit, labels, shape.length)
    const [none, less] = [0, -1].map((value) => scalarConstant(emit, dtype, value)) as [string, string]
    const updates = one(emit, 'Where', [ignored, none, less])
    const attributes = { axis: { int: shape.length - 1 }, reduction: { string: 'add' } }
    return emit.node('ScatterElements', [probabilities, inRange, updates], attributes)
  },
}
