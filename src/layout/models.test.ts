import { describe, expect, it } from 'vitest'
import { collectives, expectSame, runPartition, withGradients } from '../../test/support/layoutGraph.ts'
import { smallModel } from '../../test/support/smallModels.ts'
import {
  differentiateStage,
  elementCount,
  type Graph,
  interpretGraph,
  splitStages,
  type Tensor,
} from '../graph/index.ts'
import {
  coordinatesAt,
  heldBytes,
  type Mesh,
  megatron,
  meshSize,
  type Partition,
  partitionGraph,
  pieceGraph,
  type Redistribution,
} from './index.ts'

const [batch, sequence, layers] = [2, 12, 2]
const tokens = batch * sequence

interface Model {
  readonly graph: Graph
  readonly inputs: Map<string, Tensor>
}

function modelOf(family: 'gpt' | 'llama', sizes: string): Model {
  return smallModel(`${family}:layers=${layers},context=${sequence},${sizes}`, batch, sequence)
}

function meshOf(parts: number): Mesh {
  return { axes: [{ name: 'tensor', size: parts }] }
}

/** Redistributions that move elements of the residual stream, flat or not, and only of it. */
function ofStream({ steps }: Partition, hidden: number): Redistribution[] {
  return steps.flatMap((item) => {
    if (item.kind === 'compute' || item.redistribution.wireBytes === 0) return []
    const { shape } = item.redistribution.type
    const isStream = [`${batch},${sequence},${hidden}`, `${tokens},${hidden}`].includes(`${shape}`)
    return isStream ? [item.redistribution] : []
  })
}

function kindsOf(moves: readonly Redistribution[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { steps } of moves) for (const { kind } of steps) counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}

/** Of the largest value that any rank makes or takes. */
function largestElements({ steps, mesh }: Partition): number {
  let largest = 0
  for (const step of steps)
    if (step.kind === 'compute')
      for (let place = 0; place < meshSize(mesh); place++)
        for (const { type } of pieceGraph(step, mesh, coordinatesAt(mesh, place)).values)
          largest = Math.max(largest, elementCount(type.shape))
  return largest
}

describe('models over a tensor axis as Megatron-LM has it', () => {
  // Over 3 and 4 ranks kv heads are one a rank; the feed-forward and the vocabulary divide by no number of ranks.
  const cases = [2, 3, 4].flatMap((parts) => [false, true].map((cut) => [parts, cut] as const))
  it.each(cases)('llama on %i ranks, stream cut: %s', (parts, sequenceParallel) => {
    const heads = parts === 3 ? 6 : 8
    const [hidden, vocabulary] = [4 * heads, 71]
    const sizes = `hidden=${hidden},heads=${heads},kvHeads=${heads / 2},mlp=97,vocab=${vocabulary}`
    const { graph, inputs } = modelOf('llama', sizes)
    const whole = withGradients(graph)
    const partition = partitionGraph(whole, meshOf(parts), megatron(whole, 'tensor', { sequenceParallel }))
    const run = runPartition(partition, inputs)
    expectSame(run, interpretGraph(whole, inputs))
    expect(run.sentBytes).toBeCloseTo(partition.wireBytes, 6)
    // No rank holds logits of the whole vocabulary.
    expect(largestElements(partition)).toBeLessThan(tokens * vocabulary)

    // Two a layer each way (Shoeybi et al. 2019, figure 4), and one each for the embedding and for the head's derivative.
    const count = 4 * layers + 2
    const stream = ofStream(partition, hidden)
    expect(kindsOf(stream)).toEqual(
      sequenceParallel ? { reduceScatter: count, allGather: count } : { allReduce: count },
    )
    // A ring moves as much either way (Korthikanti et al. 2022, section 4.2.2): 2 (n - 1) b s h.
    const bytes = stream.reduce((sum, { wireBytes }) => sum + wireBytes, 0)
    expect(bytes).toBe(count * 2 * (parts - 1) * tokens * hidden * 8)
    // Of the rest two numbers a token for the loss, the loss, and with a cut stream gradients of norms.
    const norms = sequenceParallel ? (2 * layers + 1) * hidden : 0
    expect(partition.wireBytes - bytes).toBe(2 * (parts - 1) * (2 * tokens + 1 + norms) * 8)
  })

  it.each([2, 4])('hold full / shards of every matrix on each of %i ranks', (parts) => {
    const { graph } = modelOf('llama', 'hidden=32,heads=8,kvHeads=4,mlp=64,vocab=96')
    const whole = withGradients(graph)
    const { values, mesh, outputs } = partitionGraph(whole, meshOf(parts), megatron(whole, 'tensor'))
    const perLayer = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64
    const expected = 8 * ((layers * perLayer + 2 * 96 * 32) / parts + (2 * layers + 1) * 32)
    const parameters = whole.inputs.filter(({ kind }) => kind === 'parameter')
    const placedAs = (name: string): string => outputs.find((output) => output.name === name)!.value
    for (let place = 0; place < parts; place++) {
      const bytesOf = (name: string): number => {
        const { layout, type } = values.get(name)!
        return heldBytes(layout, type, mesh, coordinatesAt(mesh, place))
      }
      expect(parameters.reduce((sum, { name }) => sum + bytesOf(name), 0)).toBe(expected)
      expect(parameters.reduce((sum, { name }) => sum + bytesOf(placedAs(`g.${name}`)), 0)).toBe(expected)
    }
  })

  it.each([false, true])('gpt with a tied table, whose attention stays whole, stream cut: %s', (cut) => {
    const { graph, inputs } = modelOf('gpt', 'hidden=16,heads=4,mlp=50,vocab=71')
    const whole = withGradients(graph)
    const partition = partitionGraph(whole, meshOf(2), megatron(whole, 'tensor', { sequenceParallel: cut }))
    const run = runPartition(partition, inputs)
    expectSame(run, interpretGraph(whole, inputs))
    expect(run.sentBytes).toBeCloseTo(partition.wireBytes, 6)
    expect(largestElements(partition)).toBeLessThan(tokens * 71)
    if (!cut) expect(kindsOf(ofStream(partition, 16))).toEqual({ allReduce: 2 * layers + 2 })
  })

  it('llama with samples cut by another axis, which only gradients and the loss are reduced over', () => {
    // So many tokens that they are more than what is reduced.
    const sizes = `layers=${layers},context=${sequence},hidden=16,heads=4,kvHeads=2,mlp=41,vocab=50`
    const { graph, inputs } = smallModel(`llama:${sizes}`, 12, sequence)
    const whole = withGradients(graph)
    const mesh: Mesh = { axes: [{ name: 'data', size: 2 }, ...meshOf(2).axes] }
    const wants = megatron(whole, 'tensor', { sequenceParallel: true, samples: ['data'] })
    const partition = partitionGraph(whole, mesh, wants)
    const run = runPartition(partition, inputs)
    expectSame(run, interpretGraph(whole, inputs))
    expect(run.sentBytes).toBeCloseTo(partition.wireBytes, 6)
    const overData = partition.steps.flatMap((item) =>
      item.kind === 'redistribute' && item.redistribution.steps.some(({ axes }) => axes.includes('data'))
        ? [`${item.redistribution.type.shape}`]
        : [],
    )
    const parameters = whole.inputs.flatMap(({ kind, value }) =>
      kind === 'parameter' ? [`${whole.values[value]!.type.shape}`] : [],
    )
    expect(overData.toSorted()).toEqual(['', ...parameters].toSorted())
  })

  it('llama with fewer kv heads than ranks, whose attention is then not cut by heads', () => {
    const { graph, inputs } = modelOf('llama', 'hidden=16,heads=4,kvHeads=1,mlp=41,vocab=50')
    const whole = withGradients(graph)
    const partition = partitionGraph(whole, meshOf(2), megatron(whole, 'tensor'))
    expectSame(runPartition(partition, inputs), interpretGraph(whole, inputs))
  })

  it('refuse a sequence that is shorter than the axis that cuts it, and say of what', () => {
    const { graph } = smallModel('llama:layers=1,hidden=16,heads=4,kvHeads=4,mlp=41,vocab=50,context=3', 2, 3)
    const wants = megatron(graph, 'tensor', { sequenceParallel: true })
    expect(() => partitionGraph(graph, meshOf(4), wants)).toThrow(
      expect.objectContaining({
        code: 'LAYOUT_SHARDS',
        message: expect.stringMatching(/^result f64\[2, 3, 16\]: dim 1 of size 3 would be cut into 4 blocks/),
      }),
    )
  })

  it('take forward and backward of each stage of a pipeline', () => {
    const { graph, inputs } = modelOf('llama', 'hidden=32,heads=8,kvHeads=4,mlp=97,vocab=71')
    const given = new Map(inputs)
    given.set('lossScale', { type: { dtype: 'f64', shape: [] }, data: Float64Array.of(0.25) })
    const type = { dtype: 'f64', shape: [batch, sequence, 32] } as const
    const wave = Float64Array.from({ length: elementCount(type.shape) }, (_, index) => Math.sin(index))
    for (const name of ['x0', 'd.x0']) given.set(name, { type, data: wave })
    for (const piece of splitStages(graph, [0, 0, 1, 1])) {
      const { FB } = differentiateStage(piece)
      const wants = megatron(FB, 'tensor', { sequenceParallel: true })
      const partition = partitionGraph(FB, meshOf(4), wants)
      const run = runPartition(partition, given)
      expectSame(run, interpretGraph(FB, given))
      expect(run.sentBytes).toBeCloseTo(partition.wireBytes, 6)
      const repeated = partitionGraph(FB, meshOf(4), wants)
      expect(collectives(repeated)).toEqual(collectives(partition))
      expect(repeated.steps).toEqual(partition.steps)
    }
  })
})
