import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { modelFromConfig, modelFromShortName } from '../models/index.ts'
import { miniaturePlan, parsePlan, printPlan, type ResolvedPlan, resolvePlan } from './index.ts'

function resolved(text: string, name: string): ResolvedPlan {
  return resolvePlan(parsePlan(`meshwright: 1\n${text}`), modelFromShortName(name))
}

function shrink(text: string, name: string): { plan: ResolvedPlan; small: ResolvedPlan; hides: string } {
  const model = modelFromShortName(name)
  const plan = resolved(text, name)
  const { plan: document, model: config, hides } = miniaturePlan(plan, model)
  expect(parsePlan(printPlan(document))).toEqual(document)
  return { plan, small: resolvePlan(document, modelFromConfig(config)), hides: hides.join('\n') }
}

const replicasOf = (plan: ResolvedPlan): number[] => plan.stages.map(({ replicas }) => replicas)
const layersOf = (plan: ResolvedPlan): number[] => plan.stages.map(({ layers }) => layers)

describe('miniaturePlan', () => {
  it('reduces a large plan to at most 16 ranks of the same shape', () => {
    const { plan, small, hides } = shrink(
      'mesh: { pipeline: 8, data: 64 }\nbatch: { samples: 8192, microbatches: 64 }\nschedule: {warmup: b}\nmemory: {deviceBytes: 80GB}',
      'llama-2-70b',
    )
    expect(plan.ranks).toHaveLength(512)
    expect(small.ranks).toHaveLength(16)
    expect(replicasOf(small)).toEqual(Array(8).fill(2))
    expect(layersOf(small)).toEqual(Array(8).fill(2))
    // Two samples on each replica, as it was more than one.
    expect(small.stages[0]!.localSamples).toBe(2)
    expect(small.microbatches).toBe(16)
    expect(small.document.schedule).toEqual(plan.document.schedule)
    expect(small.deviceBytes).toBeNull()
    expect(hides).toContain('Replicas 64 became 2')
    expect(hides).toContain('Hidden 8192, vocabulary 32000 and sequence 4096 became 32, 256 and 16')
    expect(hides).toContain('memory budget')
  })

  it('keeps how heads share keys and values', () => {
    const model = modelFromShortName('llama-2-70b')
    const small = miniaturePlan(resolved('batch: {samples: 4}', 'llama-2-70b'), model).model
    expect(small).toMatchObject({ family: 'llama', heads: 4, kvHeads: 2, headDim: 8, hidden: 32, mlp: 112 })
    const multi = modelFromShortName('llama-2-7b')
    expect(miniaturePlan(resolved('', 'llama-2-7b'), multi).model).toMatchObject({ heads: 2, kvHeads: 2 })
  })

  it('keeps an uneven cut and uneven replicas', () => {
    const { small } = shrink(
      'mesh: { pipeline: 4, data: [96, 32, 32, 1] }\nstages: [9, 9, 5, 1]\nbatch: { samples: 768, microbatches: 8 }',
      'gpt:layers=24',
    )
    expect(layersOf(small)).toEqual([3, 3, 2, 1])
    // 96, 32 and 1 in all do not fit; 4, 2 and 1 have the same divisions.
    expect(replicasOf(small)).toEqual([4, 2, 2, 1])
    const ratios = shrink(
      'mesh: { pipeline: 2, data: [96, 32] }\nbatch: { samples: 768, microbatches: 8 }',
      'gpt',
    ).small
    expect(replicasOf(ratios)).toEqual([6, 2])
    expect(ratios.stages.map(({ localSamples }) => localSamples)).toEqual([1, 3])
    const coprime = shrink(
      'mesh: { pipeline: 2, data: [17, 12] }\nbatch: { samples: 204, microbatches: 1 }',
      'gpt',
    ).small
    expect(replicasOf(coprime)).toEqual([3, 2])
  })

  it('says when replicas do not fit beside so many stages, and when stages alone are too many', () => {
    const many = shrink('mesh: { pipeline: 12, data: 4 }\nbatch: {samples: 64}', 'gpt2')
    expect(replicasOf(many.small)).toEqual(Array(12).fill(1))
    expect(many.hides).toContain('the reduction over data and the slicing of micro-batches are not exercised')
    const deep = shrink('mesh: { pipeline: 20 }', 'gpt2-large')
    expect(deep.small.ranks).toHaveLength(20)
    expect(deep.hides).toContain('Every actor needs a rank, so the miniature has 20')
  })

  it('keeps stages on the actors that have them, and what is recomputed of each', () => {
    const schedule = 'schedule: { name: looped-bfs, chunks: 2 }'
    const { plan, small, hides } = shrink(
      `mesh: { pipeline: 2, data: [96, 32] }\nstages: [8, 5, 5, 6]\n${schedule}\nrecompute: [${[0, 9, 10, 18, 19, 20, 21, 22, 23]}, head]\nbatch: { samples: 9600, microbatches: 50 }`,
      'gpt:layers=24',
    )
    expect(small.schedule.placement).toEqual(plan.schedule.placement)
    expect(small.schedule.placement).toEqual([0, 1, 0, 1])
    expect(small.ranks.map(({ pipeline }) => pipeline)).toEqual([0, 0, 0, 0, 0, 0, 1, 1])
    expect(layersOf(small)).toEqual([4, 2, 2, 3])
    // Some layers of the first two stages, none of the third, all of the last.
    expect(small.document.recompute).toEqual(['head', 0, 4, 8, 9, 10])
    expect(small.microbatches % 4).toBe(plan.microbatches % 4)
    expect(hides).toContain('Replicas 96, 32 became 6, 2')
  })

  it('leaves a schedule in full as it is', () => {
    const actors = Array.from({ length: 3 }, (_, stage) => {
      const actions = (phase: string): string =>
        Array.from({ length: 9 }, (_, microbatch) => `${stage}${phase}${microbatch}`).join(' ')
      return `    actor ${stage}: ${actions('F')} ${actions('B')}`
    })
    const text = `schedule:\n  text: |\n    schedule 1\n    stages 3 on 0,1,2\n    microbatches 9\n${actors.join('\n')}\n`
    const { plan, small } = shrink(
      `${text}mesh: {pipeline: 3, data: 8}\nbatch: {samples: 144, microbatches: 9}`,
      'gpt:layers=6',
    )
    expect(small.schedule).toEqual(plan.schedule)
  })

  it('does not read with a tokenizer or weights that no longer fit', () => {
    const plan = parsePlan(
      'meshwright: 1\nmodel: {name: gpt2, weights: w.safetensors}\ndata: {file: a.txt, tokenizer: t.json}',
    )
    const model = modelFromShortName('gpt2')
    const small = miniaturePlan(resolvePlan(plan, model), model)
    expect(small.plan.data).toEqual({ file: 'a.txt', tokenizer: null })
    expect(small.plan.model).toMatchObject({ weights: null })
    expect(small.hides).toEqual(
      expect.arrayContaining([
        expect.stringContaining('weights file'),
        expect.stringContaining('not with the tokenizer'),
      ]),
    )
  })

  it('any plan has one that is valid, and keeps what it promises to keep', () => {
    fc.assert(
      fc.property(
        fc.record({
          replicas: fc.array(fc.constantFrom(1, 2, 3, 4, 6, 8, 12, 32), { minLength: 1, maxLength: 6 }),
          layers: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 6, maxLength: 6 }),
          local: fc.integer({ min: 1, max: 3 }),
          microbatches: fc.integer({ min: 1, max: 40 }),
        }),
        ({ replicas, layers, local, microbatches }) => {
          const stages = layers.slice(0, replicas.length)
          const samples = 96 * local * microbatches
          const { plan, small } = shrink(
            `mesh: {pipeline: ${stages.length}, data: [${replicas}]}\nstages: [${stages}]\nbatch: {samples: ${samples}, microbatches: ${microbatches}}`,
            `gpt:layers=${stages.reduce((sum, count) => sum + count, 0)}`,
          )
          expect(small.ranks.length).toBeLessThanOrEqual(16)
          for (const a of stages.keys())
            for (const b of stages.keys()) {
              const compare = (values: readonly number[]): number => Math.sign(values[a]! - values[b]!)
              expect(compare(layersOf(small))).toBe(compare(layersOf(plan)))
            }
          const pattern = (count: number): string => `${count > 1} ${count > stages.length}`
          expect(pattern(small.microbatches)).toBe(pattern(plan.microbatches))
          expect(small.microbatches % stages.length).toBe(plan.microbatches % stages.length)
        },
      ),
      { numRuns: 60 },
    )
  })
})
