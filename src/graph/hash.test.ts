import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { randomModels } from '../../test/support/randomGraphs.ts'
import { Numbers, seeds } from '../../test/support/randomTensors.ts'
import { tinyGpt } from '../../test/support/tinyGpt.ts'
import { GraphBuilder } from './builder.ts'
import { canonicalHash, canonicalText } from './hash.ts'
import { splitStages } from './stages.ts'
import { differentiateStage } from './tasks.ts'
import type { Graph, Node, OpAttributes, TensorType, ValueId } from './types.ts'

/** The same graph with values numbered otherwise, nodes in another order, other names and other block marks. */
function disguised(graph: Graph, seed: number): Graph {
  const numbers = new Numbers(seed)
  const order = shuffled(graph.values.length, numbers)
  const at = (value: ValueId): ValueId => order[value]!
  const values = graph.values.map(({ type }) => ({ type, name: `v${numbers.integer(0, 99)}` }))
  const moved = [...values]
  values.forEach((value, index) => {
    moved[at(index)] = value
  })
  const nodes: Node[] = []
  const known = new Set(graph.inputs.map((input) => input.value))
  const waiting = [...graph.nodes]
  while (waiting.length > 0) {
    const ready = waiting.filter((node) => node.inputs.every((input) => known.has(input)))
    const node = ready[numbers.integer(0, ready.length - 1)]!
    waiting.splice(waiting.indexOf(node), 1)
    for (const output of node.outputs) known.add(output)
    nodes.push({ ...node, inputs: node.inputs.map(at), outputs: node.outputs.map(at), block: -1 })
  }
  return {
    values: moved,
    inputs: graph.inputs.map((input, index) => ({ ...input, name: `in${index}`, value: at(input.value) })),
    nodes,
    outputs: graph.outputs.map((output, index) => ({ name: `out${index}`, value: at(output.value) })),
    blocks: [],
  }
}

function shuffled(count: number, numbers: Numbers): number[] {
  const order = Array.from({ length: count }, (_, index) => index)
  for (let index = count - 1; index > 0; index--) {
    const other = numbers.integer(0, index)
    ;[order[index], order[other]] = [order[other]!, order[index]!]
  }
  return order
}

/** Every graph that differs from the given one in one small thing that changes what it says. */
function* mutations(graph: Graph): Generator<[string, Graph]> {
  for (const [index, node] of graph.nodes.entries()) {
    const replaced = (other: Node): Graph => ({ ...graph, nodes: graph.nodes.with(index, other) })
    if (node.op === 'tanh') yield ['op', replaced({ ...node, op: 'sigmoid' })]
    if (node.op === 'matmul') {
      const { attributes } = node
      yield ['scale', replaced({ ...node, attributes: { ...attributes, scale: attributes.scale + 1e-12 } })]
      yield ['flag', replaced({ ...node, attributes: { ...attributes, transposeA: !attributes.transposeA } })]
    }
    if (node.op === 'layerNorm') yield ['epsilon', replaced({ ...node, attributes: { epsilon: 0.02 } })]
    if (node.op === 'fill') {
      const attributes = { ...node.attributes, value: -0 }
      yield ['sign of zero', replaced({ ...node, attributes })]
      yield ['not a number', replaced({ ...node, attributes: { ...attributes, value: Number.NaN } })]
    }
    if (node.op === 'transpose' && node.attributes.permutation.length === 4)
      yield ['permutation', replaced({ ...node, attributes: { permutation: [0, 2, 3, 1] } })]
    for (const [operand, input] of node.inputs.entries()) {
      const others = [
        ...graph.inputs.map(({ value }) => value),
        ...graph.nodes.slice(0, index).flatMap((n) => n.outputs),
      ]
      for (const other of others)
        if (other !== input) yield ['wiring', replaced({ ...node, inputs: node.inputs.with(operand, other) })]
    }
    if (node.outputs.length === 2)
      yield ['outputs of a node', replaced({ ...node, outputs: node.outputs.toReversed() })]
  }
  for (const [value, { type }] of graph.values.entries()) {
    const retyped = (other: TensorType): Graph => ({
      ...graph,
      values: graph.values.with(value, { type: other }),
    })
    yield ['dtype', retyped({ ...type, dtype: type.dtype === 'f32' ? 'f64' : 'f32' })]
    yield ['shape', retyped({ ...type, shape: [...type.shape, 1] })]
    if (type.shape.length > 0) yield ['axes', retyped({ ...type, axes: type.shape.map(() => 'other') })]
    if (value !== graph.outputs[0]!.value)
      yield ['output', { ...graph, outputs: [{ name: 'loss', value }, ...graph.outputs.slice(1)] }]
    yield ['another output', { ...graph, outputs: [...graph.outputs, { name: 'more', value }] }]
  }
  for (const [index, input] of graph.inputs.entries()) {
    yield ['kind', { ...graph, inputs: graph.inputs.with(index, { ...input, kind: 'state' }) }]
    const next = graph.inputs[index + 1]
    if (next !== undefined)
      yield ['order of inputs', { ...graph, inputs: graph.inputs.with(index, next).with(index + 1, input) }]
  }
}

describe('canonicalHash', () => {
  it('does not see numbering, names, block marks and the order of independent nodes', () => {
    fc.assert(
      fc.property(randomModels, seeds, ({ graph }, seed) => {
        expect(canonicalHash(disguised(graph, seed))).toBe(canonicalHash(graph))
      }),
      { numRuns: 60 },
    )
  })

  it('sees every small change', () => {
    fc.assert(
      fc.property(randomModels, ({ graph }) => {
        const seen = canonicalHash(graph)
        // An axis name on a scalar changes nothing.
        for (const [what, other] of mutations(graph))
          expect(`${what} ${canonicalHash(other)}`).not.toBe(`${what} ${seen}`)
      }),
      { numRuns: 12 },
    )
  })

  it('tells one input used twice from two inputs', () => {
    const sum = (tied: boolean): string => {
      const builder = new GraphBuilder()
      const type = { dtype: 'f32', shape: [2] } as const
      const left = builder.input('left', 'parameter', type)
      const right = builder.input('right', 'parameter', type)
      builder.output('y', builder.one('mul', [left, tied ? left : right], {}))
      return canonicalHash(builder.build({ keepInputs: true }))
    }
    expect(sum(true)).not.toBe(sum(false))
  })

  it('sees with whom and how ranks communicate', () => {
    const plain = {
      operation: 'broadcast',
      reduce: null,
      axes: ['a', 'b'],
      members: 4,
      root: 0,
      shift: 0,
    } as const
    const sum = { ...plain, operation: 'allReduce', reduce: 'sum' } as const
    const variants: readonly OpAttributes['communicate'][] = [
      plain,
      { ...plain, operation: 'permute' },
      { ...plain, operation: 'permute', shift: 1 },
      { ...plain, root: 1 },
      { ...plain, occasion: 1 },
      { ...plain, occasion: 1, chunk: 1 },
      { ...plain, members: 5 },
      { ...plain, axes: ['b', 'a'] },
      { ...plain, axes: ['a,b'] },
      sum,
      { ...sum, reduce: 'max' },
    ]
    const hashes = variants.map((attributes) => {
      const builder = new GraphBuilder()
      const x = builder.input('x', 'activation', { dtype: 'f32', shape: [4] })
      builder.output('y', builder.one('communicate', [x], attributes))
      return canonicalHash(builder.build())
    })
    expect(new Set(hashes).size).toBe(variants.length)
  })

  it('sees the order of outputs', () => {
    const model = tinyGpt({
      batch: 1,
      sequence: 2,
      hidden: 4,
      heads: 2,
      vocabulary: 3,
      layers: 1,
      dtype: 'f32',
    })
    const [piece] = splitStages(model.graph, [0, 0, 0])
    const { FB } = differentiateStage(piece!)
    const swapped = { ...FB, outputs: [FB.outputs[1]!, FB.outputs[0]!, ...FB.outputs.slice(2)] }
    expect(canonicalHash(swapped)).not.toBe(canonicalHash(FB))
  })

  it('is the same for the tasks of equal blocks and differs between phases', () => {
    const model = tinyGpt({
      batch: 1,
      sequence: 2,
      hidden: 4,
      heads: 2,
      vocabulary: 3,
      layers: 3,
      dtype: 'f32',
    })
    const hashes = splitStages(model.graph, [0, 1, 2, 3, 3]).map((piece) => {
      const { F, B, I, W, FB } = differentiateStage(piece)
      return [F, B, I, W, FB].map(canonicalHash)
    })
    expect(hashes[2]).toEqual(hashes[1])
    expect(new Set(hashes[1]).size).toBe(5)
    expect(hashes[3]![0]).not.toBe(hashes[1]![0])
  })

  it('is 32 hexadecimal digits', () => {
    const builder = new GraphBuilder()
    expect(canonicalHash(builder.build())).toMatch(/^[0-9a-f]{32}$/)
  })
})

describe('canonicalText', () => {
  it('tells apart the numbers that JSON does not, and sorts keys', () => {
    expect(canonicalText({ b: [0, -0], a: Number.NaN })).toBe('{"a":NaN,"b":[0,-0]}')
    expect(canonicalText([Infinity, 'NaN', null])).toBe('[Infinity,"NaN",null]')
  })
})
