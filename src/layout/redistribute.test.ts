import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { collect, execute, type Spread, spread } from '../../test/support/layoutExecutor.ts'
import { layoutOf, meshes, shapes, uses } from '../../test/support/layouts.ts'
import { elementCount } from '../graph/index.ts'
import {
  axesSize,
  coordinatesAt,
  type Layout,
  type Mesh,
  meshSize,
  parseLayout,
  printLayout,
  redistribute,
  sentElements,
  shardingAxes,
} from './index.ts'

const cases = fc.record({ mesh: meshes, shape: shapes, from: uses(false), to: uses(false), seed: fc.nat() })

function counter(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648
    return (state % 19) - 9
  }
}

/** What it takes to reduce all, give all to all, and cut: per group of terms a ring all-reduce, then a ring all-gather. */
function everythingThenSlice(shape: readonly number[], mesh: Mesh, from: Layout): number {
  const held = (elementCount(shape) * meshSize(mesh)) / axesSize(mesh, shardingAxes(from))
  const reductions = new Set(Object.values(from.partial))
  let total = elementCount(shape) * meshSize(mesh) - held
  for (const reduce of reductions) {
    const members = axesSize(
      mesh,
      Object.keys(from.partial).filter((axis) => from.partial[axis] === reduce),
    )
    total += (2 * (members - 1) * held) / members
  }
  return total
}

describe('redistribution', () => {
  it('gives every rank its block of the target, sends what was predicted, and no more than gathering all would', () => {
    const kinds = new Set<string>()
    fc.assert(
      fc.property(cases, ({ mesh, shape, from: fromUses, to: toUses, seed }) => {
        const from = layoutOf(fromUses, shape, mesh)
        const to = layoutOf({ ...toUses, reduce: fromUses.reduce }, shape, mesh)
        const type = { dtype: 'f64', shape } as const
        const whole = Float64Array.from({ length: elementCount(shape) }, (_, index) => index + 1)
        const plan = redistribute(type, mesh, from, to)
        let held: Spread = spread(whole, shape, mesh, from, counter(seed))
        let total = 0
        for (const step of plan.steps) {
          kinds.add(step.kind)
          const sent = new Array<number>(meshSize(mesh)).fill(0)
          expect(printLayout(step.before)).toBe(printLayout(held.layout))
          held = execute(step, held, sent)
          expect(sent).toEqual(
            sent.map((_, place) => sentElements(step, shape, mesh, coordinatesAt(mesh, place))),
          )
          total += sent.reduce((sum, elements) => sum + elements, 0)
        }
        expect(printLayout(held.layout)).toBe(printLayout(to))
        // Means of means divide more than once.
        collect(held, 1e-9).forEach((value, at) => {
          if (Math.abs(value - whole[at]!) > 1e-9) expect(value).toBe(whole[at])
        })
        expect(plan.wireBytes).toBe(8 * total)
        expect(total).toBeLessThanOrEqual(everythingThenSlice(shape, mesh, from) + 1e-6)
      }),
      { numRuns: 300 },
    )
    expect([...kinds].sort()).toEqual([
      'allGather',
      'allReduce',
      'allToAll',
      'exchange',
      'keepOne',
      'permute',
      'reduceScatter',
      'slice',
    ])
  })

  const mesh: Mesh = {
    axes: [
      { name: 'data', size: 2 },
      { name: 'context', size: 3 },
      { name: 'tensor', size: 4 },
    ],
  }

  // n - 1 of n parts of the block that is gathered, scattered or swapped; twice for an all-reduce.
  it.each([
    ['[tensor | .]', '[. | .]', 'allGather', (3 / 4) * 24 * 24],
    ['[. | .] partial sum tensor', '[tensor | .]', 'reduceScatter', (3 / 4) * 24 * 24],
    ['[. | .] partial sum tensor', '[. | .]', 'allReduce', 2 * (3 / 4) * 24 * 24],
    ['[. | .] partial sum data, tensor', '[. | .]', 'allReduce', 2 * (7 / 8) * 24 * 24],
    ['[tensor | .]', '[. | tensor]', 'allToAll', (3 / 4) * 6 * 24],
    ['[data, tensor | context]', '[data | context]', 'allGather', (3 / 4) * 12 * 8],
    ['[data, tensor | context]', '[data | context, tensor]', 'allToAll', (3 / 4) * 3 * 8],
    ['[. | .]', '[data, tensor | context]', 'slice', 0],
    ['[data, context | .]', '[data, context | .]', '', 0],
    ['[context, tensor | .]', '[. | .]', 'allGather', (11 / 12) * 24 * 24],
    ['[. | .] partial mean data', '[data | .]', 'reduceScatter', (1 / 2) * 24 * 24],
    ['[. | .]', '[. | .] partial sum tensor', 'keepOne', 0],
    ['[. | .]', '[. | .] varying data', 'vary', 0],
    ['[tensor | .] varying data', '[. | tensor] varying data', 'allToAll', (3 / 4) * 6 * 24],
  ])('from %s to %s is %s', (from, to, kinds, perRank) => {
    const type = { dtype: 'f32', shape: [24, 24] } as const
    const plan = redistribute(type, mesh, parseLayout(from), parseLayout(to))
    expect(plan.steps.map(({ kind }) => kind).join(' ')).toBe(kinds)
    expect(plan.wireBytes).toBeCloseTo(4 * 24 * perRank, 6)
  })

  it('swaps the order of two axes by sending whole blocks, but for those that stay', () => {
    const type = { dtype: 'f32', shape: [12, 1] } as const
    const plan = redistribute(
      type,
      mesh,
      parseLayout('[data, context | .]'),
      parseLayout('[context, data | .]'),
    )
    expect(plan.steps.map(({ kind }) => kind)).toEqual(['permute'])
    // Of six blocks the first and the last are in the same place both ways.
    expect(plan.wireBytes).toBe(4 * 4 * 4 * 2)
  })

  it.each([
    ['[. | .] varying data', '[. | .]', 'partial mean data'],
    ['[. | .] varying data', '[data | .]', 'partial mean data'],
    ['[. | .] partial sum data', '[. | .] varying data', 'an op of the graph'],
    ['[data | .]', '[. | .] varying data', 'gather it first'],
  ])('refuses %s to %s', (from, to, hint) => {
    const type = { dtype: 'f32', shape: [24, 24] } as const
    expect(() => redistribute(type, mesh, parseLayout(from), parseLayout(to))).toThrow(
      expect.objectContaining({ code: 'LAYOUT_VARYING', hint: expect.stringContaining(hint) }),
    )
  })
})
