import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type RandomModel, randomModels } from '../../test/support/randomGraphs.ts'
import { runStages, type StageRun } from '../../test/support/runStages.ts'
import { products, typeOf } from '../../test/support/taskGraphs.ts'
import { tinyGpt } from '../../test/support/tinyGpt.ts'
import { GraphBuilder } from './builder.ts'
import { checkGraph } from './check.ts'
import { interpretGraph } from './interpret.ts'
import { splitStages } from './stages.ts'
import { differentiateStage, type StageTasks } from './tasks.ts'
import { makeTensor } from './tensor.ts'
import type { Graph, Tensor, ValueId } from './types.ts'

const gptSizes = {
  batch: 2,
  sequence: 3,
  hidden: 4,
  heads: 2,
  vocabulary: 5,
  layers: 2,
  dtype: 'f64',
} as const

function run(
  { graph, inputs }: RandomModel,
  stageOfBlock: readonly number[],
  mode: 'plain' | 'split' | 'fused',
  lossScale: number = 1,
): StageRun {
  const pieces = splitStages(graph, stageOfBlock)
  return runStages(
    pieces,
    pieces.map((piece) => differentiateStage(piece)),
    inputs,
    mode,
    lossScale,
  )
}

function oneStage(graph: Graph): number[] {
  return graph.blocks.map(() => 0)
}

/** Blocks in order over a number of stages, or over fewer where a stage would have nothing to do. */
function stagesOf(graph: Graph, count: number): number[] {
  const stages = Math.min(count, graph.blocks.length)
  const cut = graph.blocks.map((_, block) => Math.floor((block * stages) / graph.blocks.length))
  try {
    splitStages(graph, cut)
    return cut
  } catch {
    return stagesOf(graph, stages - 1)
  }
}

function allTasks(tasks: StageTasks): Graph[] {
  return [tasks.F, tasks.B, tasks.I, tasks.W, tasks.FB]
}

/** The loss with every parameter moved along `direction`. */
function movedLoss(model: RandomModel, direction: ReadonlyMap<string, Float64Array>, step: number): number {
  const inputs = new Map<string, Tensor>(model.inputs)
  for (const [name, part] of direction) {
    const { type, data } = model.inputs.get(name)!
    inputs.set(
      name,
      makeTensor(
        type,
        Float64Array.from(data, (value, index) => value + step * part[index]!),
      ),
    )
  }
  return interpretGraph(model.graph, inputs).get('loss')!.data[0]!
}

/** Compares the gradient with central differences along one direction that moves every parameter. */
function expectDerivative(model: RandomModel, { gradients }: StageRun): void {
  const direction = new Map<string, Float64Array>()
  let along = 0
  let size = 0
  for (const [name, gradient] of gradients) {
    const part = gradient.map((_, index) => Math.cos(1 + index + name.length))
    direction.set(name, part)
    gradient.forEach((value, index) => {
      along += value * part[index]!
      size += Math.abs(value * part[index]!)
    })
  }
  const step = 1e-5
  const difference = (movedLoss(model, direction, step) - movedLoss(model, direction, -step)) / (2 * step)
  expect(Math.abs(along - difference)).toBeLessThan(1e-6 * (1 + size))
}

function expectEqualRuns(actual: StageRun, expected: StageRun, tolerance: number): void {
  expect([...actual.gradients.keys()].sort()).toEqual([...expected.gradients.keys()].sort())
  for (const [name, gradient] of expected.gradients) {
    const largest = Math.max(1, ...gradient.map(Math.abs))
    actual.gradients.get(name)!.forEach((value, index) => {
      expect(Math.abs(value - gradient[index]!)).toBeLessThanOrEqual(tolerance * largest)
    })
  }
}

describe('gradients of random models', () => {
  it('equal central differences in one stage and in several', () => {
    fc.assert(
      fc.property(randomModels, fc.integer({ min: 1, max: 4 }), (model, count) => {
        const parts = run(model, stagesOf(model.graph, count), 'plain')
        expectDerivative(model, parts)
        expectEqualRuns(run(model, oneStage(model.graph), 'fused'), parts, 1e-12)
        expect(parts.loss).toBeCloseTo(interpretGraph(model.graph, model.inputs).get('loss')!.data[0]!, 12)
      }),
      { numRuns: 40 },
    )
  })

  it('are the same from B, from I and W, and from F and B in one', () => {
    fc.assert(
      fc.property(randomModels, fc.integer({ min: 1, max: 4 }), (model, count) => {
        const cut = stagesOf(model.graph, count)
        const plain = run(model, cut, 'plain')
        // The same operations in the same order: not a bit may differ.
        expectEqualRuns(run(model, cut, 'split'), plain, 0)
        expectEqualRuns(run(model, cut, 'fused'), plain, 0)
      }),
      { numRuns: 40 },
    )
  })

  it('scale with lossScale', () => {
    fc.assert(
      fc.property(randomModels, (model) => {
        const plain = run(model, stagesOf(model.graph, 2), 'plain')
        const scaled = run(model, stagesOf(model.graph, 2), 'split', 0.25)
        const back = new Map(
          [...scaled.gradients].map(([name, gradient]) => [name, gradient.map((g) => 4 * g)]),
        )
        expectEqualRuns({ loss: 0, gradients: back }, plain, 1e-12)
      }),
      { numRuns: 20 },
    )
  })
})

describe('tasks of random models', () => {
  it('type check, are pruned, and take no more than what their stage has', () => {
    fc.assert(
      fc.property(randomModels, fc.integer({ min: 1, max: 4 }), (model, count) => {
        for (const piece of splitStages(model.graph, stagesOf(model.graph, count))) {
          const tasks = differentiateStage(piece)
          for (const graph of [piece.graph, ...allTasks(tasks)]) {
            checkGraph(graph)
            expectPruned(graph)
          }
          const given = new Set(piece.graph.inputs.map((input) => input.name))
          const seeds = ['lossScale', ...piece.sends.map(({ name }) => `d.${name}`)]
          const forward = [...given, ...tasks.F.outputs.map((output) => output.name)]
          const names = (graph: Graph): string[] => graph.inputs.map((input) => input.name)
          expect(forward).toEqual(expect.arrayContaining(names(tasks.F)))
          expect([...forward, ...seeds]).toEqual(expect.arrayContaining(names(tasks.B)))
          expect(names(tasks.B)).toEqual(expect.arrayContaining(names(tasks.I)))
          expect([...names(tasks.B), ...tasks.exported]).toEqual(expect.arrayContaining(names(tasks.W)))
          expect(
            names(tasks.B)
              .filter((name) => tasks.residuals.includes(name))
              .sort(),
          ).toEqual([...tasks.residuals].sort())
          expect(
            names(tasks.W)
              .filter((name) => tasks.exported.includes(name))
              .sort(),
          ).toEqual([...tasks.exported].sort())
        }
      }),
      { numRuns: 40 },
    )
  })

  it('hold no residual that follows from parameters alone', () => {
    fc.assert(
      fc.property(randomModels, (model) => {
        const [piece] = splitStages(model.graph, oneStage(model.graph))
        const tasks = differentiateStage(piece!)
        const ofOthers = followsFrom(tasks.F, (kind) => kind !== 'parameter')
        for (const { name, value } of tasks.F.outputs)
          if (tasks.residuals.includes(name)) expect(ofOthers.has(value)).toBe(true)
      }),
      { numRuns: 40 },
    )
  })
})

describe('tasks of a GPT', () => {
  const model = tinyGpt(gptSizes)
  const plain = run(model, oneStage(model.graph), 'fused')

  it.each([[[0, 0, 0, 0]], [[0, 1, 1, 1]], [[0, 0, 1, 1]], [[0, 1, 2, 3]]])(
    'have the right gradients for blocks in stages %j',
    (cut) => {
      for (const mode of ['plain', 'split', 'fused'] as const) {
        const found = run(model, cut, mode)
        expectDerivative(model, found)
        expectEqualRuns(found, plain, 1e-12)
      }
    },
  )

  it('gives every parameter its own derivative', () => {
    const step = 1e-5
    for (const [name, gradient] of plain.gradients) {
      const index = (gradient.length * 5) >> 3
      const direction = new Map([[name, gradient.map((_, at) => (at === index ? 1 : 0))]])
      const difference = (movedLoss(model, direction, step) - movedLoss(model, direction, -step)) / (2 * step)
      expect(Math.abs(gradient[index]! - difference)).toBeLessThan(1e-8)
    }
  })

  it('gives a tied weight one dense part and one of rows in one stage', () => {
    const [piece] = splitStages(model.graph, oneStage(model.graph))
    const parts = differentiateStage(piece!).gradients.filter(({ parameter }) => parameter === 'wte.weight')
    expect(parts).toEqual([
      { parameter: 'wte.weight', kind: 'dense', output: 'g.wte.weight' },
      { parameter: 'wte.weight', kind: 'rows', values: 'g.wte.weight.rows0', ids: { input: 'tokens' } },
    ])
  })

  it('gives a tied weight one part in each of two stages', () => {
    const kinds = splitStages(model.graph, [0, 0, 1, 1]).map((piece) =>
      differentiateStage(piece)
        .gradients.filter(({ parameter }) => parameter === 'wte.weight')
        .map(({ kind }) => kind),
    )
    expect(kinds).toEqual([['rows'], ['dense']])
  })

  it('leaves the products of I to I', () => {
    // Of B's products half give cotangents of operands and half give gradients of weights. A middle block has six
    // with a weight or a cotangent for each of four linear layers, and four in attention.
    const [, middle] = splitStages(model.graph, [0, 1, 2, 2])
    const { B, I, W } = differentiateStage(middle!)
    expect(products(B)).toBe(4 + 4 + 4)
    expect(products(I)).toBe(4 + 4)
    expect(products(W)).toBe(4)
  })

  it('lets W repeat no arithmetic on the way of the cotangents', () => {
    const [, middle] = splitStages(model.graph, [0, 1, 2, 2])
    const { I, W, exported } = differentiateStage(middle!)
    const count = (graph: Graph, op: string): number => graph.nodes.filter((node) => node.op === op).length
    expect(count(I, 'geluTanhGradient')).toBe(1)
    expect(count(W, 'geluTanhGradient')).toBe(0)
    // Two norms: in W only (x - mean) / deviation, and that times the cotangent of the norm's result.
    expect(count(W, 'sub')).toBe(2)
    expect(count(W, 'mul')).toBe(4)
    // Cotangents of the results of three linear layers (the fourth is d.x1 as it came) and of both norms.
    expect(exported.map((name) => typeOf(I, name).shape)).toEqual([
      [2, 3, 16],
      [2, 3, 4],
      [2, 3, 4],
      [2, 3, 12],
      [2, 3, 4],
    ])
  })

  it('has an I in stage 0, up to what the embedding passes on', () => {
    const [first] = splitStages(model.graph, [0, 0, 1, 1])
    const { I, W, exported } = differentiateStage(first!)
    expect(products(I)).toBe(4 + 4)
    expect(products(W)).toBe(4)
    expect(I.outputs.map((output) => output.name)).toEqual(exported)
  })

  it('has an empty I for a stage of the first block alone', () => {
    const [first] = splitStages(model.graph, [0, 1, 1, 1])
    const { I, W, B } = differentiateStage(first!)
    expect(I.nodes).toEqual([])
    expect(I.outputs).toEqual([])
    expect(W).toEqual(B)
  })

  it('has no cotangent outputs in W and no gradients in I', () => {
    const [, last] = splitStages(model.graph, [0, 0, 1, 1])
    const tasks = differentiateStage(last!)
    expect(tasks.W.outputs.map(({ name }) => name)).toEqual(
      tasks.gradients.map((part) => (part.kind === 'dense' ? part.output : part.values)),
    )
    expect(tasks.I.outputs.map(({ name }) => name)).toEqual([
      'd.x0',
      ...tasks.exported.filter((n) => n !== 'd.x0'),
    ])
    expect(tasks.FB.outputs.map(({ name }) => name)).toEqual([
      'loss',
      ...tasks.B.outputs.map(({ name }) => name),
    ])
  })
})

describe('tasks of a stage with values that do not matter', () => {
  const builder = new GraphBuilder()
  const type = { dtype: 'f64', shape: [2, 3] } as const
  const tokens = builder.input('tokens', 'data', { dtype: 'i32', shape: [2] })
  builder.startBlock('a')
  const table = builder.input('table', 'parameter', { dtype: 'f64', shape: [4, 3] })
  const x = builder.one('gather', [table, tokens], {})
  const limits = builder.one('exp', [x], {})
  builder.startBlock('b')
  const border = builder.input('border', 'parameter', type)
  const mask = builder.one('less', [builder.one('add', [limits, border], {}), limits], {})
  builder.startBlock('c')
  const chosen = builder.one('where', [mask, x, builder.one('tanh', [x], {})], {})
  builder.output('loss', builder.one('reduceSum', [chosen], { dims: [0, 1], keepDims: false }))
  const pieces = splitStages(builder.build(), [0, 1, 2])
  const [first, second, third] = pieces.map((piece) => differentiateStage(piece))

  it('give zeros for what has no derivative', () => {
    const inputs = new Map([
      ['x0.1', makeTensor(type, [1, 2, 3, 4, 5, 6])],
      ['border', makeTensor(type, [0, 0, 0, 0, 0, 0])],
    ])
    const outputs = interpretGraph(second!.B, inputs)
    expect([...outputs.keys()]).toEqual(['d.x0.1', 'g.border'])
    for (const { data } of outputs.values()) expect([...data]).toEqual([0, 0, 0, 0, 0, 0])
  })

  it('send no cotangent of a bool back', () => {
    expect(third!.B.outputs.map(({ name }) => name)).toEqual(['d.x0'])
    expect(second!.B.inputs).toEqual([])
    expect(third!.keptInputs).toEqual(['x0', 'x1'])
    expect(first!.gradients).toEqual([
      { parameter: 'table', kind: 'rows', values: 'g.table.rows0', ids: { input: 'tokens' } },
    ])
  })
})

describe('ids of rows', () => {
  it('that are no input become an output', () => {
    const builder = new GraphBuilder()
    const tokens = builder.input('tokens', 'data', { dtype: 'i32', shape: [2, 2] })
    builder.startBlock('a')
    const table = builder.input('table', 'parameter', { dtype: 'f64', shape: [4, 3] })
    const flat = builder.one('reshape', [tokens], { shape: [4] })
    const x = builder.one('tanh', [builder.one('gather', [table, flat], {})], {})
    builder.output('loss', builder.one('reduceSum', [x], { dims: [0, 1], keepDims: false }))
    const graph = builder.build()
    const { gradients, B, W, FB } = differentiateStage(splitStages(graph, [0])[0]!)
    expect(gradients).toEqual([
      { parameter: 'table', kind: 'rows', values: 'g.table.rows0', ids: { output: 'g.table.rows0.ids' } },
    ])
    for (const task of [B, W, FB])
      expect(task.outputs.map(({ name }) => name).slice(-2)).toEqual(['g.table.rows0', 'g.table.rows0.ids'])
  })
})

function followsFrom(graph: Graph, accept: (kind: string) => boolean): Set<ValueId> {
  const found = new Set<ValueId>()
  for (const input of graph.inputs) if (accept(input.kind)) found.add(input.value)
  for (const node of graph.nodes)
    if (node.inputs.some((input) => found.has(input))) for (const output of node.outputs) found.add(output)
  return found
}

/** Every node and every input is needed by some output. */
function expectPruned(graph: Graph): void {
  const needed = new Set(graph.outputs.map((output) => output.value))
  for (const node of graph.nodes.toReversed()) {
    expect(node.outputs.some((output) => needed.has(output))).toBe(true)
    for (const input of node.inputs) needed.add(input)
  }
  for (const input of graph.inputs) expect(needed.has(input.value)).toBe(true)
}
