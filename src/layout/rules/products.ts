import type { GraphBuilder, TensorType, ValueId } from '../../graph/index.ts'
import { blockShape } from '../blocks.ts'
import { dimIndices, type LayoutRules, linear } from './notation.ts'

/** Ids counted from the first row of a rank, and whether they are among its `rows`. */
export function ownIds(
  builder: GraphBuilder,
  ids: ValueId,
  start: ValueId,
  rows: number,
): { readonly own: ValueId; readonly inside: ValueId } {
  const constant = (value: number): ValueId => builder.one('fill', [], { shape: [], dtype: 'i32', value })
  const own = builder.one('sub', [ids, start], {})
  const below = builder.one('less', [own, constant(0)], {})
  const inside = builder.one(
    'and',
    [builder.one('not', [below], {}), builder.one('less', [own, constant(rows)], {})],
    {},
  )
  return { own, inside }
}

/** `ids` where they are inside, `otherwise` elsewhere. */
export function idsOr(builder: GraphBuilder, ids: ValueId, inside: ValueId, otherwise: number): ValueId {
  const other = builder.one('fill', [], { shape: [], dtype: 'i32', value: otherwise })
  return builder.one('where', [inside, ids, other], {})
}

/** Leading dims of an operand of a product, of which those that it is repeated along have no index. */
function batchIndices(input: TensorType, output: TensorType): string[] {
  const batch = output.shape.slice(0, -2)
  const own = input.shape.slice(0, -2)
  const missing = batch.length - own.length
  return own.map((size, dim) => (size === batch[missing + dim] ? `b${missing + dim}` : ''))
}

export const productRules: Pick<LayoutRules, 'matmul' | 'gather' | 'scatterRows' | 'oneHot'> = {
  matmul: {
    signature: ({ attributes: { transposeA, transposeB }, inputs, outputs }) => {
      const [a, b] = inputs as [TensorType, TensorType]
      const [type] = outputs as [TensorType]
      return {
        inputs: [
          [...batchIndices(a, type), ...(transposeA ? ['inner', 'rows'] : ['rows', 'inner'])],
          [...batchIndices(b, type), ...(transposeB ? ['columns', 'inner'] : ['inner', 'columns'])],
        ],
        outputs: [[...dimIndices(type.shape.length - 2, 'b'), 'rows', 'columns']],
        terms: [
          { inputs: [0], reductions: linear },
          { inputs: [1], reductions: linear },
        ],
      }
    },
  },
  gather: {
    signature: ({ inputs }) => {
      const ids = dimIndices(inputs[1]!.shape.length, 'i')
      const row = dimIndices(inputs[0]!.shape.length - 1, 'r')
      return {
        inputs: [['table', ...row], ids],
        outputs: [[...ids, ...row]],
        terms: [{ inputs: [0], reductions: linear }],
        starts: ['table'],
      }
    },
    // Of a table cut by rows: the rows that the rank has, zeros for those that others have.
    local: ({ builder, operands, inputs, inputBlocks, start }) => {
      const first = start('table')
      const [table, ids] = operands as [ValueId, ValueId]
      if (first === undefined) return builder.op('gather', operands, {})
      const [rows] = blockShape(inputBlocks[0]!) as [number]
      const { own, inside } = ownIds(builder, ids, first, rows)
      const found = builder.one('gather', [table, idsOr(builder, own, inside, 0)], {})
      const shape = [...blockShape(inputBlocks[1]!), ...inputs[0]!.shape.slice(1).map(() => 1)]
      const column = builder.one('reshape', [inside], { shape })
      const zero = builder.one('fill', [], { shape: [], dtype: inputs[0]!.dtype, value: 0 })
      return builder.op('where', [column, found, zero], {})
    },
  },
  scatterRows: {
    signature: ({ inputs }) => {
      const rank = inputs[0]!.shape.length
      const ids = dimIndices(rank, 'i')
      const row = dimIndices(inputs[1]!.shape.length - rank, 'r')
      return {
        inputs: [ids, [...ids, ...row]],
        outputs: [['table', ...row]],
        terms: [{ inputs: [1], reductions: linear }],
        starts: ['table'],
      }
    },
    // Rows of others go to one row too many, which is left out.
    local: ({ builder, operands, outputBlocks, start }) => {
      const first = start('table')
      const [ids, values] = operands as [ValueId, ValueId]
      const shape = blockShape(outputBlocks[0]!)
      const [rows] = shape as [number]
      if (first === undefined) return builder.op('scatterRows', operands, { rows })
      const { own, inside } = ownIds(builder, ids, first, rows)
      const scattered = builder.one('scatterRows', [idsOr(builder, own, inside, rows), values], {
        rows: rows + 1,
      })
      return builder.op('slice', [scattered], { starts: shape.map(() => 0), ends: shape })
    },
  },
  oneHot: {
    signature: ({ inputs }) => {
      const ids = dimIndices(inputs[0]!.shape.length, 'i')
      return { inputs: [ids], outputs: [[...ids, 'depth']], starts: ['depth'] }
    },
    local: ({ builder, attributes, operands, outputBlocks, start }) => {
      const first = start('depth')
      const ids = first === undefined ? operands[0]! : builder.one('sub', [operands[0]!, first], {})
      return builder.op('oneHot', [ids], { ...attributes, depth: blockShape(outputBlocks[0]!).at(-1)! })
    },
  },
}
