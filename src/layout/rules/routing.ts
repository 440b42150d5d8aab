import type { ValueId } from '../../graph/index.ts'
import { blockShape } from '../blocks.ts'
import { dimIndices, type LayoutRules, linear } from './notation.ts'
import { idsOr, ownIds } from './products.ts'

export const routingRules: Pick<
  LayoutRules,
  'topK' | 'gatherElements' | 'scatterElements' | 'assignSlots' | 'route'
> = {
  topK: {
    signature: ({ inputs }) => {
      const rows = [...dimIndices(inputs[0]!.shape.length - 1), '']
      return { inputs: [rows], outputs: [rows, rows] }
    },
  },
  gatherElements: {
    signature: ({ inputs }) => {
      const rows = dimIndices(inputs[0]!.shape.length - 1)
      const ids = [...rows, 'ids']
      return {
        inputs: [[...rows, ''], ids],
        outputs: [ids],
        terms: [{ inputs: [0], reductions: linear }],
      }
    },
  },
  scatterElements: {
    signature: ({ inputs }) => {
      const rows = dimIndices(inputs[0]!.shape.length - 1)
      const ids = [...rows, 'ids']
      return {
        inputs: [ids, ids],
        outputs: [[...rows, '']],
        terms: [{ inputs: [1], reductions: linear }],
      }
    },
  },
  // Which slot a token gets depends on all tokens before it. Ranks repeat this: it is a few whole numbers a token.
  assignSlots: {
    signature: () => {
      const sample = ['batch', '', '']
      return { inputs: [sample], outputs: [sample, sample, sample] }
    },
  },
  route: {
    signature: ({ inputs }) => {
      const places = dimIndices(inputs[1]!.shape.length - 1, 'i')
      return {
        inputs: [
          ['batch', 'table', 'width'],
          ['batch', ...places],
          ['batch', 'table', ''],
        ],
        outputs: [['batch', ...places, 'width']],
        terms: [{ inputs: [0], reductions: linear }],
        starts: ['table'],
      }
    },
    // Of a table cut by rows: the rows that the rank has, zeros for those that others have.
    local: ({ builder, operands, inputBlocks, start }) => {
      const first = start('table')
      const [table, sources, targets] = operands as [ValueId, ValueId, ValueId]
      if (first === undefined) return builder.op('route', operands, {})
      const rows = blockShape(inputBlocks[0]!)[1]!
      const { own, inside } = ownIds(builder, sources, first, rows)
      return builder.op('route', [table, idsOr(builder, own, inside, -1), targets], {})
    },
  },
}
