import { describe, expect, it } from 'vitest'
import { withGradients } from '../../../test/support/layoutGraph.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import {
  type Graph,
  graphCost,
  interpretGraph,
  makeTensor,
  nodeCost,
  rewriteGraph,
  type Tensor,
} from '../../graph/index.ts'
import { modelFromShortName, visibleKeys } from '../../models/index.ts'
import { maskedAttention, ringAttention } from '../index.ts'

const batch = 2

interface Case {
  readonly graph: Graph
  readonly inputs: Map<string, Tensor>
}

/** Documents of lengths 1, 2, 3, … in the first sample, of one half each in the second. */
function documentsOf(sequence: number): Tensor {
  const ids = Array.from({ length: batch * sequence }, (_, index) => {
    const position = index % sequence
    return index < sequence
      ? Math.floor((Math.sqrt(8 * position + 1) - 1) / 2)
      : Number(2 * position >= sequence)
  })
  return makeTensor({ dtype: 'i32', shape: [batch, sequence] }, ids)
}

function caseOf(family: string, sequence: number, packed: boolean): Case {
  const sizes = 'layers=2,hidden=8,heads=4,mlp=10,vocab=13'
  const name = `${family === 'gpt' ? 'gpt:' : 'llama:kvHeads=2,'}${sizes},context=${family === 'gpt' ? sequence + 3 : sequence}`
  const { graph, inputs } = smallModel(name, batch, sequence)
  if (!packed) return { graph, inputs }
  return {
    graph: modelFromShortName(name).build({ batch, sequence, dtype: 'f64', documents: true }),
    inputs: new Map([...inputs, ['documents', documentsOf(sequence)]]),
  }
}

/** With every position seeing all of its document. */
function full(graph: Graph): Graph {
  return rewriteGraph(graph, {
    node: ({ builder, node, operands }) => {
      if (node.op !== 'attention') return undefined
      const visible =
        operands.length < 4 ? [] : [visibleKeys(builder, builder.findInput('documents')!, false)]
      return builder.op('attention', [...operands.slice(0, 3), ...visible], {
        ...node.attributes,
        causal: false,
      })
    },
  })
}

function expectEqual(found: Graph, whole: Graph, inputs: Map<string, Tensor>): void {
  const expected = interpretGraph(withGradients(whole), inputs)
  const actual = interpretGraph(withGradients(found), inputs)
  expect([...actual.keys()].sort()).toEqual([...expected.keys()].sort())
  const all = [...expected.values()].flatMap(({ data }) => [...data])
  const rms = Math.sqrt(all.reduce((sum, value) => sum + value * value, 0) / all.length)
  const worst = Math.max(
    ...[...expected].map(([name, { data }]) => {
      const scale = Math.max(rms, ...Array.from(data, Math.abs))
      // Not a number is no distance that is small enough.
      return Math.max(
        ...Array.from(data, (value, at) => {
          const distance = Math.abs(actual.get(name)!.data[at]! - value) / scale
          return Number.isNaN(distance) ? Number.POSITIVE_INFINITY : distance
        }),
      )
    }),
  )
  expect(worst).toBeLessThan(1e-12)
}

/** Flops of each attention node, in order. */
function attentionFlops(graph: Graph): number[] {
  return graph.nodes.flatMap((node) => (node.op === 'attention' ? [nodeCost(graph, node).flops] : []))
}

describe('ring attention', () => {
  const parts = [1, 2, 3, 4, 5]
  const cases = [false, true].flatMap((zigzag) =>
    [true, false].flatMap((causal) =>
      [false, true].flatMap((packed) => parts.map((part) => ({ parts: part, zigzag, causal, packed }))),
    ),
  )
  it.each(cases)('is the model, by all derivatives: %o', ({ parts: count, zigzag, causal, packed }) => {
    const sequence = count * (zigzag ? 2 : 1) * (count < 4 ? 3 : 2)
    // Odd cases take one family, even ones the other: each meets everything.
    const family = (count + Number(packed)) % 2 === 0 ? 'gpt' : 'llama'
    const { graph, inputs } = caseOf(family, sequence, packed)
    const whole = causal ? graph : full(graph)
    expectEqual(ringAttention(whole, { parts: count, zigzag }), whole, inputs)
  })

  it.each([2, 3])('drops the same choices of experts, whatever the order of tokens in %i blocks', (count) => {
    const sizes = 'layers=2,hidden=8,heads=2,mlp=6,vocab=13,context=12'
    const name = `moe:${sizes},experts=4,topk=2,balanceWeight=0.1`
    const [scarce, ample] = [0.5, 0].map((factor) =>
      smallModel(`${name},capacityFactor=${factor}`, batch, 12),
    )
    const lossOf = ({ graph, inputs }: Case): number => interpretGraph(graph, inputs).get('loss')!.data[0]!
    expect(Math.abs(lossOf(scarce!) - lossOf(ample!))).toBeGreaterThan(1e-6)
    for (const { graph, inputs } of [scarce!, ample!])
      for (const zigzag of [false, true])
        expectEqual(ringAttention(graph, { parts: count, zigzag }), graph, inputs)
  })

  it('is the model where all scores are equal, and where they differ by thousands', () => {
    const { graph, inputs } = caseOf('gpt', 8, false)
    for (const factor of [0, 100]) {
      const scaled = new Map(
        [...inputs].map(([name, tensor]) =>
          name.endsWith('c_attn.weight')
            ? [
                name,
                makeTensor(
                  tensor.type,
                  tensor.data.map((value) => factor * value),
                ),
              ]
            : [name, tensor],
        ) as [string, Tensor][],
      )
      for (const zigzag of [false, true])
        expectEqual(ringAttention(graph, { parts: 2, zigzag }), graph, scaled)
    }
  })

  it('of a sequence as long as the context takes the table of positions itself', () => {
    const name = 'gpt:layers=1,hidden=8,heads=2,mlp=10,vocab=13,context=8'
    const { graph, inputs } = smallModel(name, batch, 8)
    expectEqual(ringAttention(graph, { parts: 2, zigzag: true }), graph, inputs)
  })

  it('keeps inputs, outputs, blocks and the marks of nodes', () => {
    const { graph } = caseOf('llama', 12, true)
    const ring = ringAttention(graph, { parts: 3, zigzag: true })
    expect(ring.inputs.map(({ name, kind }) => [name, kind])).toEqual(
      graph.inputs.map(({ name, kind }) => [name, kind]),
    )
    expect(ring.outputs.map(({ name }) => name)).toEqual(['loss'])
    expect(ring.blocks).toEqual(graph.blocks)
    const layers = ring.nodes.flatMap(({ op, block }) => (op === 'roll' ? [ring.blocks[block]] : []))
    // Keys and values by two steps in each layer; document ids, which all layers share, by two in all.
    expect(layers.filter((block) => block === 'layers.1')).toHaveLength(4)
    expect(layers).toHaveLength(2 * 4 + 2)
  })

  it.each([2, 4, 8])(
    'in zig-zag order makes half of the scores in each of %i steps after the first',
    (count) => {
      const { graph } = caseOf('llama', 32, false)
      const [whole] = attentionFlops(graph)
      const [own, ...steps] = attentionFlops(ringAttention(graph, { parts: count, zigzag: false }))
      const [ownChunks, ...chunks] = attentionFlops(ringAttention(graph, { parts: count, zigzag: true }))
      // All blocks of all steps are all of the score matrix.
      expect(own! * count).toBe(whole)
      expect(steps.slice(0, count - 1)).toEqual(new Array(count - 1).fill(own))
      expect(ownChunks).toBe(own)
      const stepTotals = Array.from(
        { length: count - 1 },
        (_, step) => chunks[2 * step]! + chunks[2 * step + 1]!,
      )
      expect(stepTotals).toEqual(new Array(count - 1).fill(own! / 2))
    },
  )

  it('holds no score matrix of more than a block by a block', () => {
    const { graph } = caseOf('llama', 12, true)
    const ring = ringAttention(graph, { parts: 3, zigzag: false })
    const largest = Math.max(
      ...ring.nodes.flatMap(({ op, outputs }) =>
        op === 'attention' ? ring.values[outputs[1]!]!.type.shape.slice(-1) : [],
      ),
    )
    expect(largest).toBe(4)
    expect(ring.values.every(({ type }) => !(type.shape.at(-1) === 12 && type.shape.at(-2) === 12))).toBe(
      true,
    )
  })

  it('leaves a graph without attention, and one block, as it is', () => {
    const { graph } = caseOf('gpt', 6, false)
    expect(ringAttention(graph, { parts: 1, zigzag: true })).toBe(graph)
    const none = rewriteGraph(graph, {
      node: ({ node, operands }) => (node.op === 'attention' ? [operands[0]!] : undefined),
    })
    expect(ringAttention(none, { parts: 4, zigzag: true })).toBe(none)
  })

  it.each([
    [
      10,
      4,
      false,
      'sequence 10 cannot be cut into 4 equal blocks',
      'sequence 8 or 12, or a context degree of 2 or 5',
    ],
    [3, 4, false, 'sequence 3 cannot be cut into 4 equal blocks', 'sequence 4, or a context degree of 3'],
    [
      12,
      4,
      true,
      'sequence 12 cannot be cut into 2 x 4 equal chunks, of which zig-zag order gives each rank two',
      'sequence 8 or 16, or a context degree of 3 or 6',
    ],
    [
      9,
      3,
      true,
      'sequence 9 cannot be cut into 2 x 3 equal chunks, of which zig-zag order gives each rank two',
      'sequence 6 or 12, or a context degree of 1',
    ],
  ] as const)(
    'refuses a sequence of %i in %i parts (zig-zag: %s)',
    (sequence, count, zigzag, message, hint) => {
      const { graph } = caseOf('gpt', sequence, false)
      expect(() => ringAttention(graph, { parts: count, zigzag })).toThrow(
        expect.objectContaining({
          code: 'LAYOUT_UNEVEN',
          message,
          hint: `nearest that work: ${hint}`,
        }),
      )
    },
  )

  it('does not take a mask for another', () => {
    const { graph } = caseOf('gpt', 6, false)
    const plain = { parts: 2, zigzag: false }
    expect(() => ringAttention(maskedAttention(graph, plain), plain)).toThrow(/^internal: /)
  })
})

describe('attention over a mask of positions', () => {
  it.each(['gpt', 'llama'])('is causal attention in %s', (family) => {
    const { graph, inputs } = caseOf(family, 6, false)
    const masked = maskedAttention(graph, { parts: 2, zigzag: false })
    expect(masked.nodes.some((node) => node.op === 'attention' && node.attributes.causal)).toBe(false)
    expect(graphCost(masked).flops - graphCost(graph).flops).toBe(6 + 6 * 6)
    // Learned positions are looked up by row.
    expect(masked.nodes.some(({ op }) => op === 'slice')).toBe(false)
    expectEqual(masked, graph, inputs)
  })

  const cases = [true, false].flatMap((causal) =>
    [false, true].flatMap((packed) => [1, 2, 3].map((parts) => ({ parts, causal, packed }))),
  )
  it.each(cases)('is the model with its tokens in zig-zag order: %o', ({ parts, causal, packed }) => {
    const family = (parts + Number(packed)) % 2 === 0 ? 'gpt' : 'llama'
    const { graph, inputs } = caseOf(family, 4 * parts, packed)
    const whole = causal ? graph : full(graph)
    expectEqual(maskedAttention(whole, { parts, zigzag: true }), whole, inputs)
  })

  it('refuses a sequence that has no equal chunks', () => {
    const { graph } = caseOf('gpt', 6, false)
    expect(() => maskedAttention(graph, { parts: 2, zigzag: true })).toThrow(
      expect.objectContaining({ code: 'LAYOUT_UNEVEN' }),
    )
  })
})
