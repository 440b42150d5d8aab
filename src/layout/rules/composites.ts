import type { TensorType, ValueId } from '../../graph/index.ts'
import { blockShape } from '../blocks.ts'
import { dimIndices, type LayoutRules, type OpSignature } from './notation.ts'
import { idsOr, ownIds } from './products.ts'

/** Over the last dim, which is whole; weights are vectors along it. */
function overLast(inputs: readonly TensorType[], outputs: readonly TensorType[]): OpSignature {
  const rows = [...dimIndices(inputs[0]!.shape.length - 1), '']
  return { inputs: [rows, ...inputs.slice(1).map(() => [''])], outputs: outputs.map(() => rows) }
}

export const compositeRules: Pick<
  LayoutRules,
  'softmax' | 'layerNorm' | 'rmsNorm' | 'attention' | 'crossEntropy' | 'crossEntropyGradient'
> = {
  softmax: { signature: ({ inputs, outputs }) => overLast(inputs, outputs) },
  layerNorm: { signature: ({ inputs, outputs }) => overLast(inputs, outputs) },
  rmsNorm: { signature: ({ inputs, outputs }) => overLast(inputs, outputs) },
  attention: {
    signature: ({ attributes: { causal }, inputs }) => {
      // Which keys a query sees depends on its position, which a part of the queries does not know.
      const queries = causal ? '' : 'queries'
      const batch = inputs[0]!.shape.slice(0, -3)
      const names = dimIndices(batch.length, 'b')
      const kv = [...names, 'heads', '', '']
      const row = [...names, 'heads', queries]
      const operands = [[...row, ''], kv, kv]
      const visible = inputs[3]?.shape.slice(0, -2)
      if (visible !== undefined) {
        const missing = batch.length - visible.length
        const own = visible.map((size, dim) => (size === batch[missing + dim] ? names[missing + dim]! : ''))
        operands.push([...own, queries, ''])
      }
      return { inputs: operands, outputs: [[...row, ''], [...row, ''], row] }
    },
  },
  crossEntropy: {
    signature: ({ inputs }) => {
      const rows = dimIndices(inputs[1]!.shape.length)
      return { inputs: [[...rows, ''], rows], outputs: [[], [...rows, '']] }
    },
  },
  crossEntropyGradient: {
    signature: ({ inputs }) => {
      const rows = dimIndices(inputs[1]!.shape.length)
      return { inputs: [[...rows, 'classes'], rows], outputs: [[...rows, 'classes']], starts: ['classes'] }
    },
    // A label among the classes of another rank is not counted here.
    local: ({ builder, operands, inputBlocks, start }) => {
      const first = start('classes')
      const [probabilities, labels] = operands as [ValueId, ValueId]
      if (first === undefined) return builder.op('crossEntropyGradient', operands, {})
      const classes = blockShape(inputBlocks[0]!).at(-1)!
      const { own, inside } = ownIds(builder, labels, first, classes)
      return builder.op('crossEntropyGradient', [probabilities, idsOr(builder, own, inside, -1)], {})
    },
  },
}
