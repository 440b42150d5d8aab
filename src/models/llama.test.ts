import { describe, expect, it } from 'vitest'
import { inputsOf, largestDifference, lossAndGradients } from '../../test/support/modelFixture.ts'
import { interpretGraph, makeTensor } from '../graph/index.ts'
import llama from './fixtures/llama.json' with { type: 'json' }
import { modelFromHuggingFaceConfig } from './huggingFace.ts'
import { llamaModel } from './llama.ts'
import type { LlamaConfig } from './types.ts'

const read = modelFromHuggingFaceConfig(llama.config, { source: 'llama.json' })
const config = read.config as LlamaConfig
const parameters: Readonly<Record<string, { readonly values: readonly number[] }>> = llama.parameters

function refused(change: Partial<LlamaConfig>): unknown {
  try {
    return llamaModel({ ...config, ...change })
  } catch (error) {
    return error
  }
}

describe('llama', () => {
  it('shares kv heads as if each were repeated for its query heads', () => {
    const headDim = config.headDim
    const width = config.hidden
    // Two kv heads for four query heads: each kv head's rows stand twice in the wide model.
    const repeated = (values: readonly number[]): number[] =>
      [0, 0, 1, 1].flatMap((head) => values.slice(head * headDim * width, (head + 1) * headDim * width))
    const wide = llamaModel({ ...config, kvHeads: 4 })
    const result = lossAndGradients(
      wide,
      inputsOf(wide, llama, (name) => {
        const { values } = parameters[name]!
        return /[kv]_proj/.test(name) ? repeated(values) : values
      }),
    )
    expect(result.loss).toBeCloseTo(llama.loss, 11)
  })

  it('splits the gradient of a tied embedding between embedding and head when untied', () => {
    const tied = llamaModel({ ...config, tied: true })
    const embedding = 'model.embed_tokens.weight'
    const weights = (name: string): readonly number[] =>
      parameters[name === 'lm_head.weight' ? embedding : name]!.values
    const whole = lossAndGradients(tied, inputsOf(tied, llama, weights))
    const parts = lossAndGradients(read, inputsOf(read, llama, weights))
    const head = parts.gradients.get('lm_head.weight')!
    const sum = Array.from(parts.gradients.get(embedding)!, (value, index) => value + head[index]!)
    expect(largestDifference(sum, whole.gradients.get(embedding)!)).toBeLessThan(1e-12)
  })

  it('attends inside documents that are packed into one sequence', () => {
    const lengths = [1, 4, 2, 3]
    const vocabulary = config.vocab
    const documents = lengths.map((length, document) =>
      Array.from({ length }, (_, position) => (7 * document + 5 * position + 1) % vocabulary),
    )
    const labels = documents.map((tokens) => tokens.map((token) => (3 * token + 2) % vocabulary))
    const weights = (name: string): readonly number[] => parameters[name]!.values
    const lossOf = (
      tokens: readonly number[][],
      targets: readonly number[][],
      ids?: readonly number[],
    ): number => {
      const inputs = inputsOf(read, { tokens, labels: targets }, weights)
      const [batch, sequence] = inputs['tokens']!.type.shape as [number, number]
      if (ids !== undefined) inputs['documents'] = makeTensor(inputs['tokens']!.type, ids)
      const graph = read.build({ batch, sequence, dtype: 'f64', documents: ids !== undefined })
      return interpretGraph(graph, inputs).get('loss')!.data[0]!
    }
    // Rotary scores depend on how far apart two positions are, not on where they are.
    const alone = documents.reduce((sum, tokens, at) => sum + lossOf([tokens], [labels[at]!]), 0)
    const [packed, targets] = [[documents.flat()], [labels.flat()]]
    const ids = lengths.flatMap((length, document) => new Array<number>(length).fill(document))
    expect(lossOf(packed, targets, ids)).toBeCloseTo(alone, 11)
    expect(Math.abs(lossOf(packed, targets) - alone)).toBeGreaterThan(1e-6)
  })

  it('marks its blocks and keeps rotary tables out of them', () => {
    const graph = read.build({ batch: 2, sequence: 5, dtype: 'f32' })
    expect(graph.blocks).toEqual(['embed', 'layers.0', 'layers.1', 'head'])
    expect(graph.nodes.filter((node) => node.block === -1).map((node) => node.op)).toEqual([
      'rotaryTable',
      'rotaryTable',
    ])
  })

  it('refuses sizes that do not go together', () => {
    expect(refused({ kvHeads: 3 })).toMatchObject({
      code: 'MODEL_KV_HEADS',
      message: 'heads 4 is not divisible by kvHeads 3',
      hint: 'heads 3 or 6 would work, or kvHeads 2 or 4',
    })
    expect(refused({ kvHeads: 8 })).toMatchObject({
      hint: 'heads 8 would work, or kvHeads 4',
    })
    expect(refused({ headDim: 5 })).toMatchObject({
      code: 'MODEL_HEAD_DIM',
      hint: 'headDim 4 or 6 would work',
    })
    expect(refused({ ropeTheta: 0 })).toMatchObject({ code: 'MODEL_NUMBER' })
    expect(refused({ ropeScaling: { kind: 'linear', factor: 0.5 } })).toMatchObject({
      code: 'MODEL_ROPE_SCALING',
    })
  })
})
