import { describe, expect, it } from 'vitest'
import { products, typeOf } from '../../test/support/taskGraphs.ts'
import { tinyGpt } from '../../test/support/tinyGpt.ts'
import { GraphBuilder } from './builder.ts'
import { defaultRecompute, type RecomputeChoice } from './recompute.ts'
import { chooseHeld, chooseResiduals } from './residuals.ts'
import type { StageDerivative } from './stageDerivative.ts'
import { splitStages } from './stages.ts'
import { differentiateStage, type StageTasks } from './tasks.ts'
import { byteSize } from './tensor.ts'
import type { CommunicateOperation, Graph, ValueId } from './types.ts'

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

describe('residuals where ranks communicate', () => {
  const plain = { axes: ['a'], members: 2, root: 0, shift: 0 } as const

  /** `h` is the operation on a received `x`, which is smaller, all in block `h.0`; its cotangent takes `h`. */
  function stage(operation: CommunicateOperation): { derivative: StageDerivative; h: ValueId; x: ValueId } {
    const builder = new GraphBuilder()
    const x = builder.input('x', 'activation', { dtype: 'f32', shape: [4, 1] })
    const seed = builder.input('d.y', 'cotangent', { dtype: 'f32', shape: [4, 3] })
    builder.startBlock('h.0')
    const reduce = operation === 'allReduce' ? 'sum' : null
    const shift = operation === 'permute' ? 1 : 0
    const wide = builder.one('broadcast', [x], { shape: [4, 3] })
    const h = builder.one('communicate', [wide], { ...plain, operation, reduce, shift })
    const y = builder.one('mul', [h, h], {})
    const derivative = builder.one('mul', [seed, h], {})
    builder.output('y', y)
    builder.output('d.x', derivative)
    const joint = builder.build()
    const [forward, cotangent] = joint.outputs
    return {
      derivative: {
        joint,
        forwardOutputs: [forward!],
        cotangentOutputs: [cotangent!],
        gradientOutputs: [],
        standIns: [],
        gradients: [],
      },
      x: joint.inputs[0]!.value,
      h: joint.nodes.find(({ op }) => op === 'communicate')!.outputs[0]!,
    }
  }

  const again = new Set(defaultRecompute)
  const held = (operation: CommunicateOperation, choice: RecomputeChoice): string => {
    const { derivative, h, x } = stage(operation)
    const residuals = chooseResiduals(derivative, again, () => true)
    // The backward by itself never communicates a second time.
    expect(residuals).toEqual([h])
    const found = chooseHeld(derivative, again, residuals, choice)
    expect(found).toHaveLength(1)
    return found[0] === x ? 'x' : found[0] === h ? 'h' : '?'
  }

  it.each([
    ['allReduce', 'none', 'h'],
    ['allReduce', 'attention', 'h'],
    ['allReduce', 'full', 'x'],
    ['permute', 'none', 'h'],
    ['permute', 'attention', 'x'],
    ['permute', 'full', 'x'],
  ] as const)('after %s under %s recomputation are %s', (operation, kind, expected) => {
    const choice: RecomputeChoice = kind === 'full' ? { kind, blocks: new Set(['h.0']) } : { kind }
    expect(held(operation, choice)).toBe(expected)
  })

  it('of blocks that are not chosen stay', () => {
    expect(held('allReduce', { kind: 'full', blocks: new Set(['h.1']) })).toBe('h')
  })
})
