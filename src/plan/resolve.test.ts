import { describe, expect, it } from 'vitest'
import { modelFromShortName } from '../models/index.ts'
import { printSchedule } from '../schedule/index.ts'
import {
  PlanError,
  type PlannedModel,
  parsePlan,
  type ResolvedPlan,
  resolveLearningRate,
  resolvePlan,
} from './index.ts'

function model(layers: number): PlannedModel {
  const own = modelFromShortName(`gpt:layers=${layers},hidden=16,heads=4,context=64`)
  return { ...own, name: 'tiny' }
}

function resolve(text: string, layers = 8, costs?: readonly number[]): ResolvedPlan {
  const blockCosts = costs?.map((flops) => ({ flops, bytes: 0 }))
  return resolvePlan(
    parsePlan(`meshwright: 1\n${text}`, { file: 'plan.yaml' }),
    model(layers),
    blockCosts === undefined ? {} : { blockCosts },
  )
}

function problems(text: string, layers = 8): string[] {
  try {
    resolve(text, layers)
  } catch (error) {
    if (!(error instanceof PlanError)) throw error
    expect(error.exitCode).toBe(2)
    return error.problems.map(
      ({ code, at, message, hint }) => `${code} ${at.line ?? '-'}:${at.column ?? '-'} ${message}; ${hint}`,
    )
  }
  throw new Error('not refused')
}

describe('resolvePlan', () => {
  it('numbers ranks stage by stage and splits micro-batches over unequal replicas', () => {
    const plan = resolve(
      'mesh: { pipeline: 2, data: [3, 1] }\nstages: [6, 2]\nbatch: { samples: 24, microbatches: 4 }\nsequence: 32',
    )
    expect(plan.stages).toEqual([
      {
        index: 0,
        actor: 0,
        firstBlock: 0,
        endBlock: 7,
        layers: 6,
        replicas: 3,
        ranks: [0, 1, 2],
        localSamples: 2,
      },
      {
        index: 1,
        actor: 1,
        firstBlock: 7,
        endBlock: 10,
        layers: 2,
        replicas: 1,
        ranks: [3],
        localSamples: 6,
      },
    ])
    expect(plan.ranks.map(({ rank, pipeline, data }) => [rank, pipeline, data])).toEqual([
      [0, 0, 0],
      [1, 0, 1],
      [2, 0, 2],
      [3, 1, 0],
    ])
    expect(plan.layout).toBeNull()
    expect(plan.stageOfBlock).toEqual([0, 0, 0, 0, 0, 0, 0, 1, 1, 1])
    expect(plan).toMatchObject({ samplesPerMicrobatch: 6, microbatches: 4, sequence: 32 })
    expect(plan.schedule.actors).toHaveLength(2)
  })

  it('one stage has everything; the sequence is the context unless given', () => {
    const plan = resolve('')
    expect(plan.stageOfBlock).toEqual(Array(10).fill(0))
    expect(plan.sequence).toBe(64)
  })

  it('cuts by cost, embedding and head counted; 30 layers on 4 stages are never 28', () => {
    const layersOf = (plan: ResolvedPlan): number[] => plan.stages.map(({ layers }) => layers)
    expect(layersOf(resolve('pp: 4', 30))).toEqual([8, 8, 7, 7])
    expect(layersOf(resolve('pp: 4', 30, [1, ...Array(30).fill(1), 2]))).toEqual([8, 8, 8, 6])
    expect(layersOf(resolve('mesh: {pipeline: 2, data: [3, 1]}\nbatch: {samples: 12}', 8))).toEqual([6, 2])
  })

  it('weighs bytes where a block has few flops', () => {
    const costs = Array.from({ length: 10 }, (_, block) =>
      block === 0 ? { flops: 0, bytes: 4e9 } : { flops: block === 9 ? 0 : 5e9, bytes: 0 },
    )
    const plan = resolvePlan(parsePlan('meshwright: 1\npp: 2'), model(8), { blockCosts: costs })
    // The embedding moves as much as four layers compute: 4 + 2 against 6.
    expect(plan.stages.map(({ layers }) => layers)).toEqual([2, 6])
  })

  it.each([
    [
      'batch: { samples: 16, microbatches: 5 }',
      'PLAN_BATCH 2:19 16 samples do not divide into 5 micro-batches; batch.samples 15 or 20, or batch.microbatches 4 or 8 would work',
    ],
    [
      'batch: { samples: 18, microbatches: 4 }\ndp: 3',
      'PLAN_BATCH 2:19 18 samples do not divide into 4 micro-batches; batch.samples 12 or 24, or batch.microbatches 3 or 6 would work',
    ],
    [
      'batch: { samples: 2, microbatches: 5 }\nmesh: { data: 2 }',
      'PLAN_BATCH 2:19 2 samples do not divide into 5 micro-batches; batch.samples 10, or batch.microbatches 1 would work',
    ],
    [
      'batch: { samples: 16, microbatches: 4 }\nmesh: { data: 3 }',
      'PLAN_BATCH 2:19 a micro-batch of 4 samples does not divide over the 3 replicas of each actor; batch.samples 12 or 24 would work',
    ],
    [
      'gbs: 16\nmesh: { pipeline: 3, data: [1, 2, 3] }',
      'PLAN_BATCH 2:6 a micro-batch of 4 samples does not divide over the 3 replicas of actor 2; batch.samples 24 would work',
    ],
    [
      'mesh: { pipeline: 9 }',
      'PLAN_STAGES 2:19 9 stages for the 8 layers of tiny; every stage needs a layer: mesh.pipeline is at most 8',
    ],
    [
      'stages: [3, 4]\npp: 2',
      'PLAN_STAGES 2:9 stages 3 + 4 make 7 layers, but tiny has 8; leave stages out to cut by modelled cost',
    ],
    [
      'stages: [3, 5]',
      'PLAN_STAGES 2:9 stages lists 2 stages, but mesh.pipeline is 1; give the layers of each stage',
    ],
    [
      'mesh: { pipeline: 2, data: [1, 2, 1] }',
      'PLAN_MESH 2:28 mesh.data lists 3 actors, but mesh.pipeline is 2; give one number for all actors, or one for each',
    ],
    [
      'mesh: { pipeline: 2, data: 40000 }',
      'PLAN_MESH 2:7 the plan needs 80000 ranks; at most 65536 are planned for',
    ],
    [
      'sequence: 65',
      'PLAN_SEQUENCE 2:11 sequences of 65 tokens do not fit tiny, whose context is 64; sequence is at most 64',
    ],
    [
      'schedule:\n  text: |\n    schedule 1\n    stages 1 on 0\n    microbatches 2\n    actor 0: 0F0 0F1 0B0 0B1',
      'PLAN_SCHEDULE 3:9 the schedule has 2 micro-batches, but batch.microbatches is 4; set batch.microbatches to 2, or write the schedule for 4',
    ],
    [
      'schedule: { text: "schedule 1\\nstages 2 on 0,0\\nmicrobatches 4\\nactor 0: 0F0" }\npp: 2',
      'PLAN_SCHEDULE 2:19 the schedule has 1 actors, but mesh.pipeline is 2; set mesh.pipeline to 1, or write the schedule for 2',
    ],
    [
      'schedule: { text: "schedule 1\\nstages 2 on 0,1\\nmicrobatches 4\\nactor 0: 0F0\\nactor 1: 1F0" }',
      'PLAN_SCHEDULE 2:19 the schedule has 2 actors, but mesh.pipeline is 1; set mesh.pipeline to 2, or write the schedule for 1',
    ],
    [
      'schedule: { text: "schedule 1\\nstages 1 on 0\\nmicrobatches 1\\nactor 0: 0F0.0 0F0.1 0B0.1 0B0.0" }\nbatch: {microbatches: 1}',
      'PLAN_SCHEDULE 2:19 0F0.0 names a slice, which a plan cannot run yet; write one action for each stage and micro-batch, as 0F1',
    ],
    [
      'schedule: { text: "schedule 1\\nstages 1 on 0\\nmicrobatches 4\\nactor 0: 0F0\\nactor 1:" }\npp: 2',
      'PLAN_SCHEDULE 2:19 the schedule places no stage on actor 1; give every actor a stage, or leave the actor out',
    ],
    [
      'schedule: { file: own.txt }',
      'PLAN_SCHEDULE 2:19 the schedule file own.txt was not read; give the schedule as text',
    ],
    [
      'schedule: { name: 1f1b, costs: { F: [1, 2], I: 1, W: 1 } }',
      'PLAN_SCHEDULE 2:32 F lists 2 stages of 1; give one time for each stage, or one for all',
    ],
    [
      'stages: [2, 6]\nmesh: { pipeline: 2 }\nschedule: { text: "schedule 1\\nstages 4 on 0,1,1,0\\nmicrobatches 4\\nactor 0:\\nactor 1:" }',
      'PLAN_STAGES 2:9 stages lists 2 stages, but the schedule has 4 (on 2 actors); give the layers of each stage',
    ],
    [
      'recompute: [0, 8]',
      'PLAN_RECOMPUTE 2:16 tiny has no layer 8; layers are numbered 0 to 7; blocks are embed, h.0 … head',
    ],
    ['recompute: [h.O]', 'PLAN_RECOMPUTE 2:13 tiny has no block "h.O"; did you mean "h.0"?'],
  ])('refuses %j', (text, problem) => {
    expect(problems(text)[0]).toBe(problem)
  })

  it('numbers ranks actor by actor where actors have several stages, at unlike replicas', () => {
    const actors = [0, 1].map((actor) => {
      const stages = [actor, 3 - actor]
      const actions = [0, 1].flatMap((microbatch) =>
        [...stages.map((stage) => `${stage}F`), ...stages.toReversed().map((stage) => `${stage}B`)].map(
          (action) => `${action}${microbatch}/0`,
        ),
      )
      return `actor ${actor}: ${actions.join(' ')}`
    })
    const text = `schedule 1\nstages 4 on 0,1,1,0\nmicrobatches 2\n${actors.join('\n')}\n`
    const plan = resolve(
      `mesh: { pipeline: 2, data: [1, 2] }\nbatch: { samples: 8, microbatches: 2 }\nschedule: { text: ${JSON.stringify(text)} }`,
    )
    expect(plan.ranks.map(({ rank, pipeline, data }) => [rank, pipeline, data])).toEqual([
      [0, 0, 0],
      [1, 1, 0],
      [2, 1, 1],
    ])
    expect(plan.stages.map(({ actor, ranks, localSamples }) => ({ actor, ranks, localSamples }))).toEqual(
      [0, 1, 1, 0].map((actor) =>
        actor === 0 ? { actor, ranks: [0], localSamples: 4 } : { actor, ranks: [1, 2], localSamples: 2 },
      ),
    )
    // Two ranks share what the stages of actor 1 do: they get twice the layers.
    expect(plan.stages.map(({ layers }) => layers)).toEqual([1, 3, 3, 1])
    expect(plan.stageOfBlock).toEqual([0, 0, 1, 1, 1, 2, 2, 2, 3, 3])
    expect(printSchedule(plan.schedule)).toBe(text)
  })

  it('recomputes attention, all layers, or layers and blocks by number and name', () => {
    const of = (text: string): unknown => resolve(text, 3).recompute
    expect(of('')).toEqual({ kind: 'none' })
    expect(of('recompute: attention')).toEqual({ kind: 'attention' })
    expect(of('recompute: full')).toEqual({ kind: 'full', blocks: new Set(['h.0', 'h.1', 'h.2']) })
    expect(of('recompute: [2, head, h.2]')).toEqual({ kind: 'full', blocks: new Set(['h.2', 'head']) })
  })

  it('reports everything at once', () => {
    expect(problems('mesh: {pipeline: 9, data: 3}\nsequence: 65')).toHaveLength(3)
  })

  it('draws what is wrong with a schedule in full', () => {
    const [problem] = problems(
      'schedule: { text: "schedule 1\\nstages 1 on 0\\nmicrobatches 2\\nactor 0: 0F0 0B1 0F1 0B0" }\nbatch: {samples: 4, microbatches: 2}',
    )
    expect(problem).toContain('0B1 at place 1 of actor 0 needs 0F1')
    expect(problem).toContain('>0B1<')
  })

  it('does not loop over hopeless replicas', () => {
    const primes = [65_521, 65_519, 65_497, 2]
    // Within the bound on ranks only in sum: three large primes are too many.
    expect(
      problems(`mesh: { pipeline: 4, data: [${primes}] }\nbatch: {samples: 2147483647}`).length,
    ).toBeGreaterThan(0)
    expect(problems('mesh: { pipeline: 3, data: [32749, 16381, 16369] }\nbatch: {samples: 7}')).toEqual([
      'PLAN_BATCH 3:18 7 samples do not divide into 4 micro-batches; choose replicas that have divisors in common',
    ])
  })
})

describe('resolveLearningRate', () => {
  it('decays over the steps of the run where the plan does not say', () => {
    const plan = parsePlan('meshwright: 1\nlr: 0.01')
    expect(resolveLearningRate(plan, 50)).toEqual({
      kind: 'cosine',
      peak: 0.01,
      warmupSteps: 0,
      totalSteps: 50,
      minimumFraction: 0.1,
    })
    const constant = parsePlan('meshwright: 1\nlearningRate: {kind: constant, peak: 0.1, warmupSteps: 3}')
    expect(resolveLearningRate(constant, 50)).toEqual({ kind: 'constant', peak: 0.1, warmupSteps: 3 })
  })

  it('refuses a warm-up as long as the run, at its place', () => {
    const plan = parsePlan('meshwright: 1\nlearningRate: {warmupSteps: 10}', { file: 'p.yaml' })
    expect(() => resolveLearningRate(plan, 10)).toThrow(
      expect.objectContaining({
        code: 'PLAN_INVALID',
        at: { file: 'p.yaml', line: 2, column: 29, path: 'learningRate.warmupSteps' },
      }),
    )
  })
})
