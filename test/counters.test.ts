import { describe, expect, test } from 'vitest'
import { createLocalEngine } from '../src/engine/index.ts'
import type { RankCounters, StepResult } from '../src/engine/types.ts'
import { type Program, readInstructions, rolesByRank } from '../src/program/index.ts'
import { mostLive } from './support/liveValues.ts'
import {
  compilePlan,
  programOf,
  randomBatches,
  runOn,
  runSteps,
  type StepRecord,
} from './support/trainingCase.ts'

const hidden = 16
const sequence = 8
const model = {
  gpt: `gpt:layers=4,hidden=${hidden},heads=2,context=${sequence},vocab=32`,
  'gpt untied': `gpt:layers=4,hidden=${hidden},heads=2,context=${sequence},vocab=32,tied=false`,
  llama: `llama:layers=4,hidden=${hidden},heads=4,kvHeads=2,context=${sequence},vocab=32`,
}

interface Counted {
  readonly model: keyof typeof model
  readonly replicas: readonly number[]
  readonly microbatches: number
  readonly samplesPerMicrobatch: number
  readonly dtype: 'f32' | 'f64'
}

const cases: readonly Counted[] = [
  { model: 'gpt', replicas: [1], microbatches: 2, samplesPerMicrobatch: 1, dtype: 'f32' },
  { model: 'llama', replicas: [1, 1], microbatches: 5, samplesPerMicrobatch: 2, dtype: 'f64' },
  { model: 'gpt', replicas: [1, 1, 1, 1], microbatches: 3, samplesPerMicrobatch: 1, dtype: 'f32' },
  { model: 'gpt', replicas: [2, 2], microbatches: 2, samplesPerMicrobatch: 4, dtype: 'f32' },
  { model: 'gpt untied', replicas: [2], microbatches: 3, samplesPerMicrobatch: 2, dtype: 'f64' },
  { model: 'gpt untied', replicas: [3, 1], microbatches: 2, samplesPerMicrobatch: 3, dtype: 'f32' },
  { model: 'gpt', replicas: [1, 2, 1], microbatches: 2, samplesPerMicrobatch: 2, dtype: 'f64' },
  { model: 'llama', replicas: [3, 2], microbatches: 1, samplesPerMicrobatch: 6, dtype: 'f32' },
]

async function countersOf(one: Counted, changes: Record<string, unknown> = {}) {
  const { replicas, microbatches, samplesPerMicrobatch, dtype } = one
  const compiled = compilePlan({
    meshwright: 1,
    model: model[one.model],
    mesh: { pipeline: replicas.length, data: replicas },
    batch: { samples: microbatches * samplesPerMicrobatch, microbatches },
    dtype,
    ...changes,
  })
  const program = programOf(compiled, {})
  const batches = randomBatches(compiled, 1)
  // Without port `gradients` a program is what training runs.
  const [local, emulated] = [
    await runOn('local', compiled, batches, program),
    await runOn('emulator', compiled, batches, program),
  ]
  const exact = ({ rank, sends, collectives }: RankCounters) => ({ rank, sends, collectives })
  const ranks = local[0]!.result.ranks.map(exact)
  expect(emulated[0]!.result.ranks.map(exact)).toEqual(ranks)
  return { compiled, ranks }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
const greatestCommonDivisor = (a: number, b: number): number =>
  b === 0 ? a : greatestCommonDivisor(b, a % b)
const label = (one: Counted): string =>
  `${one.model}, stages of ${one.replicas.join(':')}, ${one.microbatches} micro-batches, ${one.dtype}`

describe('counters equal their closed forms', () => {
  test.each(cases.map((one) => [label(one), one] as const))('%s', async (_, one) => {
    const { compiled, ranks } = await countersOf(one)
    const { replicas, microbatches, samplesPerMicrobatch } = one
    const elementBytes = one.dtype === 'f32' ? 4 : 8
    const edges = replicas.slice(1).map((count, index) => [replicas[index]!, count] as const)

    // Forward and back over every edge, cut into the overlaps of the two stages' slices: a + b - gcd(a, b) of them.
    const pieces = edges.map(([a, b]) => a + b - greatestCommonDivisor(a, b))
    const calls = 2 * microbatches * sum(pieces)
    expect(sum(ranks.map(({ sends }) => sends.calls))).toBe(calls)
    if (replicas.every((count) => count === 1)) expect(calls).toBe(2 * (replicas.length - 1) * microbatches)
    const activationBytes = samplesPerMicrobatch * sequence * hidden * elementBytes
    expect(sum(ranks.map(({ sends }) => sends.bytes))).toBe(2 * edges.length * microbatches * activationBytes)
    // The first stage only sends forward, the last only back, each its own share.
    for (const { rank, sends } of ranks) {
      const stage = compiled.plan.ranks[rank]!.pipeline
      const ways = (stage > 0 ? 1 : 0) + (stage < replicas.length - 1 ? 1 : 0)
      expect(sends.bytes).toBe((ways * microbatches * activationBytes) / replicas[stage]!)
    }

    // Gradients of the stage where it has replicas, tied ones wherever they are held, the loss, and the norm.
    const stageOfBlock = compiled.plan.stageOfBlock
    const [embedding, lastStage] = [stageOfBlock[0]!, stageOfBlock.at(-1)!]
    for (const { rank, collectives } of ranks) {
      const stage = compiled.plan.ranks[rank]!.pipeline
      const isSplit = one.model === 'gpt' && embedding !== lastStage
      const tied = compiled.model.parameters.filter(({ name }) => isSplit && name.endsWith('wte.weight'))
      const own = compiled.model.parameters.filter(
        (parameter) => !tied.includes(parameter) && stageOfParameter(parameter.name, stageOfBlock) === stage,
      )
      const elements = (list: typeof tied): number =>
        sum(list.map(({ shape }) => shape.reduce((a, b) => a * b, 1)))
      const isReplicated = replicas[stage]! > 1
      const holders = replicas[embedding]! + replicas[lastStage]!
      const parts = [
        { bytes: isReplicated ? elements(own) * elementBytes : 0, members: replicas[stage]! },
        {
          bytes: isSplit && (stage === embedding || stage === lastStage) ? elements(tied) * elementBytes : 0,
          members: holders,
        },
        { bytes: isReplicated && stage === lastStage ? elementBytes : 0, members: replicas[stage]! },
        { bytes: ranks.length > 1 ? 8 : 0, members: ranks.length },
      ].filter(({ bytes }) => bytes > 0)
      const payloadBytes = sum(parts.map(({ bytes }) => bytes))
      // Around a ring of n each of n blocks passes n - 1 hops, once to be reduced and once to be handed out.
      const wireBytes = sum(parts.map(({ bytes, members: n }) => (2 * (n - 1) * bytes) / n))
      expect(collectives).toEqual(
        parts.length === 0
          ? {}
          : { allReduce: { calls: parts.length, payloadBytes, wireBytes: expect.closeTo(wireBytes, 6) } },
      )
    }
  })

  test('buckets change how often gradients are reduced, not how many bytes', async () => {
    const one = cases[4]!
    const whole = (await countersOf(one)).ranks[0]!.collectives['allReduce']!
    const small = await countersOf(one, { reduction: { bucketBytes: 1 } })
    // A tensor is never cut: one bucket for each, the loss and the norm.
    expect(small.ranks[0]!.collectives['allReduce']).toEqual({
      ...whole,
      wireBytes: expect.closeTo(whole.wireBytes, 6),
      calls: small.compiled.model.parameters.length + 2,
    })
    const between = (await countersOf(one, { reduction: { bucketBytes: 16_384 } })).ranks[0]!.collectives[
      'allReduce'
    ]!
    expect(between).toEqual({
      ...whole,
      wireBytes: expect.closeTo(whole.wireBytes, 6),
      calls: between.calls,
    })
    expect(between.calls).toBeGreaterThan(whole.calls)
    expect(between.calls).toBeLessThan(small.compiled.model.parameters.length + 2)
  })
})

function stageOfParameter(name: string, stageOfBlock: readonly number[]): number {
  const layer = /\.(?:h|layers)\.(\d+)\./.exec(name)
  if (layer !== null) return stageOfBlock[Number(layer[1]) + 1]!
  return /wte|wpe|embed_tokens/.test(name) ? stageOfBlock[0]! : stageOfBlock.at(-1)!
}

/** papers/17: K_i = min(S - i, D) in policy A, min(2(S - i) - 1, D) in policy B, M in GPipe. */
describe('micro-batches in flight', () => {
  test.each([
    ['policy A', { name: '1f1b', warmup: 'a' }, [4, 3, 2, 1]],
    ['policy B', { name: '1f1b', warmup: 'b' }, [7, 5, 3, 1]],
    ['policy A where 2 fit', { name: '1f1b', warmup: 'a', maxInFlight: 2 }, [2, 2, 2, 1]],
    ['policy B where 4 fit', { name: '1f1b', warmup: 'b', maxInFlight: 4 }, [4, 4, 3, 1]],
    ['GPipe', { name: 'gpipe' }, [16, 16, 16, 16]],
  ])('of each stage with %s, 4 stages and 16 micro-batches', async (_, schedule, peaks) => {
    const compiled = compilePlan({
      meshwright: 1,
      model: model.gpt,
      mesh: { pipeline: 4 },
      schedule,
      batch: { samples: 16, microbatches: 16 },
    })
    const program = programOf(compiled, {})
    const engine = await createLocalEngine(program, { trace: true })
    let record: StepRecord | undefined
    try {
      record = (await runSteps(compiled, engine, randomBatches(compiled, 1)))[0]
    } finally {
      await engine.stop()
    }
    expect(measuredInFlight(program, record!.result)).toEqual(peaks)
    // What is kept for the backward has a slot for each; where F and B are one task, nothing is kept.
    for (const role of program.roles) {
      const kept = role.buffers.flatMap(({ name }, index) =>
        new RegExp(`^r${role.pipeline}\\.`).test(name) ? [mostLive(role, new Set([index]))] : [],
      )
      const fused = role.pipeline === 3 && schedule.name === '1f1b'
      expect(new Set(kept)).toEqual(new Set(fused ? [] : [peaks[role.pipeline]]))
    }
  })
})

/** Of each rank, the most micro-batches whose forward had begun and whose backward had not ended. */
function measuredInFlight(program: Program, { trace }: StepResult): number[] {
  return rolesByRank(program).map((role, rank) => {
    const instructions = readInstructions(role.code)
    const changes: { readonly at: number; readonly by: number }[] = []
    const times = trace![rank]!
    for (let index = 0; index < times.length; index += 3) {
      const instruction = instructions[times[index]!]!
      if (instruction.kind !== 'run' || instruction.action === undefined) continue
      const { phase } = role.actions[instruction.action]!
      if (phase.startsWith('F')) changes.push({ at: times[index + 1]!, by: 1 })
      if (phase.endsWith('B')) changes.push({ at: times[index + 2]!, by: -1 })
    }
    let now = 0
    return Math.max(...changes.toSorted((a, b) => a.at - b.at).map(({ by }) => (now += by)))
  })
}
