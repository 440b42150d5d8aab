import type { GraphBuilder } from '../builder.ts'
import type { OpRule } from '../rule.ts'
import type { DType, ValueId } from '../types.ts'
import { perOutputElement } from './cost.ts'
import { mul, scalarLike, sumTo } from './derivatives.ts'
import { expanded, zeros } from './elements.ts'
import { commonDType, elementwiseType, requireOperands } from './shapes.ts'

type ArithmeticName = 'add' | 'sub' | 'mul' | 'div' | 'max' | 'min'
type LogicName = 'equal' | 'less' | 'and'

interface BinaryDefinition {
  readonly summary: string
  readonly dtypes: readonly DType[]
  readonly compute: (a: number, b: number) => number
  readonly onnx: string
}

interface ArithmeticDefinition extends BinaryDefinition {
  /** Cotangents of the operands before they are summed over what broadcasting repeated. */
  readonly derivatives: readonly [Derivative, Derivative]
}

type Derivative = (builder: GraphBuilder, dy: ValueId, a: ValueId, b: ValueId, y: ValueId) => ValueId

const numbers: readonly DType[] = ['f32', 'f64', 'i32']
const floats: readonly DType[] = ['f32', 'f64']

function binary(
  op: ArithmeticName | LogicName,
  definition: BinaryDefinition,
  resultDType: 'same' | 'bool',
): Pick<
  OpRule<ArithmeticName | LogicName>,
  'summary' | 'elementwise' | 'infer' | 'cost' | 'reference' | 'onnx'
> {
  return {
    summary: definition.summary,
    elementwise: true,
    infer: (inputs) => {
      requireOperands(op, inputs, 2)
      const dtype = commonDType(op, inputs, definition.dtypes)
      return [elementwiseType(op, inputs, resultDType === 'bool' ? 'bool' : dtype)]
    },
    cost: perOutputElement(1),
    reference: ([a, b], _attributes, [type]) => {
      const result = zeros(type!)
      const left = expanded(a!, type!.shape)
      const right = expanded(b!, type!.shape)
      for (let index = 0; index < result.data.length; index++)
        result.data[index] = definition.compute(left[index]!, right[index]!)
      return [result]
    },
    onnx: ({ emit, inputs }) => emit.node(definition.onnx, inputs),
  }
}

function arithmetic<K extends ArithmeticName>(op: K, definition: ArithmeticDefinition): OpRule<K> {
  const operand =
    (index: 0 | 1): Exclude<OpRule<K>['vjp'], 'variadic' | null>[number] =>
    ({ builder, inputs, outputs, cotangents }) =>
      sumTo(
        builder,
        definition.derivatives[index](builder, cotangents[0]!, inputs[0]!, inputs[1]!, outputs[0]!),
        builder.type(inputs[index]!),
      )
  return { ...binary(op, definition, 'same'), vjp: [operand(0), operand(1)] }
}

function logic<K extends LogicName>(op: K, definition: BinaryDefinition): OpRule<K> {
  return { ...binary(op, definition, 'bool'), vjp: [null, null] }
}

/** `dy` where `a < b` holds or where it does not, zero elsewhere. */
function selected(builder: GraphBuilder, dy: ValueId, a: ValueId, b: ValueId, holds: boolean): ValueId {
  const zero = scalarLike(builder, dy, 0)
  const less = builder.one('less', [a, b], {})
  return builder.one('where', holds ? [less, dy, zero] : [less, zero, dy], {})
}

export const add: OpRule<'add'> = arithmetic('add', {
  summary: 'a + b',
  dtypes: numbers,
  compute: (a, b) => a + b,
  derivatives: [(_builder, dy) => dy, (_builder, dy) => dy],
  onnx: 'Add',
})

export const sub: OpRule<'sub'> = arithmetic('sub', {
  summary: 'a - b',
  dtypes: numbers,
  compute: (a, b) => a - b,
  derivatives: [(_builder, dy) => dy, (builder, dy) => builder.one('neg', [dy], {})],
  onnx: 'Sub',
})

export const multiply: OpRule<'mul'> = arithmetic('mul', {
  summary: 'a * b',
  dtypes: numbers,
  compute: (a, b) => a * b,
  derivatives: [(builder, dy, _a, b) => mul(builder, dy, b), (builder, dy, a) => mul(builder, dy, a)],
  onnx: 'Mul',
})

export const div: OpRule<'div'> = arithmetic('div', {
  summary: 'a / b',
  dtypes: floats,
  compute: (a, b) => a / b,
  derivatives: [
    (builder, dy, _a, b) => builder.one('div', [dy, b], {}),
    (builder, dy, _a, b, y) => builder.one('neg', [builder.one('div', [mul(builder, dy, y), b], {})], {}),
  ],
  onnx: 'Div',
})

export const max: OpRule<'max'> = arithmetic('max', {
  summary: 'the larger; of equal operands the first has the derivative',
  dtypes: numbers,
  compute: Math.max,
  derivatives: [
    (builder, dy, a, b) => selected(builder, dy, a, b, false),
    (builder, dy, a, b) => selected(builder, dy, a, b, true),
  ],
  onnx: 'Max',
})

export const min: OpRule<'min'> = arithmetic('min', {
  summary: 'the smaller; of equal operands the first has the derivative',
  dtypes: numbers,
  compute: Math.min,
  derivatives: [
    (builder, dy, a, b) => selected(builder, dy, b, a, false),
    (builder, dy, a, b) => selected(builder, dy, b, a, true),
  ],
  onnx: 'Min',
})

export const equal: OpRule<'equal'> = logic('equal', {
  summary: 'a = b',
  dtypes: ['f32', 'f64', 'i32', 'bool'],
  compute: (a, b) => (a === b ? 1 : 0),
  onnx: 'Equal',
})

export const less: OpRule<'less'> = logic('less', {
  summary: 'a < b',
  dtypes: numbers,
  compute: (a, b) => (a < b ? 1 : 0),
  onnx: 'Less',
})

export const and: OpRule<'and'> = logic('and', {
  summary: 'both',
  dtypes: ['bool'],
  compute: (a, b) => a & b,
  onnx: 'And',
})
