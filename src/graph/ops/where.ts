import type { GraphBuilder } from '../builder.ts'
import type { OpRule } from '../rule.ts'
import type { ValueId } from '../types.ts'
import { perOutputElement } from './cost.ts'
import { scalarLike, sumTo } from './derivatives.ts'
import { expanded, zeros } from './elements.ts'
import { one } from './lowering.ts'
import { commonDType, elementwiseType, requireOperands, shapeError } from './shapes.ts'

/** The cotangent where the branch was taken, zero elsewhere, summed to the branch's shape. */
function branch(
  builder: GraphBuilder,
  condition: ValueId,
  cotangent: ValueId,
  operand: ValueId,
  taken: boolean,
): ValueId {
  const zero = scalarLike(builder, cotangent, 0)
  const chosen = taken ? [condition, cotangent, zero] : [condition, zero, cotangent]
  return sumTo(builder, builder.one('where', chosen, {}), builder.type(operand))
}

export const where: OpRule<'where'> = {
  summary: 'condition ? then : otherwise',
  elementwise: true,
  infer: (inputs) => {
    requireOperands('where', inputs, 3)
    if (inputs[0]!.dtype !== 'bool') throw shapeError('where', inputs, 'the condition must be bool')
    const dtype = commonDType('where', inputs.slice(1), ['f32', 'f64', 'i32', 'bool'])
    return [elementwiseType('where', inputs, dtype)]
  },
  vjp: [
    null,
    ({ builder, inputs, cotangents }) => branch(builder, inputs[0]!, cotangents[0]!, inputs[1]!, true),
    ({ builder, inputs, cotangents }) => branch(builder, inputs[0]!, cotangents[0]!, inputs[2]!, false),
  ],
  cost: perOutputElement(1),
  reference: ([condition, then, otherwise], _attributes, [type]) => {
    const result = zeros(type!)
    const chosen = expanded(condition!, type!.shape)
    const left = expanded(then!, type!.shape)
    const right = expanded(otherwise!, type!.shape)
    for (let index = 0; index < result.data.length; index++)
      result.data[index] = chosen[index] === 0 ? right[index]! : left[index]!
    return [result]
  },
  onnx: ({ emit, inputs, outputTypes }) => {
    if (outputTypes[0]!.dtype !== 'bool') return emit.node('Where', inputs)
    // ONNX Runtime's Where has no bool kernel.
    const [condition, then, otherwise] = inputs as [string, string, string]
    return emit.node('Or', [
      one(emit, 'And', [condition, then]),
      one(emit, 'And', [one(emit, 'Not', [condition]), otherwise]),
    ])
  },
}
