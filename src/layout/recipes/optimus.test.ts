import { describe, expect, it } from 'vitest'
import { checkLayer, type LayerSizes, modelLayers, trafficOf } from '../../../test/support/layoutLayers.ts'
import {
  axesOf,
  checkModel,
  largestElements,
  plainSettings,
  wholeDerivative,
} from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import { elementCount, interpretGraph, makeTensor, splitStages, stageTasks } from '../../graph/index.ts'
import { layoutForm, layoutWants, localDerivative } from '../index.ts'

const optimus = { tensor: 'optimus' } as const

function square(edge: number) {
  if (edge === 1) return axesOf({}, { 'tensor.row': [], 'tensor.column': [] })
  return axesOf({ 'tensor.row': edge, 'tensor.column': edge })
}

/** All sizes differ, so that exchanged dims are seen; heads are a few columns each. */
function sizesOf(edge: number) {
  return {
    batch: 2 * edge,
    sequence: 5,
    heads: 2 * edge,
    hidden: 2 * edge * 4,
    mlp: 3 * edge,
    vocab: 7 * edge,
  }
}

function modelOf(family: 'gpt' | 'llama', edge: number, changes: Partial<LayerSizes> = {}, layers = 1) {
  const { batch, sequence, heads, hidden, mlp, vocab } = { ...sizesOf(edge), ...changes }
  const kvHeads = family === 'llama' ? `kvHeads=${edge},` : ''
  const name = `${family}:layers=${layers},context=${sequence},hidden=${hidden},heads=${heads},${kvHeads}mlp=${mlp},vocab=${vocab}`
  return smallModel(name, batch, sequence)
}

describe('layers over a square of ranks', () => {
  const cases = [1, 2, 3].flatMap((edge) => Object.keys(modelLayers).map((name) => [edge, name] as const))
  it.each(cases)('of edge %i: %s', (edge, name) => {
    const whole = checkLayer(modelLayers[name]!, sizesOf(edge), square(edge), optimus)
    if (edge === 1) expect(whole.wireBytes).toBe(0)
  })
})

describe('models over a square of ranks', () => {
  it.each([
    ['gpt', 2],
    ['gpt', 3],
    ['llama', 2],
    ['llama', 3],
  ] as const)('%s on edge %i', (family, edge) => {
    const { batch, sequence, heads, hidden, mlp, vocab } = sizesOf(edge)
    const { whole, local } = checkModel(modelOf(family, edge), square(edge), optimus)
    // Every matrix is on all ranks together once, and so is every vector that they divide.
    for (const { name, kind, value } of whole.graph.inputs) {
      if (kind !== 'parameter') continue
      const size = elementCount(local.placed.get(name)!.type.shape)
      const isMatrix = whole.graph.values[value]!.type.shape.length === 2
      const parts =
        isMatrix && !name.includes('wpe')
          ? edge * edge
          : local.placed.get(name)!.layout.dims.flat().length === 2
            ? edge * edge
            : edge
      expect(elementCount(whole.graph.values[value]!.type.shape) * parts).toBe(size)
    }
    // No rank has more of anything than the part of a square of what is largest.
    const tokens = batch * sequence
    const fused = family === 'gpt' ? 3 * hidden : Math.max(hidden, mlp)
    const largest = Math.max(
      tokens * fused,
      tokens * vocab,
      batch * heads * sequence ** 2,
      hidden * fused,
      vocab * hidden,
    )
    expect(largestElements(whole)).toBeLessThanOrEqual(largest / edge ** 2)
    expect(largestElements(whole)).toBeLessThan(Math.min(tokens * hidden, hidden * hidden))
  })

  it.each(['gpt', 'llama'] as const)('%s on one rank gives the same bits', (family) => {
    const { graph, inputs } = modelOf(family, 1)
    const derivative = wholeDerivative(graph)
    const axes = square(1)
    const wants = layoutWants({ ...plainSettings, ...optimus }, axes, derivative.joint)
    const local = localDerivative(derivative, axes.mesh, wants)
    const given = new Map(inputs).set('lossScale', makeTensor({ dtype: 'f64', shape: [] }, [0.25]))
    const expected = interpretGraph(derivative.joint, given)
    const found = interpretGraph(local.joint, given)
    for (const [name, { data }] of expected) expect(found.get(name)!.data).toEqual(data)
  })

  it.each([2, 3])('move what the paper counts on edge %i', (edge) => {
    const { batch, sequence, hidden } = sizesOf(edge)
    const { whole } = checkModel(modelOf('gpt', edge, { mlp: 4 * hidden }), square(edge), optimus)
    const isPanel = (operation: string): boolean => ['broadcast', 'reduce'].includes(operation)
    const { counts, elements } = trafficOf(whole, 'h.0', edge * edge, isPanel)
    // Of each linear: forward two operands, for the cotangents a weight and what the forward took; two results.
    expect(counts).toEqual({ broadcast: 4 * 4 * edge, reduce: 4 * 2 * edge })
    // Around rings a panel of P takes (q - 1) P: 7 b s h + 12 h² forward (Xu et al. 2021, table 1, with log2 q steps of a
    // tree in place of q - 1), and twice that backward.
    const forward = (edge - 1) * (7 * batch * sequence * hidden + 12 * hidden ** 2)
    expect(elements).toEqual({ broadcast: 2 * forward, reduce: forward })
  })

  it('hold no panels from forward to backward', () => {
    const edge = 3
    const layers = 2
    const { graph } = modelOf('gpt', edge, {}, layers)
    const derivative = wholeDerivative(graph)
    const axes = square(edge)
    const wants = layoutWants({ ...plainSettings, ...optimus }, axes, derivative.joint)
    const local = localDerivative(derivative, axes.mesh, wants)
    const [piece] = splitStages(
      graph,
      graph.blocks.map(() => 0),
    )
    const { F, residuals } = stageTasks(piece!, local, { holdGathered: true })
    const broadcasts = F.nodes.filter(
      ({ op, attributes }) =>
        op === 'communicate' && (attributes as { readonly operation: string }).operation === 'broadcast',
    )
    // Two operands of four linears a layer, the table for the look-up and for the logits.
    expect(broadcasts.length).toBe(edge * (layers * 8 + 2))
    const passed = new Set(broadcasts.flatMap(({ outputs }) => outputs))
    const held = F.outputs.filter(({ name }) => residuals.includes(name))
    expect(held.length).toBeGreaterThan(0)
    expect(held.filter(({ value }) => passed.has(value))).toEqual([])
  })

  it.each(['ring', 'gather', 'ulysses'] as const)('share a context as %s too', (context) => {
    const axes = axesOf({ context: 2, 'tensor.row': 2, 'tensor.column': 2 })
    const name = `llama:layers=1,context=8,hidden=24,heads=4,kvHeads=4,mlp=20,vocab=14`
    const { graph, inputs } = smallModel(name, 2, 8)
    const settings = { ...plainSettings, ...optimus, context }
    const form = layoutForm(settings, axes, graph)
    const { whole } = checkModel({ graph: form, inputs, original: graph }, axes, settings)
    // Seven linears, each of them by panels, forward and backward.
    const isPanel = (operation: string): boolean => ['broadcast', 'reduce'].includes(operation)
    expect(trafficOf(whole, 'layers.0', 8, isPanel).counts).toEqual({
      broadcast: 7 * 4 * 2,
      reduce: 7 * 2 * 2,
    })
  })

  it('cut experts along axes of their own, which may be those of the square', () => {
    const name = 'moe:layers=1,context=6,hidden=16,heads=4,kvHeads=2,mlp=20,vocab=14,experts=4,expertMlp=6'
    const axes = axesOf(
      { 'tensor.row': 2, 'tensor.column': 2 },
      { expertData: ['tensor.row'], expert: [], expertTensor: ['tensor.column'] },
    )
    checkModel(smallModel(name, 2, 6), axes, optimus)
  })
})
