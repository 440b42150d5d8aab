import {
  differentiatePiece,
  type Graph,
  GraphBuilder,
  interpretGraph,
  makeTensor,
  type Tensor,
  type ValueId,
} from '../../src/graph/index.ts'
import {
  type FactoredAxes,
  type LayoutSettings,
  type LocalGraph,
  layoutWants,
  localDerivative,
} from '../../src/layout/index.ts'
import {
  flattenTokens,
  linear,
  mergeHeads,
  outputLoss,
  selfAttention,
  splitHeads,
  unflattenTokens,
} from '../../src/models/layers.ts'
import { expectSame, runLocal } from './layoutGraph.ts'
import { localGraphOf, plainSettings } from './layoutModels.ts'
import { Numbers } from './randomTensors.ts'

/** Sizes of a layer; for tests that see exchanged dims all of them differ. */
export interface LayerSizes {
  readonly batch: number
  readonly sequence: number
  readonly hidden: number
  readonly heads: number
  readonly mlp: number
  readonly vocab: number
}

type Build = (builder: GraphBuilder, sizes: LayerSizes) => void

function stream(builder: GraphBuilder, { batch, sequence, hidden }: LayerSizes): ValueId {
  const axes = ['batch', 'sequence', 'embed']
  return builder.input('x', 'activation', { dtype: 'f64', shape: [batch, sequence, hidden], axes })
}

function weight(builder: GraphBuilder, name: string, shape: number[], axes: string[]): ValueId {
  return builder.input(name, 'parameter', { dtype: 'f64', shape, axes })
}

function ids(builder: GraphBuilder, name: string, { batch, sequence }: LayerSizes): ValueId {
  return builder.input(name, 'data', {
    dtype: 'i32',
    shape: [batch, sequence],
    axes: ['batch', 'sequence'],
  })
}

/** What models are made of, each as a graph from a stream (or tokens) to `y` or `loss`. */
export const modelLayers: Readonly<Record<string, Build>> = {
  'linear, stored as taken and given': (builder, sizes) => {
    const { hidden, mlp } = sizes
    const x = flattenTokens(builder, stream(builder, sizes))
    const w = weight(builder, 'w', [hidden, mlp], ['embed', 'mlp'])
    const bias = weight(builder, 'bias', [mlp], ['mlp'])
    const y = linear(builder, x, w, { transposed: false, bias })
    builder.output('y', unflattenTokens(builder, y, sizes, 'mlp'))
  },
  'linears, stored as given and taken': (builder, sizes) => {
    const { hidden, mlp } = sizes
    const x = flattenTokens(builder, stream(builder, sizes))
    const up = weight(builder, 'up', [mlp, hidden], ['mlp', 'embed'])
    const down = weight(builder, 'down', [hidden, mlp], ['embed', 'mlp'])
    const wide = builder.one('geluTanh', [linear(builder, x, up, { transposed: true })], {})
    const y = linear(builder, wide, down, { transposed: true })
    builder.output('y', unflattenTokens(builder, y, sizes, 'embed'))
  },
  layerNorm: (builder, sizes) => {
    const x = stream(builder, sizes)
    const w = weight(builder, 'w', [sizes.hidden], ['embed'])
    const bias = weight(builder, 'bias', [sizes.hidden], ['embed'])
    builder.output('y', builder.one('layerNorm', [x, w, bias], { epsilon: 1e-5 }))
  },
  rmsNorm: (builder, sizes) => {
    const x = stream(builder, sizes)
    const w = weight(builder, 'w', [sizes.hidden], ['embed'])
    builder.output('y', builder.one('rmsNorm', [x, w], { epsilon: 1e-5 }))
  },
  embedding: (builder, sizes) => {
    const table = weight(builder, 'table', [sizes.vocab, sizes.hidden], ['vocab', 'embed'])
    const places = weight(builder, 'places', [sizes.sequence, sizes.hidden], ['position', 'embed'])
    const rows = builder.one('gather', [table, ids(builder, 'tokens', sizes)], {})
    builder.output('y', builder.one('add', [rows, places], {}))
  },
  head: (builder, sizes) => {
    const x = flattenTokens(builder, stream(builder, sizes))
    const table = weight(builder, 'table', [sizes.vocab, sizes.hidden], ['vocab', 'embed'])
    const y = linear(builder, x, table, { transposed: true })
    builder.output('y', unflattenTokens(builder, y, sizes, 'vocab'))
  },
  'head and loss': (builder, sizes) => {
    const x = flattenTokens(builder, stream(builder, sizes))
    const table = weight(builder, 'table', [sizes.vocab, sizes.hidden], ['vocab', 'embed'])
    outputLoss(builder, linear(builder, x, table, { transposed: true }), ids(builder, 'labels', sizes))
  },
  attention: (builder, sizes) => {
    const { hidden, heads } = sizes
    const x = flattenTokens(builder, stream(builder, sizes))
    const fused = weight(builder, 'fused', [hidden, 3 * hidden], ['embed', 'qkv'])
    const out = weight(builder, 'out', [hidden, hidden], ['heads', 'embed'])
    const qkv = builder.op('split', [linear(builder, x, fused, { transposed: false })], {
      dim: 1,
      sizes: [hidden, hidden, hidden],
    })
    const operands = qkv.map((part) => splitHeads(builder, part, sizes, heads, 'heads'))
    const attended = mergeHeads(builder, selfAttention(builder, operands, undefined))
    const y = linear(builder, attended, out, { transposed: false })
    builder.output('y', unflattenTokens(builder, y, sizes, 'embed'))
  },
}

function graphOf(build: Build, sizes: LayerSizes): Graph {
  const builder = new GraphBuilder()
  builder.startBlock('layer')
  build(builder, sizes)
  return builder.build()
}

/** Runs a layer, forward and backward, on all ranks and compares every block of output and gradients with the whole one's. */
export function checkLayer(
  build: Build,
  sizes: LayerSizes,
  axes: FactoredAxes,
  options: Partial<LayoutSettings>,
): LocalGraph {
  const sends = [{ name: 'y', to: [1] }]
  const receives = [{ name: 'x', from: 0 }]
  const derivative = differentiatePiece({ stage: 0, graph: graphOf(build, sizes), sends, receives })
  const { joint } = derivative
  const wants = layoutWants({ ...plainSettings, ...options }, axes, joint)
  const local = localDerivative(derivative, axes.mesh, wants)
  const whole = localGraphOf(derivative, local)
  const numbers = new Numbers(5)
  const given = new Map<string, Tensor>(
    joint.inputs.map(({ name, value }) => {
      const { type } = joint.values[value]!
      if (type.dtype === 'f64') return [name, numbers.floats('f64', type.shape, -1, 1)]
      const data = Array.from({ length: sizes.batch * sizes.sequence }, () =>
        numbers.integer(name === 'labels' ? -1 : 0, sizes.vocab - 1),
      )
      return [name, makeTensor(type, data)]
    }),
  )
  const expected = new Map(interpretGraph(joint, given))
  // Rows of a table may come added up.
  for (const gradient of derivative.gradients) {
    const { parameter } = gradient
    if (gradient.kind === 'dense' || whole.outputs.has(gradient.values)) continue
    const { type } = joint.values[joint.inputs.find(({ name }) => name === parameter)!.value]!
    const total = new Float64Array(type.shape[0]! * type.shape[1]!)
    const { data } = expected.get(gradient.values)!
    const places = given.get((gradient.ids as { readonly input: string }).input)!.data
    places.forEach((id, at) => {
      for (let column = 0; column < type.shape[1]!; column++)
        total[id * type.shape[1]! + column]! += data[at * type.shape[1]! + column]!
    })
    expected.delete(gradient.values)
    expected.set(`g.${parameter}`, { type, data: total })
  }
  const run = runLocal(whole, axes.mesh, given)
  expectSame(run, expected)
  if (Math.abs(run.sentBytes - local.wireBytes) > 1e-6)
    throw new Error(`${run.sentBytes} bytes were sent, ${local.wireBytes} said before`)
  return whole
}

/** Of a local graph's block: how often each collective is made, and elements that all ranks put on the wire around rings. */
export function trafficOf(
  { graph }: LocalGraph,
  block: string,
  ranks: number,
  isCounted: (operation: string) => boolean,
): {
  readonly counts: Readonly<Record<string, number>>
  readonly elements: Readonly<Record<string, number>>
} {
  const counts: Record<string, number> = {}
  const elements: Record<string, number> = {}
  for (const node of graph.nodes) {
    if (node.op !== 'communicate' || graph.blocks[node.block] !== block) continue
    const { operation, members } = node.attributes
    if (!isCounted(operation)) continue
    const whole = operation === 'allGather' ? node.outputs[0]! : node.inputs[0]!
    const payload = graph.values[whole]!.type.shape.reduce((product, size) => product * size, 1)
    const laps = operation === 'allReduce' ? 2 : 1
    counts[operation] = (counts[operation] ?? 0) + 1
    elements[operation] = (elements[operation] ?? 0) + (laps * (members - 1) * payload * ranks) / members
  }
  return { counts, elements }
}
