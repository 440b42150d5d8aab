import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { modelFromConfig, modelFromShortName } from '../models/index.ts'
import { miniaturePlan, PlanError, parsePlan, printPlan, type ResolvedPlan, resolvePlan } from './index.ts'

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

  const axesOf = ({ layout }: ResolvedPlan): string =>
    layout!.actors[0]!.mesh.axes.map(({ name, size }) => `${name}=${size}`).join(' ')

  it('has two ranks along tensor, and three in a ring where they fit', () => {
    const { plan, small, hides } = shrink(
      'mesh: { pipeline: 2, data: 8, context: 4, tensor: 8 }\nbatch: { samples: 128, microbatches: 4 }\nlayout: { sequence: true }',
      'llama-2-70b',
    )
    expect(plan.ranks).toHaveLength(512)
    expect(axesOf(small)).toBe('context=2 tensor=2')
    expect(replicasOf(small)).toEqual([2, 2])
    expect(small.ranks).toHaveLength(16)
    expect(small.document.layout).toEqual(plan.document.layout)
    expect(hides).toContain('Of the mesh, tensor 8 became 2, context 4 became 2: a mistake that needs more')
    expect(hides).toContain('Replicas 8 became 2')
    const four = shrink('mesh: { data: 8, context: 4, tensor: 8 }\nbatch: {samples: 32}', 'llama-2-70b').small
    // Six runs of tokens: 16 do not divide, 18 do.
    expect(four.sequence).toBe(18)
    expect(`${axesOf(four)} of ${replicasOf(four)}`).toBe('context=3 tensor=2 of 2')
  })

  it('keeps how tensor is split by key-value heads, and context with ulysses', () => {
    const both = shrink('tp: 16', 'llama-2-70b')
    expect(axesOf(both.plan)).toBe('tensor.kv=8 tensor.group=2')
    expect(axesOf(both.small)).toBe('tensor.kv=2 tensor.group=2')
    expect(both.hides).not.toContain('share key-value heads')
    const ulysses = shrink('cp: 16\nlayout: ulysses', 'llama-2-70b').small
    expect(axesOf(ulysses)).toBe('context.kv=2 context.group=2')
    const one = shrink('tp: 8', 'llama:hidden=512,heads=8,kvHeads=1,mlp=512').small
    expect(one.layout!.actors[0]!.parts).toMatchObject({ 'tensor.kv': [], 'tensor.group': ['tensor'] })
    const several = shrink('tp: 2', 'llama-2-70b').small.layout!.actors[0]!.parts
    expect(several).toMatchObject({ 'tensor.kv': ['tensor'], 'tensor.group': [] })
  })

  it('has squares and cubes of edge two, and samples for their parts', () => {
    const square = shrink(
      'mesh: { data: 4, tensor: { row: 4, column: 4 } }\nbatch: { samples: 128 }',
      'llama-2-70b',
    )
    expect(square.small.document.mesh).toMatchObject({ data: 4, tensor: { row: 2, column: 2 } })
    expect(square.small.stages[0]!.localSamples).toBe(4)
    expect(square.hides).toContain('tensor { row: 4, column: 4 } became { row: 2, column: 2 }')
    const cube = shrink('mesh: { tensor: { x: 4, y: 4, z: 4 } }\nbatch: { samples: 64 }', 'llama-2-70b').small
    expect(cube.ranks).toHaveLength(8)
    expect(cube.stages[0]!.localSamples).toBe(4)
    // Sixteen actors leave no room: the form stays, with one rank.
    const none = shrink(
      'mesh: { pipeline: 16, tensor: { row: 2, column: 2 } }\nbatch: { samples: 32 }',
      'llama-2-70b',
    )
    expect(none.small.document.mesh.tensor).toEqual({ row: 1, column: 1 })
    expect(none.hides).toContain('what ranks along it exchange is not exercised')
  })

  it('pads the vocabulary where the plan does', () => {
    const padded = shrink('tp: 4', 'gpt:vocab=50257,hidden=128').small
    expect(padded.layout!.paddedVocabulary).toBe(258)
    expect(shrink('tp: 4', 'gpt:vocab=50256,hidden=128').small.layout!.paddedVocabulary).toBe(256)
  })

  it('cuts experts over the axes that the plan cuts them over', () => {
    const moe = 'moe:layers=4,hidden=256,heads=8,kvHeads=8,expertMlp=64,experts=64,topk=4'
    const over = (text: string): string => {
      const { small } = shrink(`${text}\nbatch: { samples: 256 }`, moe)
      const { replicas, mesh } = small.layout!.actors[0]!
      return [...replicas, { name: '|' }, ...mesh.axes].map(({ name }) => name).join(' ')
    }
    expect(over('dp: 32\nep: 8')).toBe('data.expertData | data.expert')
    expect(over('dp: 8\nep: 8')).toBe('| data')
    expect(over('dp: 8\ntp: 4\nep: 16')).toBe('data.expertData | data.expert tensor')
    expect(over('dp: 8\ntp: 8\nep: 2\netp: 4')).toBe('data | tensor.expert tensor.expertTensor')
    const { small } = shrink('dp: 8\nep: 8\ngbs: 256', moe)
    expect(small.document.mesh).toMatchObject({ data: 2, expert: 2 })
  })

  it('leaves out rules that do not fit', () => {
    const rules = (over: string): string => `tp: 4\nlayout: { rules: [{ axis: mlp, over: [${over}] }] }`
    const kept = shrink(rules('tensor'), 'llama-2-70b')
    expect(kept.small.layout!.settings.rules).toHaveLength(1)
    const dropped = shrink(
      'dp: 2\nep: 2\nmesh: {pipeline: 16}\nlayout: { rules: [{ axis: embed, over: [data] }] }'.replace(
        'over: [data]',
        'over: [expert, expertTensor]',
      ),
      'moe:layers=16,hidden=64',
    )
    expect(dropped.small.document.mesh.expert).toBe(1)
    const named = shrink(
      'mesh: { pipeline: 16, data: 4, expert: 2 }\nlayout: { rules: [{ axis: embed, over: [data.expert] }] }',
      'moe:layers=16,hidden=64',
    )
    expect(named.small.layout).toBeNull()
    expect(named.hides).toContain('Rules of the layout do not fit')
  })

  it('any layout has one that is valid and keeps its axes where there is room', () => {
    const tensors = [
      1,
      2,
      3,
      4,
      6,
      12,
      '{ row: 2, column: 2 }',
      '{ row: 3, column: 3 }',
      '{ x: 2, y: 2, z: 2 }',
    ]
    fc.assert(
      fc.property(
        fc.record({
          data: fc.constantFrom(1, 2, 6),
          context: fc.constantFrom(1, 2, 3, 6),
          tensor: fc.constantFrom(...tensors),
          expert: fc.constantFrom(1, 2, 3, 6),
          expertTensor: fc.constantFrom(1, 2),
          layout: fc.constantFrom('ring', 'gather', 'ulysses', '{ zigzag: false }', '{ vocabulary: false }'),
          pipeline: fc.constantFrom(1, 2),
          kvHeads: fc.constantFrom(1, 6, 12, 36),
        }),
        ({ kvHeads, layout, pipeline, ...mesh }) => {
          const model = `moe:layers=2,hidden=288,heads=36,kvHeads=${kvHeads},headDim=8,mlp=144,expertMlp=12,experts=12,topk=2,context=144,vocab=1000`
          const axes = Object.entries(mesh).map((entry) => entry.join(': '))
          const text = `mesh: { pipeline: ${pipeline}, ${axes.join(', ')} }\nlayout: ${layout}\nbatch: { samples: 432, microbatches: 2 }`
          try {
            resolved(text, model)
          } catch (error) {
            if (error instanceof PlanError) return
            throw error
          }
          const { plan, small, hides } = shrink(text, model)
          expect(small.ranks.length).toBeLessThanOrEqual(16)
          if (hides.includes('is not exercised') || plan.layout === null) return
          const kinds = ({ layout: own }: ResolvedPlan): string[] => own!.axes.map(({ name }) => name)
          if (!hides.includes('other axes') && !hides.includes('share'))
            expect(kinds(small)).toEqual(kinds(plan))
        },
      ),
      { numRuns: 40 },
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
