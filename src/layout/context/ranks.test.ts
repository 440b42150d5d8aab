import { describe, expect, it } from 'vitest'
import { axesOf, checkModel } from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import { makeTensor } from '../../graph/index.ts'
import { modelFromShortName } from '../../models/index.ts'
import { maskedAttention, ringAttention } from '../index.ts'

const [batch, sequence, layers, headDim] = [2, 16, 1, 4]
const names = {
  gpt: `gpt:layers=${layers},hidden=8,heads=2,mlp=12,vocab=20,context=${sequence}`,
  llama: `llama:layers=${layers},hidden=16,heads=4,kvHeads=2,mlp=12,vocab=20,context=${sequence}`,
}

/** What ranks send each other in one forward and backward, as operation, dtype and shape of a rank's operand. */
function sent(whole: ReturnType<typeof checkModel>['whole']): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { op, attributes, inputs } of whole.graph.nodes) {
    if (op !== 'communicate') continue
    const { dtype, shape } = whole.graph.values[inputs[0]!]!.type
    const key = `${attributes.operation} ${dtype}[${shape}]`
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

describe('a ring over the ranks of a context axis', () => {
  const cases = [
    ['gpt', 2, false],
    ['gpt', 4, true],
    ['llama', 4, false],
    ['llama', 2, true],
  ] as const
  it.each(cases)(
    '%s on %i ranks, zig-zag: %s: blocks of keys and values, and nothing else',
    (family, parts, zigzag) => {
      const { graph, inputs } = smallModel(names[family], batch, sequence)
      const ring = ringAttention(graph, { parts, zigzag })
      const { whole } = checkModel({ graph: ring, inputs }, axesOf({ context: parts }), {
        context: 'ring',
        zigzag,
      })
      // Each of both parts - 1 times, their derivatives as often the other way.
      expect(sent(whole)).toEqual({
        [`permute f64[${batch},1,2,${sequence / parts},${headDim}]`]: 4 * layers * (parts - 1),
      })
    },
  )

  it('sends no document ids, which all ranks have with the batch', () => {
    const model = modelFromShortName(names.llama)
    const graph = model.build({ batch, sequence, dtype: 'f64', documents: true })
    const ids = Array.from({ length: batch * sequence }, (_, index) => Math.floor(index / 5))
    const inputs = new Map(smallModel(names.llama, batch, sequence).inputs).set(
      'documents',
      makeTensor({ dtype: 'i32', shape: [batch, sequence] }, ids),
    )
    const ring = ringAttention(graph, { parts: 4, zigzag: true })
    const { whole } = checkModel({ graph: ring, inputs }, axesOf({ context: 4 }), {
      context: 'ring',
      zigzag: true,
    })
    expect(sent(whole)).toEqual({
      [`permute f64[${batch},1,2,4,${headDim}]`]: 4 * layers * 3,
    })
  })

  it.each([false, true])(
    'gathers keys and values where a mask of positions lets queries be cut, zig-zag: %s',
    (zigzag) => {
      const { graph, inputs } = smallModel(names.gpt, batch, sequence)
      const masked = maskedAttention(graph, { parts: 4, zigzag })
      const model = { graph: masked, inputs, original: graph }
      const { whole } = checkModel(model, axesOf({ context: 4 }), { context: 'gather', zigzag })
      // A rank has 4 tokens, in two runs where they are in zig-zag order.
      const runs = zigzag ? '1,2,2' : '4'
      const [own, all] = [`f64[${batch},2,${runs},${headDim}]`, `f64[8,2,${runs},${headDim}]`]
      expect(sent(whole)).toEqual({
        [`allGather ${own}`]: 2 * layers,
        [`reduceScatter ${all}`]: 2 * layers,
      })
    },
  )
})
