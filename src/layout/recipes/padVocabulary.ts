import { type FloatDType, type Graph, maskedScore, rewriteGraph, type TensorType } from '../../graph/index.ts'

/**
 * The graph of a model with rows added to all tables of its vocabulary, of which no id asks and which the loss does not see:
 * their logits weigh exactly nothing in the softmax, so their derivatives are zero, and rows of zeros stay that. The loss
 * and all other derivatives do not change (Megatron-LM pads likewise, but counts the padding as classes).
 */
export function padVocabulary(model: Graph, rows: number): Graph {
  let vocabulary: number | undefined
  const vocabDim = ({ axes }: TensorType): number => axes?.indexOf('vocab') ?? -1
  return rewriteGraph(model, {
    type: ({ kind }, type) => {
      const dim = vocabDim(type)
      if (kind !== 'parameter' || dim < 0) return undefined
      vocabulary = type.shape[dim]!
      return { ...type, shape: type.shape.with(dim, rows) }
    },
    node: ({ builder, node, operands, name }) => {
      if (node.op !== 'crossEntropy' || vocabulary === undefined || vocabulary === rows) return undefined
      const [logits, labels] = operands as [number, number]
      const { dtype, shape } = builder.type(logits) as TensorType & { dtype: FloatDType }
      const classes = shape.map((_, dim) => (dim === shape.length - 1 ? rows : 1))
      const counted = builder.one('iota', [], { shape: classes, dtype: 'i32', dim: shape.length - 1 })
      const end = builder.one('fill', [], { shape: [], dtype: 'i32', value: vocabulary })
      const hidden = builder.one('fill', [], { shape: [], dtype, value: maskedScore })
      const isClass = builder.one('less', [counted, end], {})
      return builder.op(
        'crossEntropy',
        [builder.one('where', [isClass, logits, hidden], {}), labels],
        {},
        name,
      )
    },
  })
}
