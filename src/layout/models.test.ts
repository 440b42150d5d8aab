import { describe, expect, it } from 'vitest'
import { runByBlocks, withGradients } from '../../test/support/layoutGraph.ts'
import { smallModel } from '../../test/support/smallModels.ts'
import { interpretGraph } from '../graph/index.ts'
import {
  decomposeNodes,
  type Layout,
  type Mesh,
  parseLayout,
  printLayout,
  replicatedLayout,
} from './index.ts'

const [batch, sequence, hidden, vocabulary, parts] = [2, 8, 16, 32, 2]
const mesh: Mesh = { axes: [{ name: 'tensor', size: parts }] }

/** Only which parameters are cut along which dim, as Megatron-LM has them; matrices are [out, in] in llama, [in, out] in gpt. */
const rules: readonly (readonly [RegExp, string])[] = [
  [/([qkv]|gate|up)_proj|embed_tokens|lm_head|wte/, '[tensor | .]'],
  [/(o|down)_proj|c_fc\.weight/, '[. | tensor]'],
  [/c_fc\.bias/, '[tensor]'],
  [/c_proj\.weight/, '[tensor | .]'],
]

function layoutOf(name: string, shape: readonly number[]): Layout {
  const rule = rules.find(([pattern]) => pattern.test(name))
  return rule === undefined ? replicatedLayout(shape.length) : parseLayout(rule[1])
}

function run(name: string, what: 'forward' | 'both') {
  const { graph, inputs } = smallModel(name, batch, sequence)
  const whole = what === 'forward' ? graph : withGradients(graph)
  // The loss is the only op over a dim that these layouts cut.
  const cut = decomposeNodes(whole, (node) => whole.nodes[node]!.op === 'crossEntropy')
  const moves: string[] = []
  const result = runByBlocks(cut, inputs, mesh, {
    layoutOf,
    choose: ([plan]) => {
      for (const { type, steps } of plan!.operands)
        for (const { kind, before } of steps)
          if (kind !== 'slice' && kind !== 'keepOne')
            moves.push(`${kind} of ${type.shape.join(' x ')} as ${printLayout(before)}`)
      return plan!
    },
    random: () => 0,
  })
  return { result, moves, expected: interpretGraph(whole, inputs) }
}

const sizes = `layers=2,hidden=${hidden},heads=4,vocab=${vocabulary},context=${sequence},mlp=48`

describe('models by blocks', () => {
  it('have the all-reduces of Megatron-LM forward, and no logits gathered, from layouts of parameters alone', () => {
    const { moves } = run(`llama:${sizes},kvHeads=2`, 'forward')
    const rows = batch * sequence
    expect(moves).toEqual([
      // Embedding, then attention and feed-forward of each layer, then the loss.
      ...new Array(5).fill(
        `allReduce of ${batch} x ${sequence} x ${hidden} as [. | . | .] partial sum tensor`,
      ),
      `allReduce of ${rows} x 1 as [. | .] partial max tensor`,
      `allReduce of ${rows} x 1 as [. | .] partial sum tensor`,
    ])
  })

  it.each([`llama:${sizes},kvHeads=2`, `gpt:${sizes}`])('%s is the model, forward and backward', (name) => {
    const { result, expected } = run(name, 'both')
    expect(result.sentElements).toBeCloseTo(result.predictedElements, 6)
    for (const [output, { data }] of expected)
      data.forEach((value, index) => {
        const found = result.outputs.get(output)![index]!
        if (!(Math.abs(found - value) <= 1e-9 * (1 + Math.abs(value)))) expect(found, output).toBe(value)
      })
  })
})
