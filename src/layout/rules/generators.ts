import { type GraphBuilder, maskedScore, type ValueId } from '../../graph/index.ts'
import { blockShape } from '../blocks.ts'
import { dimIndices, type LayoutRules } from './notation.ts'

/** The numbers from a rank's start on along one of two dims, i32. */
function counting(
  builder: GraphBuilder,
  sizes: readonly number[],
  dim: number,
  start: ValueId | undefined,
): ValueId {
  const shape = sizes.map((size, other) => (other === dim ? size : 1))
  const counted = builder.one('iota', [], { shape, dtype: 'i32', dim })
  return start === undefined ? counted : builder.one('add', [counted, start], {})
}

export const generatorRules: Pick<LayoutRules, 'fill' | 'iota' | 'causalMask' | 'rotaryTable'> = {
  fill: {
    signature: ({ attributes: { shape } }) => ({ inputs: [], outputs: [dimIndices(shape.length)] }),
    local: ({ builder, attributes, outputBlocks }) =>
      builder.op('fill', [], { ...attributes, shape: blockShape(outputBlocks[0]!) }),
  },
  iota: {
    signature: ({ attributes: { shape, dim } }) => ({
      inputs: [],
      outputs: [dimIndices(shape.length)],
      starts: [`d${dim}`],
    }),
    local: ({ builder, attributes, outputBlocks, start }) => {
      const counted = builder.one('iota', [], { ...attributes, shape: blockShape(outputBlocks[0]!) })
      const first = start(`d${attributes.dim}`)
      if (first === undefined) return [counted]
      return [builder.one('add', [counted, builder.one('cast', [first], { dtype: attributes.dtype })], {})]
    },
  },
  causalMask: {
    signature: () => ({ inputs: [], outputs: [['queries', 'keys']], starts: ['queries', 'keys'] }),
    local: ({ builder, attributes, outputBlocks, start }) => {
      const sizes = blockShape(outputBlocks[0]!)
      const [queries, keys] = sizes as [number, number]
      const starts = [start('queries'), start('keys')]
      if (starts.every((first) => first === undefined))
        return builder.op('causalMask', [], { ...attributes, queries, keys })
      const constant = (dtype: 'i32' | typeof attributes.dtype, value: number): ValueId =>
        builder.one('fill', [], { shape: [], dtype, value })
      const rows = counting(builder, sizes, 0, starts[0])
      const lastSeen = builder.one('add', [rows, constant('i32', attributes.offset)], {})
      const hidden = builder.one('less', [lastSeen, counting(builder, sizes, 1, starts[1])], {})
      const values = [maskedScore, 0].map((value) => constant(attributes.dtype, value))
      return builder.op('where', [hidden, ...values], {})
    },
  },
  rotaryTable: {
    signature: () => ({ inputs: [], outputs: [['positions', '']], starts: ['positions'] }),
    // Rows of the whole table, which is a constant that all ranks share.
    local: ({ builder, attributes, outputBlocks, start }) => {
      const table = builder.one('rotaryTable', [], attributes)
      const first = start('positions')
      if (first === undefined) return [table]
      const [positions] = blockShape(outputBlocks[0]!) as [number, number]
      return builder.op('gather', [table, counting(builder, [positions], 0, first)], {})
    },
  },
}
