import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { randomModels } from '../../test/support/randomGraphs.ts'
import { chooseBoundary, parameterValues } from './boundary.ts'
import { GraphBuilder } from './builder.ts'
import type { Graph, Node, ValueId } from './types.ts'

/** A random graph of adds, what may run again, prices, and what is demanded. */
const problems = fc
  .record({
    operands: fc.array(fc.tuple(fc.nat(20), fc.nat(20)), { minLength: 1, maxLength: 6 }),
    repeatable: fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }),
    prices: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 9, maxLength: 9 }),
    demanded: fc.array(fc.nat(8), { minLength: 1, maxLength: 3 }),
  })
  .map(({ operands, repeatable, prices, demanded }) => {
    const builder = new GraphBuilder()
    const type = { dtype: 'f32', shape: [] } as const
    const values = [builder.input('w', 'parameter', type), builder.input('x', 'activation', type)]
    for (const [left, right] of operands)
      values.push(builder.one('add', [values[left % values.length]!, values[right % values.length]!], {}))
    values.forEach((value, index) => {
      builder.output(`y${index}`, value)
    })
    const graph = builder.build({ keepInputs: true })
    const free = parameterValues(graph)
    return {
      graph,
      candidates: new Set(graph.nodes),
      demanded: demanded.map((index) => index % graph.values.length),
      repeatable: (node: Node) => repeatable[graph.nodes.indexOf(node)]!,
      price: (value: ValueId) => prices[value]!,
      free,
    }
  })

type Problem = typeof problems extends fc.Arbitrary<infer T> ? T : never

/** Whether the second task can make what is demanded of it from these values. */
function suffices(problem: Problem, held: ReadonlySet<ValueId>): boolean {
  const known = new Set<ValueId>([...held, ...problem.free])
  for (const node of problem.graph.nodes)
    if (problem.repeatable(node) && node.inputs.every((input) => known.has(input)))
      known.add(node.outputs[0]!)
  return problem.demanded.every((value) => known.has(value))
}

function total(problem: Problem, held: Iterable<ValueId>): number {
  return [...held].reduce((sum, value) => sum + problem.price(value), 0)
}

describe('chooseBoundary', () => {
  it('is the cheapest set that suffices, by trying all', () => {
    fc.assert(
      fc.property(problems, (problem) => {
        const found = chooseBoundary(problem)
        expect(suffices(problem, new Set(found))).toBe(true)
        let best = Infinity
        for (let mask = 0; mask < 1 << problem.graph.values.length; mask++) {
          const held = new Set([...problem.graph.values.keys()].filter((value) => (mask >> value) & 1))
          if (total(problem, held) < best && suffices(problem, held)) best = total(problem, held)
        }
        expect(total(problem, found)).toBe(best)
        expect(found.filter((value) => problem.free.has(value))).toEqual([])
      }),
      { numRuns: 200 },
    )
  })
})

describe('parameterValues', () => {
  it('are the values that do not change when everything but parameters does', () => {
    fc.assert(
      fc.property(randomModels, ({ graph }) => {
        const found = parameterValues(graph)
        expect(found).toEqual(complement(graph, reached(graph)))
      }),
      { numRuns: 30 },
    )
  })
})

/** What the other inputs reach. */
function reached(graph: Graph): Set<ValueId> {
  const open = graph.inputs.filter((input) => input.kind !== 'parameter').map((input) => input.value)
  const found = new Set(open)
  for (const value of open)
    for (const node of graph.nodes)
      if (node.inputs.includes(value))
        for (const output of node.outputs)
          if (!found.has(output)) {
            found.add(output)
            open.push(output)
          }
  return found
}

function complement(graph: Graph, set: ReadonlySet<ValueId>): Set<ValueId> {
  const order = graph.inputs.map((input) => input.value).concat(graph.nodes.flatMap((node) => node.outputs))
  return new Set(order.filter((value) => !set.has(value)))
}
