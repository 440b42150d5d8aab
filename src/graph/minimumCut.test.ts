import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type FlowEdge, minimumCut } from './minimumCut.ts'

/** Node 0 is the source and node 1 the sink. */
const networks: fc.Arbitrary<{ nodeCount: number; edges: FlowEdge[] }> = fc
  .integer({ min: 2, max: 7 })
  .chain((nodeCount) => {
    const node = fc.integer({ min: 0, max: nodeCount - 1 })
    const edge = fc.record({ from: node, to: node, capacity: fc.integer({ min: 0, max: 9 }) })
    return fc.record({ nodeCount: fc.constant(nodeCount), edges: fc.array(edge, { maxLength: 16 }) })
  })

function cutCapacity(edges: readonly FlowEdge[], sinkSide: (node: number) => boolean): number {
  return edges.reduce((sum, edge) => sum + (!sinkSide(edge.from) && sinkSide(edge.to) ? edge.capacity : 0), 0)
}

/** Every way to put the other nodes on a side. */
function cheapestCuts(
  nodeCount: number,
  edges: readonly FlowEdge[],
): { capacity: number; sides: boolean[][] } {
  let capacity = Infinity
  let sides: boolean[][] = []
  for (let mask = 0; mask < 1 << nodeCount; mask++) {
    if ((mask & 3) !== 2) continue
    const found = cutCapacity(edges, (node) => ((mask >> node) & 1) === 1)
    if (found < capacity) sides = []
    if (found <= capacity)
      sides.push(Array.from({ length: nodeCount }, (_, node) => ((mask >> node) & 1) === 1))
    capacity = Math.min(capacity, found)
  }
  return { capacity, sides }
}

describe('minimumCut', () => {
  it('equals the best of all cuts, and is the one nearest to the sink', () => {
    fc.assert(
      fc.property(networks, ({ nodeCount, edges }) => {
        const cut = minimumCut(nodeCount, edges, 0, 1)
        const best = cheapestCuts(nodeCount, edges)
        expect(cut.capacity).toBe(best.capacity)
        expect(cutCapacity(edges, (node) => cut.sinkSide[node]!)).toBe(best.capacity)
        const smallest = Math.min(...best.sides.map((side) => side.filter(Boolean).length))
        expect(cut.sinkSide.filter(Boolean).length).toBe(smallest)
      }),
      { numRuns: 400 },
    )
  })

  it('refuses a network whose every cut is infinite', () => {
    const edges = [
      { from: 0, to: 2, capacity: Infinity },
      { from: 2, to: 1, capacity: Infinity },
    ]
    expect(() => minimumCut(3, edges, 0, 1)).toThrow('infinite')
  })

  it('walks a long chain', () => {
    const length = 20_000
    const edges = Array.from({ length }, (_, index) => ({
      from: index,
      to: index + 1,
      capacity: index === 12_345 ? 3 : 5,
    }))
    const cut = minimumCut(length + 1, edges, 0, length)
    expect(cut.capacity).toBe(3)
    expect(cut.sinkSide.indexOf(true)).toBe(12_346)
  })
})
