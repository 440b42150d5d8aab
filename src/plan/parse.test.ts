import { describe, expect, it } from 'vitest'
import { problemsOf, shown } from '../../test/support/planProblems.ts'
import { optimizers } from '../optimizers/index.ts'
import { scheduleGenerators } from '../schedule/index.ts'
import { type PlanDocument, parsePlan } from './index.ts'

const schedules = [...scheduleGenerators.keys()]
const scheduleKeys = new Set([
  ...['text', 'file'],
  ...[...scheduleGenerators.values()].flatMap(({ parameters }) => [
    'name',
    ...Object.keys(parameters),
    'costs',
  ]),
])

const oneRank = { context: 1, tensor: 1, expert: 1, expertTensor: 1 }
const defaultLayout = {
  tensor: null,
  sequence: false,
  vocabulary: true,
  context: 'ring',
  zigzag: null,
  gathered: false,
  overlap: 1,
  rules: [],
}

const plan = (text: string): PlanDocument => parsePlan(`meshwright: 1\n${text}`)

describe('parsePlan', () => {
  it('fills in defaults', () => {
    expect(plan('')).toEqual({
      meshwright: 1,
      model: null,
      data: { file: null, tokenizer: null },
      mesh: { ...oneRank, pipeline: 1, data: 1 },
      layout: defaultLayout,
      stages: null,
      schedule: { name: '1f1b', parameters: { warmup: 'a', maxInFlight: null }, costs: null },
      batch: { samples: 16, microbatches: 4 },
      sequence: null,
      dtype: 'f32',
      zero: {
        stage: 0,
        shards: null,
        replicas: 'plain',
        gather: null,
        reduce: null,
        prefetch: true,
        keepLast: false,
      },
      recompute: 'none',
      optimizer: {
        name: 'adamw',
        settings: Object.fromEntries(
          optimizers.find(({ name }) => name === 'adamw')!.settings.map((info) => [info.name, info.default]),
        ),
      },
      learningRate: {
        kind: 'cosine',
        settings: { peak: 0.001, warmupSteps: 0, totalSteps: null, minimumFraction: 0.1 },
      },
      clip: 1,
      reduction: { bucketBytes: 4_194_304 },
      memory: { deviceBytes: null },
      seed: 0,
    })
  })

  it('reads every key', () => {
    const text = `
# yaml-language-server: $schema=plan.schema.json
meshwright: 1
model: { name: "gpt:layers=4,hidden=128", weights: model.safetensors }
data: { file: text.txt, tokenizer: tokenizer.json }
mesh: { pipeline: 2, data: [3, 1], context: 3, tensor: 2, expert: 4, expertTensor: 5 }
layout:
  { tensor: megatron, sequence: true, vocabulary: false, context: ulysses, zigzag: false, gathered: true, overlap: 4,
    rules: [{ match: h.*, layout: '[tensor | .]', keep: true }, { axis: mlp, over: [tensor, context] }] }
stages: [3, 1]
schedule: { name: 1f1b, warmup: b, maxInFlight: 3 }
batch: { samples: 24, microbatches: 4 }
sequence: 64
dtype: f64
zero: { stage: 3, shards: 2, replicas: sharded, gather: unit, reduce: action, prefetch: false, keepLast: true }
recompute: [2, head]
optimizer: { name: sgd, momentum: 0.5, nesterov: true, weightDecay: 0.01 }
learningRate: { kind: linear, peak: 0.1, warmupSteps: 10, totalSteps: 100, minimumFraction: 0 }
clip: null
reduction: { bucketBytes: 1 MiB }
memory: { deviceBytes: 1.5GB }
seed: 4294967295
`
    expect(parsePlan(text)).toEqual({
      meshwright: 1,
      model: { name: 'gpt:layers=4,hidden=128', weights: 'model.safetensors' },
      data: { file: 'text.txt', tokenizer: 'tokenizer.json' },
      mesh: { pipeline: 2, data: [3, 1], context: 3, tensor: 2, expert: 4, expertTensor: 5 },
      layout: {
        tensor: 'megatron',
        sequence: true,
        vocabulary: false,
        context: 'ulysses',
        zigzag: false,
        gathered: true,
        overlap: 4,
        rules: [
          { match: 'h.*', axis: null, layout: '[tensor | .]', over: null, keep: true },
          { match: null, axis: 'mlp', layout: null, over: ['tensor', 'context'], keep: false },
        ],
      },
      stages: [3, 1],
      schedule: { name: '1f1b', parameters: { warmup: 'b', maxInFlight: 3 }, costs: null },
      batch: { samples: 24, microbatches: 4 },
      sequence: 64,
      dtype: 'f64',
      zero: {
        stage: 3,
        shards: 2,
        replicas: 'sharded',
        gather: 'unit',
        reduce: 'action',
        prefetch: false,
        keepLast: true,
      },
      recompute: [2, 'head'],
      optimizer: { name: 'sgd', settings: { momentum: 0.5, nesterov: true, weightDecay: 0.01 } },
      learningRate: {
        kind: 'linear',
        settings: { peak: 0.1, warmupSteps: 10, totalSteps: 100, minimumFraction: 0 },
      },
      clip: null,
      reduction: { bucketBytes: 2 ** 20 },
      memory: { deviceBytes: 1.5e9 },
      seed: 4_294_967_295,
    })
  })

  it('reads short forms', () => {
    expect(plan('model: gpt:layers=4,hidden=128').model).toEqual({
      name: 'gpt:layers=4,hidden=128',
      weights: null,
    })
    expect(plan('model: { config: a/config.json }').model).toEqual({
      config: 'a/config.json',
      weights: null,
    })
    expect(plan('data: text.txt').data).toEqual({ file: 'text.txt', tokenizer: null })
    expect(plan('schedule: gpipe').schedule).toEqual({ name: 'gpipe', parameters: {}, costs: null })
    expect(plan('schedule: { file: own.txt }').schedule).toEqual({ file: 'own.txt' })
    expect(plan('schedule: { costs: { F: 1, I: [1, 2], W: 0.5 } }').schedule).toMatchObject({
      name: '1f1b',
      costs: { F: 1, I: [1, 2], W: 0.5, hop: 0 },
    })
    expect(plan('schedule: { warmup: b }').schedule).toMatchObject({ name: '1f1b' })
    expect(plan('layout: ulysses').layout).toEqual({ ...defaultLayout, context: 'ulysses' })
    expect(plan('layout: [gather, optimus]').layout).toEqual({
      ...defaultLayout,
      tensor: 'optimus',
      context: 'gather',
    })
    expect(plan('optimizer: sgd').optimizer.settings).toMatchObject({ momentum: 0.9 })
    expect(plan('learningRate: 0.02').learningRate).toMatchObject({
      kind: 'cosine',
      settings: { peak: 0.02 },
    })
    expect(plan('memory: { deviceBytes: 1000 }').memory.deviceBytes).toBe(1000)
  })

  it('reads JSON', () => {
    const json = JSON.stringify({ $schema: 'x', meshwright: 1, mesh: { pipeline: 3 } }, null, 2)
    expect(parsePlan(json).mesh).toEqual({ ...oneRank, pipeline: 3, data: 1 })
    expect(shown('{"meshwright": 1,\n "mesh": {"pipelines": 3}}')).toEqual([
      'PLAN_UNKNOWN_KEY 2:11 mesh.pipelines: unknown key "pipelines"; did you mean "pipeline"?',
    ])
  })

  it('takes the short names people know', () => {
    expect(plan('pp: 2\ndp: 3\ngbs: 24\nlr: 0.5')).toMatchObject({
      mesh: { pipeline: 2, data: 3 },
      batch: { samples: 24, microbatches: 4 },
      learningRate: { kind: 'cosine', settings: { peak: 0.5 } },
    })
    expect(plan('mesh: { pp: 2, dp: [1, 2] }\nlearningRate: { lr: 0.5, kind: constant }')).toMatchObject({
      mesh: { pipeline: 2, data: [1, 2] },
      learningRate: { kind: 'constant', settings: { peak: 0.5 } },
    })
    expect(plan('tp: 2\ncp: 3\nmesh: { ep: 4, etp: 5 }').mesh).toMatchObject({
      tensor: 2,
      context: 3,
      expert: 4,
      expertTensor: 5,
    })
    // 48 samples, 2 on each of 3 replicas: 8 micro-batches.
    expect(plan('mesh: { data: 3 }\ngbs: 48\nmbs: 2').batch).toEqual({ samples: 48, microbatches: 8 })
  })

  it('says what is wrong with a layout', () => {
    const wrong = (layout: string): string => shown(`meshwright: 1\n${layout}`).join('\n')
    expect(wrong('layout: [ring, gather]')).toBe(
      'PLAN_LAYOUT 2:16 layout.1: ring and gather say the same thing in two ways; at most one of megatron, optimus, cube and one of ring, gather, ulysses',
    )
    expect(wrong('layout: megatorn')).toContain('did you mean "megatron"?')
    expect(wrong('layout: { rules: [{ match: a, layout: "[tensor | " }] }')).toContain(
      'PLAN_LAYOUT 2:39 layout.rules.0.layout: column 11 of the layout:',
    )
    expect(wrong('layout: { rules: [{ match: a, layout: "[.]", over: [tensor] }] }')).toBe(
      'PLAN_LAYOUT 2:19 layout.rules.0: a rule of match, layout, over does not say what lies where; give match and layout, or axis and over',
    )
    for (const rule of ['{ match: a }', '{ axis: mlp }', '{ layout: "[.]" }', '{ keep: true }'])
      expect(wrong(`layout: { rules: [${rule}] }`)).toContain('does not say what lies where')
    expect(wrong('mesh: { tensor: { row: 2 } }')).toContain('PLAN_MISSING')
    expect(wrong('mesh: { tensor: 0 }')).toContain('PLAN_VALUE')
  })

  it('places a problem where the short name was typed', () => {
    expect(shown('meshwright: 1\npp: 0')).toEqual([
      'PLAN_VALUE 2:5 pp: expected a whole number from 1 to 4096, got 0',
    ])
    expect(shown('meshwright: 1\nmesh: { pipeline: 1 }\npp: 2')).toEqual([
      'PLAN_DUPLICATE_KEY 3:1 pp: mesh.pipeline is given twice; pp is short for it',
    ])
    expect(shown('meshwright: 1\nbatch: { samples: 48 }\nmbs: 5\ndp: 3')).toEqual([
      'PLAN_VALUE 3:6 mbs: 48 samples are no whole number of micro-batches of 5 on 3 replicas; batch.samples is a multiple of 15',
    ])
    expect(shown('meshwright: 1\nbatch: { mbs: 4, microbatches: 2 }')).toEqual([
      'PLAN_VALUE 2:15 batch.mbs: batch.microbatches is given beside mbs; mbs decides it: leave one of them out',
    ])
    expect(shown('meshwright: 1\nmesh: {data: [1, 2]}\nmbs: 4')[0]).toContain('mbs does not say enough')
    expect(shown('meshwright: 1\nmbs: -4')[0]).toContain('expected a whole number from 1, got -4')
    expect(shown('meshwright: 1\nmesh: 3\npp: 4')).toEqual([
      'PLAN_VALUE 2:7 mesh: expected a mapping (pipeline, data, context, tensor, expert, expertTensor), got 3',
    ])
  })

  it.each([
    [
      'mesh:\n  pipline: 2',
      'PLAN_UNKNOWN_KEY 3:3 mesh.pipline: unknown key "pipline"; did you mean "pipeline"?',
    ],
    ['sched: gpipe', 'PLAN_UNKNOWN_KEY 2:1 sched: unknown key "sched"; did you mean "seed"?'],
    [
      'schedule: 1F1B',
      `PLAN_VALUE 2:11 schedule: expected one of ${schedules.join(', ')}, or a mapping (${[...scheduleKeys].join(', ')}), got "1F1B"; did you mean "1f1b"?`,
    ],
    [
      'schedule: { name: zigzag, warmup: b }',
      `PLAN_VALUE 2:19 schedule.name: expected one of ${schedules.join(', ')}, got "zigzag"`,
    ],
    [
      'schedule: { warmpu: b }',
      'PLAN_UNKNOWN_KEY 2:13 schedule.warmpu: unknown key "warmpu"; did you mean "warmup"?',
    ],
    ['schedule: { warmup: c }', 'PLAN_VALUE 2:21 schedule.warmup: expected one of a, b, got "c"'],
    ['schedule: { file: 3 }', 'PLAN_VALUE 2:19 schedule.file: expected text, got 3'],
    [
      'schedule: { file: own.txt, name: gpipe }',
      'PLAN_UNKNOWN_KEY 2:28 schedule.name: unknown key "name"; it does not go with the others',
    ],
    [
      'schedule: { name: gpipe, warmup: b }',
      'PLAN_UNKNOWN_KEY 2:26 schedule.warmup: unknown key "warmup"; keys are name, costs',
    ],
    [
      'schedule: { costs: { F: 1, I: -1, W: 1 } }',
      'PLAN_VALUE 2:31 schedule.costs.I: expected a time, zero or more, or a list of them by stage, got -1',
    ],
    [
      'schedule: { text: "schedule 1\\nstages 1 on 0\\nmicrobatches 4\\nactor 0: 0f0" }',
      'PLAN_SCHEDULE 2:19 schedule.text: line 4, column 11 of the schedule: no phase "f"; did you mean "F"?',
    ],
    [
      'optimizer: { name: adam }',
      'PLAN_VALUE 2:20 optimizer.name: expected one of adamw, sgd, got "adam"; did you mean "adamw"?',
    ],
    [
      'optimizer: { beta1: 1 }',
      'PLAN_VALUE 2:21 optimizer.beta1: expected a number at least 0 and below 1, got 1',
    ],
    [
      'optimizer: { name: sgd, momentum: 0, nesterov: true }',
      'PLAN_VALUE 2:48 optimizer.nesterov: nesterov of sgd needs a momentum above 0; give a momentum, or leave nesterov out',
    ],
    [
      'learningRate: -1',
      'PLAN_VALUE 2:15 learningRate: expected a number above 0, or a mapping (kind, peak, warmupSteps, totalSteps, minimumFraction), got -1',
    ],
    ['mesh: { data: [1, 0] }', 'PLAN_VALUE 2:19 mesh.data.1: expected a whole number from 1 to 65536, got 0'],
    [
      'mesh: { data: many }',
      'PLAN_VALUE 2:15 mesh.data: expected a whole number from 1 to 65536, or a list, each a whole number from 1 to 65536, got "many"',
    ],
    [
      'stages: []',
      'PLAN_VALUE 2:9 stages: expected a list, each a whole number from 1 to 1000000, or null, got a list of 0',
    ],
    [
      'stages: 4',
      'PLAN_VALUE 2:9 stages: expected a list, each a whole number from 1 to 1000000, or null, got 4',
    ],
    ['seed: .nan', 'PLAN_VALUE 2:7 seed: expected a whole number from 0 to 4294967295, got NaN'],
    ['seed: 1e30', 'PLAN_VALUE 2:7 seed: expected a whole number from 0 to 4294967295, got 1e+30'],
    ['seed: -1', 'PLAN_VALUE 2:7 seed: expected a whole number from 0 to 4294967295, got -1'],
    ['seed: "7"', 'PLAN_VALUE 2:7 seed: expected a whole number from 0 to 4294967295, got "7"'],
    ['seed:', 'PLAN_VALUE 2:6 seed: expected a whole number from 0 to 4294967295, got null'],
    ['clip: .inf', 'PLAN_VALUE 2:7 clip: expected a number above 0, or null, got Infinity'],
    ['dtype: f16', 'PLAN_VALUE 2:8 dtype: expected one of f32, f64, got "f16"; did you mean "f32"?'],
    [
      'memory: { deviceBytes: 3 parsecs }',
      'PLAN_VALUE 2:24 memory.deviceBytes: expected a number of bytes or a size such as 4MiB, or null, got "3 parsecs"',
    ],
    [
      'memory: { deviceBytes: 0.3B }',
      'PLAN_VALUE 2:24 memory.deviceBytes: expected a whole number of bytes from 1 to 9007199254740991, got "0.3B"',
    ],
    ['model: { nam: x }', 'PLAN_MISSING 2:8 model.name: missing: expected text'],
    [
      'model: ""',
      'PLAN_VALUE 2:8 model: expected text, or a mapping (name, weights, config), or null, got ""',
    ],
    [
      '__proto__: { polluted: 1 }',
      'PLAN_UNKNOWN_KEY 2:1 __proto__: unknown key "__proto__"; keys are meshwright, model, data, mesh, layout, stages, schedule, batch, sequence, dtype, zero, recompute, optimizer, learningRate, clip, reduction, memory, seed',
    ],
  ])('refuses %s', (text, problem) => {
    expect(shown(`meshwright: 1\n${text}`)[0]).toBe(problem)
  })

  it('wants its version', () => {
    expect(shown('mesh: {}')).toEqual([
      'PLAN_MISSING 1:1 meshwright: missing: expected 1; a plan starts with "meshwright: 1"',
    ])
    expect(shown('meshwright: 2')).toEqual(['PLAN_VALUE 1:13 meshwright: expected 1, got 2'])
    for (const empty of ['', '\n# nothing\n', '~'])
      expect(problemsOf(empty)[0]!.message).toBe('the plan is empty')
    expect(shown('- 1\n- 2')).toEqual([
      'PLAN_VALUE 1:1 : expected a mapping, got a list of 2; a plan starts with "meshwright: 1"',
    ])
    expect(problemsOf('just text')[0]!.message).toBe('expected a mapping, got "just text"')
  })
})
