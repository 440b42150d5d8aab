import { describe, expect, it } from 'vitest'
import {
  findNonFinite,
  type Graph,
  GraphBuilder,
  interpretGraph,
  interpretSteps,
  makeTensor,
} from './index.ts'

const vector = { dtype: 'f32', shape: [2] } as const

/** y = log(exp(x)) - x, in two blocks. */
function roundTrip(): Graph {
  const builder = new GraphBuilder()
  const x = builder.input('x', 'activation', vector)
  builder.startBlock('first')
  const raised = builder.one('exp', [x], {})
  builder.startBlock('second')
  const back = builder.one('log', [raised], {})
  builder.output('y', builder.one('sub', [back, x], {}))
  builder.output('x', x)
  return builder.build()
}

describe('interpretGraph', () => {
  it('gives outputs by name, an input among them', () => {
    const x = makeTensor(vector, [1, 2])
    const results = interpretGraph(roundTrip(), { x })
    expect(results.get('x')).toBe(x)
    for (const value of results.get('y')!.data) expect(value).toBeCloseTo(0, 14)
  })

  it('computes f32 in float64', () => {
    const results = interpretGraph(roundTrip(), new Map([['x', makeTensor(vector, [300, 1e-12])]]))
    // exp(300) is beyond float32, and 1 + 1e-12 is 1 there.
    expect(results.get('y')!.data[0]).toBeCloseTo(0, 10)
    expect(Math.abs(results.get('y')!.data[1]!)).toBeLessThan(2e-16)
  })

  it('refuses inputs that are missing or of another type', () => {
    expect(() => interpretGraph(roundTrip(), {})).toThrow('input x is missing')
    const wide = makeTensor({ dtype: 'f64', shape: [2] }, [1, 2])
    expect(() => interpretGraph(roundTrip(), { x: wide })).toThrow(
      'input x is f64[2], the graph wants f32[2]',
    )
  })
})

describe('interpretSteps', () => {
  it('shows the outputs of every node in order', () => {
    const x = makeTensor(vector, [0, 0])
    const seen = [...interpretSteps(roundTrip(), { x })]
    expect(seen.map(({ node, outputs }) => [node.op, Array.from(outputs[0]!.data)])).toEqual([
      ['exp', [1, 1]],
      ['log', [0, 0]],
      ['sub', [0, 0]],
    ])
  })
})

describe('findNonFinite', () => {
  it('finds nothing where all is finite', () => {
    expect(findNonFinite(roundTrip(), { x: makeTensor(vector, [80, -80]) })).toBeUndefined()
  })

  it('finds the op that overflows float32, not the one that follows', () => {
    const found = findNonFinite(roundTrip(), { x: makeTensor(vector, [80, 90]) })
    expect(found).toMatchObject({ index: 0, output: 0, element: 1, node: { op: 'exp', block: 0 } })
  })

  it('finds a NaN', () => {
    const builder = new GraphBuilder()
    const x = builder.input('x', 'activation', { dtype: 'f64', shape: [2] })
    builder.output('y', builder.one('exp', [builder.one('sqrt', [builder.one('neg', [x], {})], {})], {}))
    const x2 = makeTensor({ dtype: 'f64', shape: [2] }, [-1, 1])
    expect(findNonFinite(builder.build(), { x: x2 })).toMatchObject({ element: 1, node: { op: 'sqrt' } })
  })
})
