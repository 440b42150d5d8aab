import { describe, expect, it } from 'vitest'
import { products, typeOf } from '../../test/support/taskGraphs.ts'
import { tinyGpt } from '../../test/support/tinyGpt.ts'
import { splitStages } from './stages.ts'
import { differentiateStage, type StageTasks } from './tasks.ts'
import { byteSize } from './tensor.ts'
import type { Graph } from './types.ts'

describe('residuals of a GPT block', () => {
  const batch = 2
  const sequence = 16
  const hidden = 32
  const heads = 4
  const sizes = { batch, sequence, hidden, heads, vocabulary: 11, layers: 3, dtype: 'f32' } as const
  const [, middle] = splitStages(tinyGpt(sizes).graph, [0, 0, 1, 2, 2])
  const tasks = differentiateStage(middle!)

  it('are as many bytes as a count by hand', () => {
    // In units of batch x sequence x hidden: the block's input (held as it came) 1; queries, keys and values 3; the
    // output of attention 1; the stream after attention 1; the wide activation before GELU 4. Norms, GELU and their
    // statistics are made again. The probabilities of attention are heads x sequence for each token.
    const tokens = batch * sequence
    expect(tasks.keptInputs).toEqual(['x0'])
    const bytes = tasks.residuals.reduce((sum, name) => sum + byteSize(typeOf(tasks.F, name)), 0)
    expect(bytes).toBe(4 * tokens * ((3 + 1 + 1 + 4) * hidden + heads * sequence))
  })

  it('are not copied twice, and none is a parameter', () => {
    const values = tasks.F.outputs.map((output) => output.value)
    expect(new Set(values).size).toBe(values.length)
    const parameters = tasks.F.inputs
      .filter((input) => input.kind === 'parameter')
      .map((input) => input.value)
    expect(values.filter((value) => parameters.includes(value))).toEqual([])
  })

  it('make the backward run no product, attention or loss of the forward again', () => {
    const costly = (graph: Graph): number =>
      products(graph) + graph.nodes.filter((n) => n.op === 'attention').length
    expect(costly(tasks.F)).toBe(4 + 1)
    expect(costly(tasks.B)).toBe(2 * 4 + 4)
    // Without F's own output its last product is not needed.
    expect(costly(tasks.FB)).toBe(4 + 1 - 1 + 2 * 4 + 4)
  })

  it('grow when nothing may run again, and then nothing does', () => {
    const none = differentiateStage(middle!, { recompute: [] })
    const bytes = ({ F, residuals }: StageTasks): number =>
      residuals.reduce((sum, name) => sum + byteSize(typeOf(F, name)), 0)
    expect(bytes(none)).toBeGreaterThan(bytes(tasks))
    const norms = (graph: Graph): number =>
      graph.nodes.filter((node) => /norm|geluTanh$/i.test(node.op)).length
    expect(norms(none.F)).toBe(3)
    expect(norms(none.B)).toBe(0)
    expect(norms(tasks.B)).toBe(3)
  })
})
