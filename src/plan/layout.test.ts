import { describe, expect, it } from 'vitest'
import { type Model, modelFromShortName } from '../models/index.ts'
import { PlanError, parsePlan, type ResolvedPlan, resolvePlan } from './index.ts'

// Twelve heads, four of keys and values; 24 tokens.
const llama = 'llama:layers=4,hidden=48,heads=12,kvHeads=4,headDim=4,mlp=72,context=24,vocab=250'
const moe =
  'moe:layers=4,hidden=48,heads=12,kvHeads=4,headDim=4,expertMlp=6,experts=8,topk=2,context=24,vocab=250'

function resolve(text: string, model = llama): ResolvedPlan {
  const named: Model = { ...modelFromShortName(model), name: 'tiny' }
  return resolvePlan(parsePlan(`meshwright: 1\n${text}`, { file: 'plan.yaml' }), named)
}

function problems(text: string, model = llama): string {
  try {
    resolve(text, model)
  } catch (error) {
    if (!(error instanceof PlanError)) throw error
    return error.problems
      .map(({ code, at, message, hint }) => `${code} ${at.path} ${message}; ${hint}`)
      .join('\n')
  }
  throw new Error('not refused')
}

function axes(text: string, model = llama): string {
  const { layout } = resolve(text, model)
  return layout!.axes.map(({ name, size }) => `${name}=${size}`).join(' ')
}

describe('the layout of a plan', () => {
  it('is null where every replica is one rank', () => {
    expect(resolve('mesh: { data: 2 }\nlayout: { tensor: optimus, sequence: true }').layout).toBeNull()
    expect(resolve('layout: { rules: [{ axis: mlp, over: [tensor] }] }').layout).toMatchObject({ axes: [] })
  })

  it('numbers ranks by data, context, tensor, and anew for experts', () => {
    const plan = resolve('mesh: { pipeline: 2, data: [2, 1], context: 2, tensor: 2 }\nlayout: gather')
    expect(plan.ranks).toHaveLength(12)
    expect(
      plan.ranks.map(({ pipeline, data, context, tensor }) => [pipeline, data, context, tensor].join('')),
    ).toEqual('0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1010 1011'.split(' '))
    expect(
      plan.stages.map(({ replicas, ranks, localSamples }) => [replicas, ranks.length, localSamples]),
    ).toEqual([
      [2, 8, 2],
      [1, 4, 4],
    ])
    const experts = resolve('mesh: { data: 2, tensor: 2, expert: 2, expertTensor: 2 }', moe)
    expect(
      experts.ranks.map(({ expertData, expert, expertTensor }) =>
        [expertData, expert, expertTensor].join(''),
      ),
    ).toEqual(['000', '001', '010', '011'])
  })

  it('splits tensor where there are fewer key-value heads, and context with ulysses', () => {
    expect(axes('tp: 4')).toBe('tensor=4')
    expect(axes('tp: 12')).toBe('tensor.kv=4 tensor.group=3')
    const { parts } = resolve('tp: 12').layout!.actors[0]!
    expect(parts).toMatchObject({
      tensor: ['tensor.kv', 'tensor.group'],
      'tensor.kv': ['tensor.kv'],
      'tensor.group': ['tensor.group'],
      context: [],
    })
    expect(resolve('tp: 4').layout!.actors[0]!.parts).toMatchObject({
      'tensor.kv': ['tensor'],
      'tensor.group': [],
    })
    expect(resolve('tp: 3', llama.replace('kvHeads=4', 'kvHeads=1')).layout!.actors[0]!.parts).toMatchObject({
      'tensor.kv': [],
      'tensor.group': ['tensor'],
    })
    // Two ranks along tensor leave 6 heads of 2 pairs of keys and values; 6 ranks along context have one of each pair three times.
    expect(axes('tp: 2\ncp: 6\nlayout: ulysses')).toBe('context.kv=2 context.group=3 tensor=2')
    expect(axes('tp: 2\ncp: 6')).toBe('context=6 tensor=2')
  })

  it('has rows and columns, or the edges of a cube', () => {
    const square = resolve('mesh: { tensor: { row: 2, column: 2 } }').layout!
    expect(square.axes.map(({ name }) => name)).toEqual(['tensor.row', 'tensor.column'])
    expect(square).toMatchObject({ sampleParts: 2, paddedVocabulary: 250, settings: { tensor: 'optimus' } })
    const cube = resolve('mesh: { tensor: { x: 2, y: 2, z: 2 } }').layout!
    expect(cube).toMatchObject({ sampleParts: 4, paddedVocabulary: 252, settings: { tensor: 'cube' } })
    expect(cube.actors[0]!.parts['tensor']).toEqual(['tensor.x', 'tensor.y', 'tensor.z'])
  })

  it('pads the vocabulary, which need not divide', () => {
    expect(resolve('tp: 4').layout!.paddedVocabulary).toBe(252)
    expect(resolve('tp: 4\nlayout: { vocabulary: false }').layout!.paddedVocabulary).toBe(250)
  })

  it('has zig-zag by default where a causal ring has', () => {
    const zigzag = (layout: string): boolean => resolve(`cp: 2\nlayout: ${layout}`).layout!.settings.zigzag
    expect(
      ['ring', '{ zigzag: false }', 'gather', '{ context: gather, zigzag: true }', 'ulysses'].map(zigzag),
    ).toEqual([true, false, false, true, false])
  })

  it('cuts experts over data where context and tensor have not ranks enough', () => {
    const { axes: own, actors } = resolve('mesh: { data: 4, expert: 2 }', moe).layout!
    expect(own).toEqual([])
    expect(actors[0]).toEqual({
      mesh: { axes: [{ name: 'data.expert', size: 2 }] },
      replicas: [{ name: 'data.expertData', size: 2 }],
      parts: {
        data: ['data.expertData', 'data.expert'],
        context: [],
        'tensor.kv': [],
        'tensor.group': [],
        tensor: [],
        expertData: ['data.expertData'],
        expert: ['data.expert'],
        expertTensor: [],
      },
    })
    expect(axes('mesh: { data: 2, tensor: 4, expert: 4, expertTensor: 2 }', moe)).toBe(
      'tensor.expert=2 tensor.expertTensor=2',
    )
  })

  it.each([
    ['tp: 5', 'PLAN_MESH tp the 12 heads of tiny do not divide by 5; mesh.tensor 4 or 12 would work'],
    [
      'tp: 3',
      'PLAN_MESH tp the 2 key-value heads of tiny neither divide by 3 nor divide it; mesh.tensor 2 or 4 would work',
      llama.replace('kvHeads=4', 'kvHeads=2'),
    ],
    [
      'tp: 4',
      'PLAN_MESH tp the 70 of mlp of tiny do not divide by 4; mesh.tensor 2 would work',
      llama.replace('mlp=72', 'mlp=70'),
    ],
    [
      'mesh: { tensor: { row: 2, column: 3 } }',
      'PLAN_MESH mesh.tensor optimus needs a square, but mesh.tensor is { row: 2, column: 3 }; mesh.tensor { row: 2, column: 2 } or { row: 3, column: 3 } would work',
    ],
    [
      'mesh: { tensor: { x: 2, y: 2, z: 1 } }',
      'PLAN_MESH mesh.tensor cube needs a cube, but mesh.tensor is { x: 2, y: 2, z: 1 }; mesh.tensor { x: 1, y: 1, z: 1 } or { x: 2, y: 2, z: 2 } would work',
    ],
    [
      'mesh: { tensor: { x: 2, y: 2, z: 2 } }',
      'the 50 of hidden of tiny do not divide by 4',
      llama.replace('hidden=48', 'hidden=50'),
    ],
    [
      'mesh: { tensor: { row: 2, column: 2 } }',
      'the 51 of hidden of tiny do not divide by 2',
      llama.replace('hidden=48', 'hidden=51'),
    ],
    [
      'mesh: { data: 4, tensor: { row: 2, column: 2 } }\nbatch: { samples: 16, microbatches: 4 }',
      'PLAN_BATCH batch.samples mesh.tensor cuts the samples of a micro-batch on a replica of each actor into 2 parts, but their number is 1; batch.samples 32, or batch.microbatches 2 would work',
    ],
    [
      'cp: 5',
      'PLAN_MESH cp sequences of 24 tokens do not divide into 10 equal runs: two for each of 5 along context; mesh.context 4 or 6 would work; or sequence 20 would work',
    ],
    [
      'cp: 5\nlayout: gather',
      'sequences of 24 tokens do not divide into 5 equal runs: 5 along context; mesh.context 4 or 6 would work; or sequence 20 would work',
    ],
    [
      'tp: 4\nsequence: 22\nlayout: { sequence: true }',
      'PLAN_MESH tp sequences of 22 tokens do not divide into 4 equal runs: 4 along tensor (layout.sequence); sequence 20 or 24 would work',
    ],
    [
      'tp: 4\ncp: 2\nsequence: 20\nlayout: { sequence: true }',
      'sequences of 20 tokens do not divide into 16 equal runs: two for each of 2 along context, 4 along tensor (layout.sequence); mesh.context 1 would work; or sequence 16 would work',
    ],
    [
      'tp: 2\ncp: 4\nlayout: ulysses',
      'PLAN_MESH cp the 6 heads of tiny on a rank along tensor do not divide by 4; mesh.context 3 or 6 would work',
      llama.replace('kvHeads=4', 'kvHeads=2'),
    ],
    [
      'cp: 3\nlayout: ulysses',
      'the 4 key-value heads of tiny neither divide by 3 nor divide it; mesh.context 2 or 4 would work',
    ],
    [
      'layout: optimus\ntp: 4',
      'PLAN_LAYOUT layout.tensor optimus needs a square: mesh.tensor is { row: q, column: q }; here it is 4; change mesh.tensor, or take megatron',
    ],
    [
      'mesh: { tensor: { row: 2, column: 2 } }\nlayout: { sequence: true }',
      'PLAN_LAYOUT layout.sequence optimus has no setting sequence; leave layout.sequence out',
    ],
    ['ep: 2\ndp: 2', 'PLAN_MESH ep tiny has no experts; leave mesh.expert out'],
    [
      'ep: 3\ndp: 3',
      'PLAN_MESH ep the 8 experts of tiny do not divide over 3 ranks; mesh.expert 2 or 4 would work',
      moe,
    ],
    [
      'etp: 4\ndp: 4',
      'the 6 of mlp of an expert of tiny do not divide over 4 ranks; mesh.expertTensor 3 or 6 would work',
      moe,
    ],
    [
      'ep: 4\ndp: 2\ntp: 3',
      'PLAN_MESH ep every actor has data 2 x context 1 x tensor 3 = 6 ranks, no multiple of expert 4 x expertTensor 1 = 4; mesh.expert 1 would work',
      moe.replace('kvHeads=4', 'kvHeads=12'),
    ],
    [
      'ep: 2\ndp: 2\ntp: 3\nmbs: 2',
      'data=2, context=1, tensor=3 and expertData=3, expert=2, expertTensor=1 do not nest: tensor=3 and expert=2 overlap, and neither ends where ranks of the other do; mesh.expert 1 would work',
      moe.replace('kvHeads=4', 'kvHeads=12'),
    ],
    [
      'sequence: 6',
      'PLAN_SEQUENCE sequence sequences of 6 tokens for the 8 experts of tiny: some would get none of any; sequence is at least 8',
      moe,
    ],
    [
      'dp: 4\nep: 2\nzero: { stage: 1, shards: 2 }',
      'PLAN_ZERO zero.shards experts are cut over 2 of the 4 replicas, and copies of 2 shards cut them another way',
      moe,
    ],
    ['dp: 40000\ntp: 2', 'the plan needs 80000 ranks'],
  ])('refuses %j', (text, problem, model = llama) => {
    expect(problems(text, model)).toContain(problem)
  })

  it('takes ZeRO over all replicas where experts are cut over some', () => {
    expect(resolve('dp: 4\nep: 2\nzero: 1', moe).zero).toMatchObject({ shards: 4, copies: 1 })
    expect(resolve('dp: 4\ntp: 2\nep: 2\nzero: { stage: 1, shards: 2 }', moe).zero).toMatchObject({
      copies: 2,
    })
  })
})

describe('rules of a layout', () => {
  const rule = (text: string): string => `tp: 4\ncp: 2\nlayout: { rules: [${text}] }`

  it('name mesh axes by the plan or by their parts, logical axes, and values', () => {
    const { settings } = resolve(
      rule(
        '{ match: "*.up_proj.weight", layout: "[. | tensor]", keep: true }, { axis: mlp, over: [context] }',
      ),
    ).layout!
    expect(settings.rules).toEqual([
      {
        match: '*.up_proj.weight',
        place: { kind: 'layout', layout: { dims: [[], ['tensor']], partial: {}, varying: [] } },
        keep: true,
      },
      { match: null, place: { kind: 'axis', axis: 'mlp', over: ['context'] }, keep: false },
    ])
    // Heads by themselves: 12 of 4 elements.
    resolve(rule('{ match: "*.q_proj.weight", layout: "[tensor | . | context]" }'))
    resolve(
      `tp: 12\nlayout: { rules: [{ axis: kvHeads, over: [tensor.kv] }, { axis: vocab, over: [tensor] }] }`,
    )
    resolve('dp: 4\nep: 2\nlayout: { rules: [{ axis: embed, over: [data.expert] }] }', moe)
  })

  it.each([
    [
      '{ axis: mlq, over: [tensor] }',
      'layout.rules.0.axis no dim of tiny is called "mlq"; did you mean "mlp"?',
    ],
    ['{ axis: experts, over: [tensor] }', 'its logical axes are embed, heads, kvHeads, mlp, sequence, vocab'],
    [
      '{ axis: mlp, over: [tensr] }',
      'layout.rules.0.over the mesh has no axis "tensr"; did you mean "tensor"?',
    ],
    [
      '{ match: x, layout: "[rows]" }',
      'layout.rules.0.layout the mesh has no axis "rows"; layouts may name context',
    ],
    ['{ axis: mlp, over: [data] }', 'data is no axis of layouts: what is cut over it is the samples'],
    ['{ match: x, layout: "[tensor | tensor]" }', 'tensor is used twice on one tensor'],
    ['{ match: x, layout: "[tensor] partial sum tensor.kv" }', 'tensor is used twice on one tensor'],
    [
      '{ axis: mlp, over: [tensor] }, { axis: embed, over: [tensor] }',
      'layout.rules.1.over with it, tensor cuts two dims of model.layers.0.mlp.gate_proj.weight',
    ],
    [
      '{ match: "*.up_proj.weight", layout: "[tensor]" }',
      'a layout of 1 dims does not fit model.layers.0.mlp.up_proj.weight, which has 2; write it as [mlp | embed]',
    ],
    ['{ match: "*.up_proj.weight", layout: "[. | .] partial sum tensor" }', 'ranks hold it, not terms of it'],
    [
      '{ axis: kvHeads, over: [tensor, context] }',
      'the 4 of kvHeads of model.layers.0.self_attn.k_proj.weight do not divide into 8 parts; 4 parts would work',
    ],
    [
      '{ axis: sequence, over: [tensor, context], match: x }',
      'layout.rules.0.over the 20 of sequence of a sample do not divide into 8 parts; 5 or 10 parts would work',
    ],
  ])('refuse %j', (text, problem) => {
    expect(problems(`sequence: 20\n${rule(text)}`)).toContain(`PLAN_LAYOUT`)
    expect(problems(`sequence: 20\n${rule(text)}`)).toContain(problem)
  })

  it('refuses chunks that nothing divides into', () => {
    const batch = 'batch: { samples: 4, microbatches: 4 }'
    expect(problems(`mesh: { tensor: 4 }\nlayout: { overlap: 5 }\n${batch}`)).toBe(
      'PLAN_LAYOUT layout.overlap the 24 tokens of a rank do not divide into 5 chunks; layout.overlap 4 or 6 would work',
    )
    // One sample, and six tokens of it on a rank.
    expect(problems(`mesh: { tensor: 4 }\nlayout: { overlap: 4, sequence: true }\n${batch}`)).toBe(
      'PLAN_LAYOUT layout.overlap neither 1 samples nor 6 tokens of a rank divide into 4 chunks; layout.overlap 3 or 6 would work',
    )
    expect(
      problems(
        'mesh: { tensor: { row: 2, column: 2 } }\nlayout: { overlap: 2 }\nbatch: { samples: 8, microbatches: 4 }',
      ),
    ).toContain('leave layout.overlap out')
    expect(
      resolve(`mesh: { tensor: 4 }\nlayout: { overlap: 3, sequence: true }\n${batch}`).layout,
    ).not.toBeNull()
    expect(resolve('layout: { overlap: 5 }').layout).toBeNull()
  })

  it('refuses experts over data where actors have unequal replicas', () => {
    const batch = 'batch: { samples: 16, microbatches: 4 }'
    expect(problems(`mesh: { pipeline: 2, data: [2, 4], expert: 2 }\n${batch}`, moe)).toBe(
      'PLAN_MESH mesh.data experts are cut over data, and actors have 2, 4 replicas; give every actor as many replicas, or cut experts over context and tensor alone',
    )
    expect(
      resolve(`mesh: { pipeline: 2, data: [2, 4], tensor: 2, expert: 2 }\n${batch}`, moe).layout,
    ).not.toBeNull()
  })
})
