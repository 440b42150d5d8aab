import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type PlanDocument, PlanError, type PlanProblem, parsePlan, printPlan, setPlan } from './index.ts'

const base = parsePlan('meshwright: 1\nmodel: gpt2\nschedule: {warmup: b}\noptimizer: {beta2: 0.99}\nlr: 0.1')

function problemsOf(...overrides: string[]): readonly PlanProblem[] {
  try {
    setPlan(base, overrides)
  } catch (error) {
    if (!(error instanceof PlanError)) throw error
    return error.problems
  }
  throw new Error('not refused')
}

describe('setPlan', () => {
  it('replaces values, the later the stronger, and leaves the plan it was given', () => {
    const before = structuredClone(base)
    const set = setPlan(base, ['mesh.pipeline=2', 'mesh.pipeline=3', 'mesh.data=[1, 2, 1]', 'mesh.data.0=4'])
    expect(set.mesh).toMatchObject({ pipeline: 3, data: [4, 2, 1] })
    expect(setPlan(set, ['mesh.data.0=1']).mesh.data).toEqual([1, 2, 1])
    expect(set.mesh.data).toEqual([4, 2, 1])
    expect(base).toEqual(before)
    expect(setPlan(base, [])).toBe(base)
  })

  it('takes short names, null, text and mappings', () => {
    expect(setPlan(base, ['pp=2', 'dp=2', 'gbs=32', 'lr=1e-2', 'clip=null'])).toMatchObject({
      mesh: { pipeline: 2, data: 2 },
      batch: { samples: 32, microbatches: 4 },
      learningRate: { settings: { peak: 0.01 } },
      clip: null,
    })
    expect(setPlan(base, ['mbs=2']).batch).toEqual({ samples: 16, microbatches: 8 })
    expect(setPlan(base, ['model=gpt:layers=4,hidden=64']).model).toEqual({
      name: 'gpt:layers=4,hidden=64',
      weights: null,
    })
    expect(setPlan(base, ['schedule={name: 1f1b, maxInFlight: 2}']).schedule).toEqual({
      name: '1f1b',
      parameters: { warmup: 'a', maxInFlight: 2 },
      costs: null,
    })
    expect(setPlan(base, ['memory.deviceBytes=2GiB', 'data.file=a=b.txt'])).toMatchObject({
      memory: { deviceBytes: 2 ** 31 },
      data: { file: 'a=b.txt' },
    })
    expect(setPlan(base, ['model.weights=w']).model).toEqual({ name: 'gpt2', weights: 'w' })
    expect(setPlan(base, ['model.config=c.json']).model).toEqual({ config: 'c.json', weights: null })
  })

  it('sets axes of the mesh and the layout, in whole and in part', () => {
    expect(setPlan(base, ['tp=2', 'cp=3', 'ep=4', 'etp=5']).mesh).toEqual({
      ...base.mesh,
      tensor: 2,
      context: 3,
      expert: 4,
      expertTensor: 5,
    })
    const square = setPlan(base, ['mesh.tensor.row=2', 'mesh.tensor.column=2'])
    expect(square.mesh.tensor).toEqual({ row: 2, column: 2 })
    expect(setPlan(square, ['mesh.tensor.row=3']).mesh.tensor).toEqual({ row: 3, column: 2 })
    expect(setPlan(square, ['mesh.tensor=2']).mesh.tensor).toBe(2)
    expect(setPlan(base, ['mesh.tensor=2']).mesh.tensor).toBe(2)
    const set = setPlan(base, [
      'layout=[cube, ulysses]',
      'layout.overlap=2',
      'layout.rules=[{axis: mlp, over: []}]',
    ])
    expect(set.layout).toMatchObject({ tensor: 'cube', context: 'ulysses', overlap: 2, sequence: false })
    expect(setPlan(set, ['layout.rules.0.over=[tensor]']).layout.rules[0]).toMatchObject({ over: ['tensor'] })
    expect(setPlan(set, ['layout=null']).layout).toEqual(base.layout)
    expect(problemsOf('mesh.tensor.row=2')[0]).toMatchObject({ code: 'PLAN_MISSING' })
  })

  it('another kind starts from its own defaults, keeping what was chosen', () => {
    const sgd = setPlan(setPlan(base, ['optimizer.weightDecay=0.5']), ['optimizer.name=sgd'])
    expect(sgd.optimizer).toEqual({
      name: 'sgd',
      settings: { momentum: 0.9, nesterov: false, weightDecay: 0.5 },
    })
    expect(setPlan(base, ['optimizer.name=sgd']).optimizer.settings['weightDecay']).toBe(0)
    expect(setPlan(base, ['optimizer.name=adamw'])).toEqual(base)
    expect(setPlan(base, ['schedule.name=gpipe']).schedule).toEqual({
      name: 'gpipe',
      parameters: {},
      costs: null,
    })
    expect(setPlan(base, ['learningRate.kind=constant']).learningRate).toEqual({
      kind: 'constant',
      settings: { peak: 0.1, warmupSteps: 0 },
    })
    const text = 'schedule 1\nstages 1 on 0\nmicrobatches 4\nactor 0:\n'
    const inFull = setPlan(base, [`schedule.text=${JSON.stringify(text)}`])
    expect(inFull.schedule).toEqual({ text })
    expect(setPlan(inFull, ['schedule.file=own.txt']).schedule).toEqual({ file: 'own.txt' })
    expect(setPlan(inFull, ['schedule.name=gpipe']).schedule).toEqual({
      name: 'gpipe',
      parameters: {},
      costs: null,
    })
  })

  it.each([
    ['mesh.pipline=2', 'PLAN_UNKNOWN_KEY', 'unknown key "pipline"', 'did you mean "pipeline"?'],
    ['mesh.pipeline=0', 'PLAN_VALUE', 'expected a whole number from 1 to 4096, got 0', undefined],
    ['pp=two', 'PLAN_VALUE', 'expected a whole number from 1 to 4096, got "two"', undefined],
    ['optimizer.name=adam', 'PLAN_VALUE', 'expected one of adamw, sgd, got "adam"', 'did you mean "adamw"?'],
    ['clip', 'PLAN_SET', 'this sets nothing', 'write path=value, as in mesh.pipeline=2'],
    ['=3', 'PLAN_SET', 'this sets nothing', 'write path=value, as in mesh.pipeline=2'],
    ['a..b=3', 'PLAN_SET', 'this sets nothing', 'write path=value, as in mesh.pipeline=2'],
    ['clip.deep=1', 'PLAN_SET', 'clip has nothing inside', 'set it as a whole: clip=...'],
    ['stages.0=1', 'PLAN_SET', 'stages is not set', 'give the whole list: stages=[...]'],
    ['mesh.data=&a [*a]', 'PLAN_SET', 'aliases have no place here', 'write the value out'],
    ['__proto__.x=1', 'PLAN_UNKNOWN_KEY', 'unknown key "__proto__"', undefined],
  ])('refuses %s', (override, code, message, hint) => {
    const [problem] = problemsOf(override)
    expect(problem).toMatchObject({ code, message, at: { file: `--set ${override}` } })
    if (hint !== undefined) expect(problem!.hint).toBe(hint)
  })

  it('refuses values that are no YAML, elements that are not there, and very long text', () => {
    expect(problemsOf('clip=[1')[0]!.code).toBe('PLAN_SET')
    expect(problemsOf('stages=[1, 2]', 'stages.2=1')[0]).toMatchObject({
      message: 'stages has 2 elements, numbered from 0',
      hint: 'give a number from 0 to 1, or the whole list',
    })
    expect(problemsOf(`model=${'x'.repeat(70_000)}`)[0]!.message).toBe('the value is too long')
    expect(({} as Record<string, unknown>)['x']).toBeUndefined()
  })
})

const documents: fc.Arbitrary<PlanDocument> = fc
  .record({
    model: fc.option(
      fc.record({
        name: fc.string({ minLength: 1, maxLength: 12 }),
        weights: fc.option(fc.string({ minLength: 1 })),
      }),
    ),
    file: fc.option(fc.string({ minLength: 1, maxLength: 12, unit: 'grapheme' })),
    pipeline: fc.integer({ min: 1, max: 9 }),
    data: fc.oneof(
      fc.integer({ min: 1, max: 9 }),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
    ),
    mesh: fc.record({
      context: fc.integer({ min: 1, max: 3 }),
      tensor: fc.constantFrom<PlanDocument['mesh']['tensor']>(
        1,
        4,
        { row: 2, column: 3 },
        { x: 1, y: 2, z: 1 },
      ),
      expert: fc.integer({ min: 1, max: 3 }),
      expertTensor: fc.integer({ min: 1, max: 2 }),
    }),
    layout: fc.record<PlanDocument['layout']>({
      tensor: fc.constantFrom(null, 'megatron', 'cube'),
      sequence: fc.boolean(),
      vocabulary: fc.boolean(),
      context: fc.constantFrom('ring', 'ulysses'),
      zigzag: fc.option(fc.boolean()),
      gathered: fc.boolean(),
      overlap: fc.integer({ min: 1, max: 8 }),
      rules: fc.array(
        fc.constantFrom<PlanDocument['layout']['rules'][number]>(
          { match: '*.up: #', axis: null, layout: '[a, b | .] partial sum c', over: null, keep: true },
          { match: null, axis: 'mlp', layout: null, over: ['tensor', 'context'], keep: false },
          { match: 'x', axis: 'vocab', layout: null, over: [], keep: false },
        ),
        { maxLength: 3 },
      ),
    }),
    stages: fc.option(fc.array(fc.integer({ min: 1, max: 99 }), { minLength: 1 })),
    schedule: fc.constantFrom<PlanDocument['schedule']>(
      { name: 'gpipe', parameters: {}, costs: null },
      {
        name: '1f1b',
        parameters: { warmup: 'b', maxInFlight: null },
        costs: { F: [1, 2], I: 0, W: 0.5, hop: 1e-3 },
      },
      { name: '1f1b', parameters: { warmup: 'a', maxInFlight: 7 }, costs: null },
      { file: 'a b/c.txt' },
      { text: 'schedule 1\nstages 1 on 0\nmicrobatches 1\nactor 0: 0F0 # x: "y"\n' },
      { text: '\n schedule 1\r\n\nstages 1 on 0\nmicrobatches 1\nactor 0: 0F0' },
    ),
    samples: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
    sequence: fc.option(fc.integer({ min: 1, max: 4096 })),
    dtype: fc.constantFrom('f32', 'f64'),
    recompute: fc.constantFrom<PlanDocument['recompute']>('none', 'attention', 'full', [0, 'h.1', 7]),
    optimizer: fc.constantFrom('adamw', 'sgd'),
    number: fc.double({ min: 0, minExcluded: true, max: 0.99, noNaN: true }),
    kind: fc.constantFrom('constant', 'linear', 'cosine'),
    clip: fc.option(fc.double({ min: 1e-300, max: 1e300, noNaN: true })),
    bytes: fc.integer({ min: 1, max: 2 ** 45 }),
    budget: fc.option(fc.integer({ min: 1, max: 64 }).map((count) => count * 2 ** 30)),
    seed: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  })
  .map((draw) => {
    const filled = parsePlan(
      `meshwright: 1\noptimizer: ${draw.optimizer}\nlearningRate: {kind: ${draw.kind}, peak: ${draw.number}}`,
    )
    return {
      ...filled,
      model: draw.model,
      data: { file: draw.file, tokenizer: null },
      mesh: { ...draw.mesh, pipeline: draw.pipeline, data: draw.data },
      layout: draw.layout,
      stages: draw.stages,
      schedule: draw.schedule,
      batch: { samples: draw.samples, microbatches: 4 },
      sequence: draw.sequence,
      dtype: draw.dtype,
      recompute: draw.recompute,
      clip: draw.clip,
      reduction: { bucketBytes: draw.bytes },
      memory: { deviceBytes: draw.budget },
      seed: draw.seed,
    }
  })

describe('printPlan', () => {
  it('is canonical and easy to read', () => {
    expect(printPlan(setPlan(base, ['mesh.data=[3, 1]', 'pp=2', 'memory.deviceBytes=2GiB']))).toBe(
      `meshwright: 1
model: gpt2
mesh: { pipeline: 2, data: [ 3, 1 ] }
schedule: { name: 1f1b, warmup: b }
batch: { samples: 16, microbatches: 4 }
dtype: f32
optimizer: { name: adamw, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1 }
learningRate: { kind: cosine, peak: 0.1, warmupSteps: 0, minimumFraction: 0.1 }
clip: 1
reduction: { bucketBytes: 4MiB }
memory: { deviceBytes: 2GiB }
seed: 0
`,
    )
  })

  it('parse after print gives the plan back', () => {
    fc.assert(
      fc.property(documents, (plan) => {
        expect(parsePlan(printPlan(plan))).toEqual(plan)
      }),
      { numRuns: 200 },
    )
  })
})
