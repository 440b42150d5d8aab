import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type RandomModel, randomModels } from '../../test/support/randomGraphs.ts'
import { runStages, type StageMode, type StageRun } from '../../test/support/runStages.ts'
import { smallModel } from '../../test/support/smallModels.ts'
import { products, typeOf } from '../../test/support/taskGraphs.ts'
import { GraphBuilder } from './builder.ts'
import { checkGraph } from './check.ts'
import { defaultRecompute, type RecomputeChoice, type RecomputeClass } from './recompute.ts'
import { splitStages } from './stages.ts'
import { differentiateStage, type StageTasks } from './tasks.ts'
import { byteSize, elementCount } from './tensor.ts'
import type { Graph, ValueId } from './types.ts'

const batch = 2
const sequence = 5
const hidden = 8
const heads = 2
const vocab = 11
const layers = 4
/** Bytes of one activation of the residual stream. */
const stream = 8 * batch * sequence * hidden

const sizes = `layers=${layers},hidden=${hidden},heads=${heads},context=${sequence},vocab=${vocab}`
const families = {
  gpt: smallModel(`gpt:${sizes},mlp=${4 * hidden}`, batch, sequence),
  llama: smallModel(`llama:${sizes},mlp=${3 * hidden},kvHeads=1`, batch, sequence),
}
const cuts = [
  [0, 0, 0, 0, 0, 0],
  [0, 0, 0, 1, 1, 1],
  [0, 0, 1, 1, 2, 2],
]
const isLayer = (block: string): boolean => /\.\d+$/.test(block)
const choices: Readonly<Record<string, RecomputeChoice>> = {
  none: { kind: 'none' },
  attention: { kind: 'attention' },
  'some layers': { kind: 'full', blocks: new Set(['h.1', 'h.2', 'layers.1', 'layers.2', 'elsewhere']) },
  'all layers': { kind: 'full', blocks: isLayer },
  'all blocks': { kind: 'full', blocks: () => true },
}
const cases = Object.keys(families).flatMap((family) => cuts.map((cut) => ({ family, cut })))

function tasksOf(
  model: RandomModel,
  cut: readonly number[],
  recomputation: RecomputeChoice,
  recompute: readonly RecomputeClass[] = defaultRecompute,
): StageTasks[] {
  return splitStages(model.graph, cut).map((piece) => differentiateStage(piece, { recomputation, recompute }))
}

function run(
  model: RandomModel,
  cut: readonly number[],
  choice: RecomputeChoice,
  mode: StageMode = 'split',
): StageRun {
  return runStages(splitStages(model.graph, cut), tasksOf(model, cut, choice), model.inputs, mode)
}

function heldBytes({ F, held }: StageTasks): number {
  return held.reduce((sum, name) => sum + byteSize(typeOf(F, name)), 0)
}

function names(list: readonly { readonly name: string }[]): string[] {
  return list.map(({ name }) => name)
}

function count(graph: Graph | undefined, op: string): number {
  return graph?.nodes.filter((node) => node.op === op).length ?? 0
}

/** What must hold of every choice, given the same stage without recomputation. */
function expectSound(
  model: RandomModel,
  cut: readonly number[],
  choice: RecomputeChoice,
  recompute: readonly RecomputeClass[] = defaultRecompute,
): void {
  const pieces = splitStages(model.graph, cut)
  const plain = tasksOf(model, cut, { kind: 'none' }, recompute)
  for (const [stage, tasks] of tasksOf(model, cut, choice, recompute).entries()) {
    const { F, R, B, I, W, FB, gradients, residuals, held, recomputed } = tasks
    const without = plain[stage]!
    expect({ B, I, W, FB, gradients, residuals }).toEqual({
      B: without.B,
      I: without.I,
      W: without.W,
      FB: without.FB,
      gradients: without.gradients,
      residuals: without.residuals,
    })
    expect(without.held).toEqual(residuals)
    expect(names(R?.outputs ?? [])).toEqual(recomputed)
    expect(residuals.filter((name) => !held.includes(name))).toEqual(recomputed)
    const piece = pieces[stage]!
    expect(new Set(names(F.outputs))).toEqual(new Set([...names(piece.graph.outputs), ...held]))
    if (R === undefined) {
      expect(F).toEqual(without.F)
      continue
    }
    checkGraph(R)
    expect(heldBytes(tasks)).toBeLessThan(heldBytes(without))
    // The backward finds what it takes, R too, and nothing is held in vain.
    const given = names(piece.graph.inputs)
    const seeds = ['lossScale', ...piece.sends.map(({ name }) => `d.${name}`)]
    expect([...given, ...held]).toEqual(expect.arrayContaining(names(R.inputs)))
    for (const task of [B, I, W])
      expect([...given, ...seeds, ...held, ...recomputed, ...tasks.exported]).toEqual(
        expect.arrayContaining(names(task.inputs)),
      )
    expect(names([...R.inputs, ...B.inputs])).toEqual(expect.arrayContaining([...held]))
    const kept = piece.receives.filter(({ name }) => names([...R.inputs, ...B.inputs]).includes(name))
    expect(tasks.keptInputs).toEqual(names(kept))
  }
}

describe('recomputation', () => {
  it.each(cases)('of $family in stages $cut changes no bit of a gradient', ({ family, cut }) => {
    const model = families[family as keyof typeof families]
    const plain = run(model, cut, { kind: 'none' })
    for (const choice of Object.values(choices)) {
      expect(run(model, cut, choice)).toEqual(plain)
      expectSound(model, cut, choice)
    }
    expect(run(model, cut, choices['all blocks']!, 'plain')).toEqual(plain)
  })

  it('of any blocks of random models changes no bit of a gradient', () => {
    const chosen = fc.array(fc.boolean(), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(randomModels, chosen, fc.boolean(), (model, picks, attention) => {
        const { blocks } = model.graph
        const named = new Set(blocks.filter((_, index) => picks[index % picks.length]))
        const choice: RecomputeChoice = attention ? { kind: 'attention' } : { kind: 'full', blocks: named }
        const cut = blocks.map(() => 0)
        expect(run(model, cut, choice)).toEqual(run(model, cut, { kind: 'none' }))
        for (const recompute of [defaultRecompute, []]) expectSound(model, cut, choice, recompute)
      }),
      { numRuns: 40 },
    )
  })

  it('of no block of the stage, or with no attention in it, is none', () => {
    fc.assert(
      fc.property(randomModels, (model) => {
        const cut = model.graph.blocks.map(() => 0)
        const [tasks] = tasksOf(model, cut, { kind: 'full', blocks: new Set() })
        expect(tasks).toEqual(tasksOf(model, cut, { kind: 'none' })[0])
        expect(tasks).not.toHaveProperty('R')
      }),
      { numRuns: 20 },
    )
    const [, , last] = tasksOf(families.gpt, [0, 1, 1, 1, 1, 2], { kind: 'attention' })
    expect(last).toEqual(tasksOf(families.gpt, [0, 1, 1, 1, 1, 2], { kind: 'none' })[2])
  })
})

describe('full recomputation of handmade blocks', () => {
  const everything: RecomputeChoice = { kind: 'full', blocks: () => true }
  const plainProduct = { transposeA: false, transposeB: false, scale: 1 }

  it('runs nothing again to hold as many bytes in another place', () => {
    // The backward takes the probabilities, as large as the logits that the stage received and does not need again.
    const builder = new GraphBuilder()
    const tokens = builder.input('tokens', 'data', { dtype: 'i32', shape: [3] })
    const labels = builder.input('labels', 'data', { dtype: 'i32', shape: [3] })
    builder.startBlock('a')
    const table = builder.input('table', 'parameter', { dtype: 'f64', shape: [4, 5] })
    const logits = builder.one('tanh', [builder.one('gather', [table, tokens], {})], {})
    builder.startBlock('b')
    builder.output('loss', builder.one('crossEntropy', [logits, labels], {}))
    const [, last] = splitStages(builder.build(), [0, 1])
    const tasks = differentiateStage(last!, { recomputation: everything })
    expect(tasks).toEqual(differentiateStage(last!))
    expect(tasks).toMatchObject({ residuals: ['r0'], held: ['r0'], recomputed: [], keptInputs: [] })
  })

  it('holds nothing that follows from data alone', () => {
    const builder = new GraphBuilder()
    const tokens = builder.input('tokens', 'data', { dtype: 'i32', shape: [3] })
    const weight = (name: string): ValueId =>
      builder.input(name, 'parameter', { dtype: 'f64', shape: [4, 2] })
    builder.startBlock('a')
    const words = builder.one('oneHot', [tokens], { depth: 4, dtype: 'f64' })
    const left = builder.one('matmul', [words, weight('w')], plainProduct)
    builder.startBlock('b')
    const right = builder.one('tanh', [builder.one('matmul', [words, weight('v')], plainProduct)], {})
    const both = builder.one('mul', [builder.one('tanh', [left], {}), right], {})
    builder.output('loss', builder.one('reduceSum', [both], { dims: [0, 1], keepDims: false }))
    const [piece] = splitStages(builder.build(), [0, 0])
    const { F, R, residuals, held } = differentiateStage(piece!, { recomputation: everything })
    expect(residuals.length).toBe(2)
    // Of `words` and the product, which both go from a to b, the product.
    expect(held.map((name) => typeOf(F, name).shape)).toEqual([[3, 2]])
    expect(names(R!.inputs)).toEqual(['tokens', 'v'])
  })
})

describe.each(['gpt', 'llama'] as const)('what %s holds', (family) => {
  const model = families[family]
  const whole = cuts[0]!
  const one = (name: string, cut: readonly number[] = whole, stage = 0): StageTasks =>
    tasksOf(model, cut, choices[name]!)[stage]!

  it('under full is the input of each block and no more', () => {
    // Inputs of the four layers and of the head.
    expect(heldBytes(one('all blocks'))).toBe((layers + 1) * stream)
    // A head that is not recomputed holds the loss's probabilities besides its input.
    expect(heldBytes(one('all layers'))).toBe((layers + 1) * stream + 8 * batch * sequence * vocab)
  })

  it('under full in a stage between others is the input of each block but the first, which it received', () => {
    const middle = one('all blocks', [0, 1, 1, 1, 1, 2], 1)
    expect(middle.keptInputs).toEqual(['x0'])
    expect(heldBytes(middle)).toBe((layers - 1) * stream)
  })

  it('under full of some blocks is as before in the others', () => {
    const some = one('some layers')
    const alone = [0, 1, 2, 3, 4, 5]
    // What two layers hold in stages of their own, where their inputs are received; here those are residuals already.
    const two = heldBytes(one('none', alone, 2)) + heldBytes(one('none', alone, 3))
    expect(heldBytes(some)).toBe(heldBytes(one('none')) - two)
    expect(count(some.R, 'attention')).toBe(2)
    const again = some.R!.nodes.filter((node) => node.block >= 0).map((node) => some.R!.blocks[node.block])
    expect(new Set(again)).toEqual(new Set(model.graph.blocks.slice(2, 4)))
  })

  it('under full lets each block run again from its own input', () => {
    const { F, R } = one('all layers')
    // All products but the head's, and each layer's last, whose result nobody but the next layer needs.
    expect(products(R!)).toBe(products(F) - 1 - layers)
    expect(count(R, 'attention')).toBe(layers)
    expect(count(R, 'crossEntropy')).toBe(0)
  })

  it('under attention is what it was less what attention gives', () => {
    const none = one('none')
    const attention = one('attention')
    // Of each layer the output and the probabilities of attention.
    const core = stream + 8 * batch * heads * sequence * sequence
    expect(heldBytes(none) - heldBytes(attention)).toBe(layers * core)
    const square = ({ F, held }: StageTasks): number =>
      held.filter((name) => elementCount(typeOf(F, name).shape) === batch * heads * sequence ** 2).length
    expect(square(none)).toBe(layers)
    expect(square(attention)).toBe(0)
    expect(count(attention.R, 'attention')).toBe(layers)
    expect(products(attention.R!)).toBe(0)
  })
})
