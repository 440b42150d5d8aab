import { MeshwrightError } from '../../base/index.ts'
import type { OpRule } from '../rule.ts'
import { axesOf, elementCount, isFloat, tensorType } from '../tensor.ts'
import type { TensorType } from '../types.ts'
import { costOf } from './cost.ts'
import { reshapeTo } from './derivatives.ts'
import { zeros } from './elements.ts'
import {
  countingConstant,
  expandedTo,
  integers,
  one,
  onnxDataType,
  reshaped,
  scalarConstant,
} from './lowering.ts'
import { requireOperands, requireSizes, shapeError } from './shapes.ts'

// Rows of each sample moved to places that are found when running: tokens to slots of experts, and back.

/** Whole numbers up to here are slots, in 32 bits. */
const mostSlots = 2 ** 31 - 1

export const assignSlots: OpRule<'assignSlots'> = {
  summary:
    'slots of experts for the choices of each sample, first come first served: the slot of each choice, the choice and the token in each slot',
  infer: (inputs, { experts, capacity }) => {
    requireOperands('assignSlots', inputs, 1)
    requireSizes('assignSlots', inputs, [experts, capacity])
    const [choices] = inputs as [TensorType]
    if (choices.dtype !== 'i32') throw shapeError('assignSlots', inputs, 'chosen experts must be i32')
    if (choices.shape.length !== 3)
      throw shapeError('assignSlots', inputs, 'needs [batch, tokens, choices of a token]')
    if (experts < 1 || capacity < 1) throw shapeError('assignSlots', inputs, 'there are no slots')
    if (experts * capacity > mostSlots || elementCount(choices.shape.slice(1)) > mostSlots)
      throw shapeError('assignSlots', inputs, 'there are too many slots to number')
    const [batch, tokens, k] = choices.shape as [number, number, number]
    const axes = axesOf(choices)
    const slots = tensorType('i32', [batch, experts, capacity], [axes[0]!, 'experts', ''])
    return [tensorType('i32', [batch, tokens, k], [...axes.slice(0, 2), '']), slots, slots]
  },
  vjp: [null],
  cost: (inputs, outputs) => costOf(0, inputs, outputs),
  reference: ([choices], { experts, capacity }, types) => {
    const [slots, occupants, tokens] = types.map(zeros)
    const [batch, length, k] = choices!.type.shape as [number, number, number]
    slots!.data.fill(-1)
    occupants!.data.fill(-1)
    tokens!.data.fill(-1)
    for (let sample = 0; sample < batch; sample++) {
      const taken = new Array<number>(experts).fill(0)
      for (let choice = 0; choice < length * k; choice++) {
        const expert = choices!.data[sample * length * k + choice]!
        if (expert < 0 || expert >= experts) continue
        const position = taken[expert]!++
        if (position >= capacity) continue
        const slot = expert * capacity + position
        slots!.data[sample * length * k + choice] = slot
        occupants!.data[sample * experts * capacity + slot] = choice
        tokens!.data[sample * experts * capacity + slot] = Math.floor(choice / k)
      }
    }
    return [slots!, occupants!, tokens!]
  },
  onnx: ({ emit, attributes: { experts, capacity }, inputs, inputTypes, outputTypes }) => {
    const [batch, length, k] = inputTypes[0]!.shape as [number, number, number]
    const number = (value: number): string => scalarConstant(emit, 'i32', value)
    const choices = reshaped(emit, inputs[0]!, [batch, length, k], [batch, length * k])
    const column = one(emit, 'Unsqueeze', [choices, integers(emit, [2])])
    const chosen = one(
      emit,
      'Cast',
      [one(emit, 'Equal', [column, countingConstant(emit, 'i32', [experts])])],
      {
        to: { int: onnxDataType.i32 },
      },
    )
    const counted = one(emit, 'CumSum', [chosen, emit.constant('i64', [], [1])])
    // From 1 on; 0 where the choice is none of the experts.
    const position = one(emit, 'ReduceSum', [one(emit, 'Mul', [chosen, counted]), integers(emit, [2])], {
      keepdims: { int: 0 },
    })
    const has = one(emit, 'And', [
      one(emit, 'Less', [number(0), position]),
      one(emit, 'Less', [position, number(capacity + 1)]),
    ])
    const first = one(emit, 'Sub', [one(emit, 'Mul', [choices, number(capacity)]), number(1)])
    const slot = one(emit, 'Add', [first, position])
    const slots = one(emit, 'Where', [has, slot, number(-1)])
    // Choices without a slot go to one slot too many, which is left out.
    const size = experts * capacity
    const empty = expandedTo(emit, emit.constant('i32', [1, 1], [-1]), [1, 1], [batch, size + 1])
    const places = one(emit, 'Where', [has, slot, number(size)])
    const order = one(emit, 'Range', [number(0), number(length * k), number(1)])
    const filled = (of: string): string => {
      const numbers = expandedTo(emit, of, [length * k], [batch, length * k])
      const all = one(emit, 'ScatterElements', [empty, places, numbers], { axis: { int: 1 } })
      const kept = one(emit, 'Slice', [all, integers(emit, [0]), integers(emit, [size]), integers(emit, [1])])
      return reshaped(emit, kept, [batch, size], outputTypes[1]!.shape)
    }
    return [
      reshaped(emit, slots, [batch, length * k], [batch, length, k]),
      filled(order),
      filled(one(emit, 'Div', [order, number(k)])),
    ]
  },
}

export const route: OpRule<'route'> = {
  summary: "rows of each sample's own table by id, zeros for a negative id",
  infer: (inputs) => {
    requireOperands('route', inputs, 3)
    const [x, sources, targets] = inputs as [TensorType, TensorType, TensorType]
    if (!isFloat(x.dtype)) throw shapeError('route', inputs, `is not defined on ${x.dtype}`)
    if (sources.dtype !== 'i32' || targets.dtype !== 'i32')
      throw shapeError('route', inputs, 'ids must be i32')
    if (x.shape.length !== 3) throw shapeError('route', inputs, 'needs [batch, rows, width]')
    const [batch, rows, width] = x.shape as [number, number, number]
    if (sources.shape.length < 2 || sources.shape[0] !== batch)
      throw shapeError('route', inputs, 'needs ids of each sample')
    if (targets.shape.length !== 3 || targets.shape[0] !== batch || targets.shape[1] !== rows)
      throw shapeError('route', inputs, 'needs for each row the places it goes to')
    const axes = [...axesOf(sources), axesOf(x)[2]!]
    return [tensorType(x.dtype, [...sources.shape, width], axes)]
  },
  vjp: [
    // Back the way they came: each row is the sum of the places it went to.
    ({ builder, inputs, outputs, cotangents }) => {
      const [x, sources, targets] = inputs as [number, number, number]
      const { dtype, shape } = builder.type(outputs[0]!)
      const places = shape.slice(1, -1).reduce((product, size) => product * size, 1)
      const axes = axesOf(builder.type(x))
      const flat = tensorType(dtype, [shape[0]!, places, shape.at(-1)!], [axes[0]!, '', axes[2]!])
      const back = builder.one(
        'route',
        [
          reshapeTo(builder, cotangents[0]!, flat),
          targets,
          reshapeTo(builder, sources, tensorType('i32', [shape[0]!, places, 1], [axes[0]!, '', ''])),
        ],
        {},
      )
      if (builder.type(targets).shape[2] === 1) return reshapeTo(builder, back, builder.type(x))
      return builder.one('reduceSum', [back], { dims: [2], keepDims: false })
    },
    null,
    null,
  ],
  // Only the rows asked for are read.
  cost: (inputs, outputs) => costOf(0, [inputs[1]!, outputs[0]!], outputs),
  reference: ([x, sources], _attributes, [type]) => {
    const result = zeros(type!)
    const [batch, rows, width] = x!.type.shape as [number, number, number]
    const places = sources!.data.length / batch
    sources!.data.forEach((id, index) => {
      if (id < 0) return
      if (id >= rows)
        throw new MeshwrightError('GRAPH_ID_RANGE', `route: id ${id} is outside a table of ${rows} rows`)
      const start = (Math.floor(index / places) * rows + id) * width
      result.data.set(x!.data.subarray(start, start + width), index * width)
    })
    return [result]
  },
  // Of the rows of all samples as one table, with a row of zeros behind them.
  onnx: ({ emit, inputs, inputTypes }) => {
    const { dtype, shape } = inputTypes[0]!
    const [batch, rows, width] = shape as [number, number, number]
    const zero = expandedTo(emit, emit.constant(dtype, [1, 1], [0]), [1, 1], [1, width])
    const flat = reshaped(emit, inputs[0]!, shape, [batch * rows, width])
    const table = one(emit, 'Concat', [flat, zero], { axis: { int: 0 } })
    const starts = Array.from({ length: batch }, (_, sample) => sample * rows)
    const column = inputTypes[1]!.shape.map((size, dim) => (dim === 0 ? size : 1))
    const own =
      batch === 1 ? inputs[1]! : one(emit, 'Add', [inputs[1]!, emit.constant('i32', column, starts)])
    const none = one(emit, 'Less', [inputs[1]!, scalarConstant(emit, 'i32', 0)])
    const ids = one(emit, 'Where', [none, scalarConstant(emit, 'i32', batch * rows), own])
    return emit.node('Gather', [table, ids], { axis: { int: 0 } })
  },
}
