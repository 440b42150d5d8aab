import { describe, expect, it } from 'vitest'
import { checkLayer, type LayerSizes, modelLayers, trafficOf } from '../../../test/support/layoutLayers.ts'
import { axesOf, checkModel, largestElements } from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import { elementCount } from '../../graph/index.ts'

const cube = { tensor: 'cube' } as const

function axesOfCube(edge: number) {
  if (edge === 1) return axesOf({}, { 'tensor.x': [], 'tensor.y': [], 'tensor.z': [] })
  return axesOf({ 'tensor.x': edge, 'tensor.y': edge, 'tensor.z': edge })
}

/** Of q² parts where they must be, and all different. */
function sizesOf(edge: number): LayerSizes {
  return {
    batch: edge * edge,
    sequence: 5,
    heads: edge,
    hidden: 3 * edge * edge,
    mlp: 2 * edge * edge,
    vocab: 7 * edge,
  }
}

function modelOf(family: 'gpt' | 'llama', edge: number, layers = 1) {
  const { batch, sequence, heads, hidden, mlp, vocab } = sizesOf(edge)
  const [width, kvHeads] = family === 'llama' ? [hidden * 2, `kvHeads=${heads},`] : [hidden, '']
  const name = `${family}:layers=${layers},context=${sequence},hidden=${width},heads=${heads},${kvHeads}mlp=${mlp},vocab=${vocab}`
  return { ...smallModel(name, batch, sequence), hidden: width }
}

describe('layers over a cube of ranks', () => {
  const cases = [1, 2, 3].flatMap((edge) => Object.keys(modelLayers).map((name) => [edge, name] as const))
  it.each(cases)('of edge %i: %s', (edge, name) => {
    const whole = checkLayer(modelLayers[name]!, sizesOf(edge), axesOfCube(edge), cube)
    if (edge === 1) expect(whole.wireBytes).toBe(0)
  })
})

describe('models over a cube of ranks', () => {
  it.each([
    ['gpt', 2],
    ['gpt', 3],
    ['llama', 2],
    ['llama', 3],
  ] as const)('%s on edge %i', (family, edge) => {
    const { batch, sequence, heads, mlp, vocab } = sizesOf(edge)
    const { hidden, ...model } = modelOf(family, edge)
    const { whole, local } = checkModel(model, axesOfCube(edge), cube)
    for (const { name, kind, value } of whole.graph.inputs) {
      if (kind !== 'parameter') continue
      const { shape } = whole.graph.values[value]!.type
      const isMatrix = shape.length === 2 && !name.includes('wpe')
      const parts = isMatrix ? edge ** 3 : edge
      expect(elementCount(shape) * parts).toBe(elementCount(local.placed.get(name)!.type.shape))
    }
    // What is gathered of a matrix, and what is to be scattered, is cut by two of the axes.
    const tokens = batch * sequence
    const widest = family === 'gpt' ? 3 * hidden : Math.max(hidden, mlp)
    const largest = Math.max(
      tokens * widest,
      tokens * vocab,
      batch * heads * sequence ** 2,
      hidden * widest,
      vocab * hidden,
    )
    expect(largestElements(whole)).toBeLessThanOrEqual(largest / edge ** 2)
  })

  it.each([2, 3])('move 2 (q - 1) / q³ (M K + K N + M N) a rank and linear on edge %i', (edge) => {
    const { batch, sequence, mlp } = sizesOf(edge)
    const { hidden, ...model } = modelOf('gpt', edge, 2)
    const { whole } = checkModel(model, axesOfCube(edge), cube)
    const tokens = batch * sequence
    const linears = [
      [hidden, 3 * hidden],
      [hidden, hidden],
      [hidden, mlp],
      [mlp, hidden],
    ] as const
    const perRank = linears.map(
      ([k, n]) => ((2 * (edge - 1)) / edge ** 3) * (tokens * k + k * n + tokens * n),
    )
    for (const block of ['h.0', 'h.1']) {
      const { counts, elements } = trafficOf(
        whole,
        block,
        edge ** 3,
        (operation) => operation !== 'allReduce',
      )
      // Six a linear: each of the three matrices, forward and backward.
      expect(counts).toEqual({ allGather: 3 * linears.length, reduceScatter: 3 * linears.length })
      const moved = Object.values(elements).reduce((sum, own) => sum + own, 0)
      expect(moved / edge ** 3).toBeCloseTo(
        perRank.reduce((sum, own) => sum + own, 0),
        9,
      )
    }
  })

  it('have what a pair of linears gives where its stream is', () => {
    const { whole } = checkModel(modelOf('gpt', 2), axesOfCube(2), cube)
    const layoutOf = (name: string) => whole.inputs.get(`transformer.h.0.${name}.weight`)!.layout.dims
    // Rows by k, then inside by i; columns by j; and with j and k exchanged.
    expect(layoutOf('mlp.c_fc')).toEqual([['tensor.z', 'tensor.x'], ['tensor.y']])
    expect(layoutOf('mlp.c_proj')).toEqual([['tensor.y', 'tensor.x'], ['tensor.z']])
    const { counts } = trafficOf(whole, 'h.0', 8, (operation) => operation === 'allToAll')
    expect(counts).toEqual({})
  })
})
