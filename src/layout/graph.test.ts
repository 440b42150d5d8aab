import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { runByBlocks, withGradients } from '../../test/support/layoutGraph.ts'
import { layoutOf, meshes, uses } from '../../test/support/layouts.ts'
import { randomModels } from '../../test/support/randomGraphs.ts'
import { Numbers, seeds } from '../../test/support/randomTensors.ts'
import { interpretGraph } from '../graph/index.ts'

const use = fc.array(uses(false), { minLength: 6, maxLength: 6 })

describe('graphs by blocks', () => {
  it.each([
    ['forward', 40],
    ['forward and backward', 15],
  ])('%s, from any layouts and with any plans of ops, are the graph', (what, numRuns) => {
    fc.assert(
      fc.property(randomModels, meshes, use, seeds, ({ graph, inputs }, mesh, drawn, seed) => {
        const whole = what === 'forward' ? graph : withGradients(graph)
        const numbers = new Numbers(seed)
        const run = runByBlocks(whole, inputs, mesh, {
          // Ids have no terms.
          layoutOf: (name, shape) => {
            const own = drawn[numbers.integer(0, 5)]!
            const isTokens = name === 'tokens'
            const kept = own.use.map((one) => (isTokens && one === 'partial' ? 'none' : one))
            return layoutOf({ ...own, use: kept }, shape, mesh)
          },
          choose: (plans) => plans[Math.min(plans.length - 1, numbers.integer(0, 3))]!,
          random: () => numbers.integer(-3, 3),
        })
        const expected = interpretGraph(whole, inputs)
        expect(run.sentElements).toBeCloseTo(run.predictedElements, 6)
        for (const [name, tensor] of expected)
          tensor.data.forEach((value, index) => {
            const found = run.outputs.get(name)![index]!
            if (!(Math.abs(found - value) <= 1e-9 * (1 + Math.abs(value)))) expect(found, name).toBe(value)
          })
      }),
      { numRuns },
    )
  })
})
