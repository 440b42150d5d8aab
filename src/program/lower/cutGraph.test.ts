import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  elementCount,
  type Graph,
  GraphBuilder,
  interpretGraph,
  type OpAttributes,
  type Tensor,
  type TensorType,
  type ValueId,
} from '../../graph/index.ts'
import { type CutGraph, cutGraph, type PhaseOutputs } from './cutGraph.ts'

const matrix: TensorType = { dtype: 'f64', shape: [4, 4] }
const flat: TensorType = { dtype: 'f64', shape: [16] }
const product = { transposeA: false, transposeB: false, scale: 1 } as const

function among(
  operation: OpAttributes['communicate']['operation'],
  members: number = 1,
): OpAttributes['communicate'] {
  const reduces = operation === 'allReduce' || operation === 'reduceScatter'
  return { operation, reduce: reduces ? 'sum' : null, axes: ['tensor'], members, root: 0, shift: 0 }
}

const outside = (more: Partial<PhaseOutputs> = {}): PhaseOutputs => ({
  idsOf: new Map(),
  isAccumulated: (name) => name.startsWith('g.'),
  isReadable: (name) => /^[xr]\d/.test(name),
  sumsOf: () => [],
  takesCollective: () => true,
  firstCrossing: 0,
  ...more,
})

/** What the steps leave in the outputs, where every collective is among one rank. Each place is written once. */
function play({ steps }: CutGraph, inputs: ReadonlyMap<string, Tensor>): Map<string, Tensor> {
  const places = new Map(inputs)
  const write = (name: string, tensor: Tensor): void => {
    if (places.has(name)) throw new Error(`${name} is written twice`)
    places.set(name, tensor)
  }
  for (const step of steps)
    if (step.kind === 'collective')
      for (const { source, result } of step.parts) write(result.name, places.get(source.name)!)
    else {
      const { graph } = step
      expect(graph.nodes.map(({ op }) => op)).not.toContain('communicate')
      const given = graph.inputs.map(({ name, value }) => {
        const { type } = graph.values[value]!
        const found = places.get(name)
        if (found === undefined) throw new Error(`${name} is not there yet`)
        expect(elementCount(found.type.shape)).toBe(elementCount(type.shape))
        return [name, { type, data: found.data }] as const
      })
      for (const [name, tensor] of interpretGraph(graph, new Map(given))) write(name, tensor)
    }
  return places
}

/** By numbers: each makes a value of two that are there. */
function randomGraph(numbers: readonly (readonly [number, number, number])[]): Graph {
  const builder = new GraphBuilder()
  const values: ValueId[] = ['x0', 'w'].map((name) =>
    builder.input(name, name === 'w' ? 'parameter' : 'activation', matrix),
  )
  const place = builder.input('place', 'scalar', { dtype: 'f64', shape: [] })
  for (const [kind, left, right] of numbers) {
    const [a, b] = [values[left % values.length]!, values[right % values.length]!]
    const make = (): ValueId => {
      switch (kind % 8) {
        case 0:
          return builder.one('add', [a, b], {})
        case 1:
          return builder.one('mul', [a, b], {})
        case 2:
          return builder.one('matmul', [a, b], product)
        case 3: {
          const long = builder.one('reshape', [a], { shape: [16] })
          return builder.one('reshape', [builder.one('neg', [long], {})], { shape: [4, 4] })
        }
        case 4:
          return builder.one('add', [a, builder.one('broadcast', [place], { shape: [4, 4] })], {})
        case 5: {
          const long = builder.one('reshape', [a], { shape: [2, 8] })
          const all = builder.one('communicate', [long], among('allGather'))
          return builder.one('reshape', [all], { shape: [4, 4] })
        }
        case 6:
          return builder.one('communicate', [a], among('reduceScatter'))
        default:
          return builder.one('communicate', [a], among(right % 2 === 0 ? 'allReduce' : 'permute'))
      }
    }
    values.push(make())
  }
  const last = values.length - 1
  builder.output('x1', values[last]!)
  builder.output('g.w', values[last - 1]!)
  builder.output('r0', values[Math.floor(last / 2)]!)
  builder.output('d.x0', builder.one('reshape', [values[last - 2]!], { shape: [16] }))
  builder.output('zero', builder.one('fill', [], { ...flat, value: 0 }))
  return builder.build()
}

const random = fc.array(fc.tuple(fc.nat(7), fc.nat(50), fc.nat(50)), { minLength: 2, maxLength: 24 })
const inputs = new Map<string, Tensor>([
  ['x0', { type: matrix, data: Float64Array.from({ length: 16 }, (_, index) => Math.sin(index)) }],
  ['w', { type: matrix, data: Float64Array.from({ length: 16 }, (_, index) => Math.cos(index) / 2) }],
  ['place', { type: { dtype: 'f64', shape: [] }, data: Float64Array.of(0.5) }],
])

/** Kinds of steps in order, and the ops of runs. */
function shapeOf({ steps }: CutGraph): string[] {
  return steps.map((step) =>
    step.kind === 'run'
      ? step.graph.nodes.map(({ op }) => op).join(' ')
      : `<${step.operation} ${step.parts.map(({ source, result }) => `${source.name} ${result.name}`).join(', ')}>`,
  )
}

describe('a graph that is cut at its communication', () => {
  it('computes what it computed in one piece', () => {
    fc.assert(
      fc.property(random, fc.boolean(), fc.boolean(), (numbers, takes, reads) => {
        const graph = randomGraph(numbers)
        const cut = cutGraph(
          graph,
          outside({ takesCollective: () => takes, isReadable: (name) => reads && /^[xr]\d/.test(name) }),
        )
        const found = play(cut, inputs)
        for (const [name, { data }] of interpretGraph(graph, inputs))
          expect([...found.get(name)!.data]).toEqual([...data])
      }),
    )
  })

  it('runs weight gradients while the input gradient is added up', () => {
    const builder = new GraphBuilder()
    const [x, w, dy] = (['x0', 'w', 'd.x1'] as const).map((name) =>
      builder.input(name, name === 'w' ? 'parameter' : 'activation', matrix),
    ) as [ValueId, ValueId, ValueId]
    const cotangent = builder.one('mul', [dy, dy], {})
    const dx = builder.one('matmul', [cotangent, w], product)
    builder.output('d.x0', builder.one('communicate', [dx], among('allReduce')))
    builder.output('g.w', builder.one('matmul', [x, cotangent], product))
    const cut = cutGraph(builder.build(), outside())
    expect(shapeOf(cut)).toEqual(['mul matmul', '<allReduce t1 d.x0>', 'matmul'])
    expect(cut.crossings.get('t1')!.terms).toEqual(['tensor'])
    expect(cut.crossings.get('t0')!.terms).toEqual([])
  })

  it('adds up the shards of a weight gradient where they accumulate, after what the next piece waits for', () => {
    const builder = new GraphBuilder()
    const [x, w, dy] = (['x0', 'w', 'd.x1'] as const).map((name) =>
      builder.input(name, name === 'w' ? 'parameter' : 'activation', matrix),
    ) as [ValueId, ValueId, ValueId]
    const dx = builder.one('matmul', [dy, w], product)
    builder.output('d.x0', builder.one('communicate', [dx], among('reduceScatter', 2)))
    const dw = builder.one('matmul', [x, dy], product)
    builder.output('g.w', builder.one('communicate', [dw], among('reduceScatter', 2)))
    const graph = builder.build()
    expect(shapeOf(cutGraph(graph, outside()))).toEqual([
      'matmul',
      '<reduceScatter t0 d.x0>',
      'matmul',
      '<reduceScatter t1 g.w>',
    ])
    // Where a collective cannot write, a run does.
    expect(shapeOf(cutGraph(graph, outside({ takesCollective: (name) => name !== 'g.w' })))).toEqual([
      'matmul',
      '<reduceScatter t0 d.x0>',
      'matmul',
      '<reduceScatter t1 t2>',
      'reshape',
    ])
  })

  it('gathers operands straight from where they lie, in one collective where it can', () => {
    const builder = new GraphBuilder()
    const half: TensorType = { dtype: 'f64', shape: [2, 4] }
    const [x, w] = (['x0', 'w'] as const).map((name) =>
      builder.input(name, name === 'w' ? 'parameter' : 'activation', half),
    ) as [ValueId, ValueId]
    const [wholeX, wholeW] = [x, w].map((value) => builder.one('communicate', [value], among('allGather', 2)))
    builder.output('x1', builder.one('matmul', [wholeX!, wholeW!], product))
    expect(shapeOf(cutGraph(builder.build(), outside()))).toEqual(['<allGather x0 t0, w t1>', 'matmul'])
  })

  it('carries on terms of a sum that is made along one axis after the other', () => {
    const builder = new GraphBuilder()
    const x = builder.input('x0', 'activation', matrix)
    const first = builder.one('communicate', [builder.one('neg', [x], {})], {
      ...among('allReduce', 2),
      axes: ['row'],
    })
    builder.output('x1', builder.one('communicate', [first], among('allReduce', 2)))
    const { crossings } = cutGraph(builder.build(), outside())
    expect([...crossings.values()].map(({ terms }) => terms)).toEqual([['row', 'tensor'], ['tensor']])
  })

  it('makes cheap things where they are needed, and at the last moment', () => {
    const builder = new GraphBuilder()
    const [x, w] = (['x0', 'w'] as const).map((name) =>
      builder.input(name, name === 'w' ? 'parameter' : 'activation', matrix),
    ) as [ValueId, ValueId]
    const sum = builder.one('communicate', [builder.one('matmul', [x, w], product)], among('allReduce'))
    const mask = builder.one('broadcast', [builder.one('fill', [], { shape: [1], dtype: 'f64', value: 2 })], {
      shape: [4, 4],
    })
    const scaled = builder.one('mul', [builder.one('exp', [x], {}), mask], {})
    builder.output('x1', builder.one('add', [sum, scaled], {}))
    expect(shapeOf(cutGraph(builder.build(), outside()))).toEqual([
      'matmul',
      '<allReduce t0 t1>',
      'fill broadcast exp mul add',
    ])
  })

  it('takes ids along to the rows that they place', () => {
    const builder = new GraphBuilder()
    const tokens = builder.input('tokens', 'data', { dtype: 'i32', shape: [4] })
    const dy = builder.input('d.x0', 'activation', matrix)
    const mine = builder.one('communicate', [tokens], among('permute'))
    builder.output('g.w.rows0.ids', mine)
    builder.output('g.w.rows0', builder.one('communicate', [builder.one('neg', [dy], {})], among('permute')))
    const cut = cutGraph(
      builder.build(),
      outside({
        idsOf: new Map([['g.w.rows0.ids', 'g.w.rows0']]),
        isAccumulated: (name) => name === 'g.w.rows0',
        takesCollective: () => false,
      }),
    )
    expect(shapeOf(cut)).toEqual(['neg', '<permute tokens t1, t0 t2>', 'reshape'])
    expect(cut.idsAt.get('g.w.rows0.ids')).toEqual({ kind: 'crossing', name: 't1' })
  })
})
