import { describe, expect, it } from 'vitest'
import { compilePlan, randomBatches, stateOf } from '../../../test/support/trainingCase.ts'
import { serial } from '../../cli/checkPlan.ts'
import { type Compiled, learningRateOf } from '../../cli/prepare.ts'
import { createEmulator } from '../../engine/index.ts'
import { checkEquality } from '../../engine/training/equality.ts'
import { readInstructions } from '../columns.ts'
import type { BufferSpec, Instruction, Program, Region, Role } from '../types.ts'
import { verifyProgram } from '../verify/index.ts'
import { lowerPlan } from './index.ts'

const models = {
  gpt: 'gpt:layers=2,hidden=16,heads=4,context=8,vocab=32,mlp=24',
  llama: 'llama:layers=2,hidden=16,heads=4,kvHeads=2,mlp=24,context=8,vocab=32,tied=false',
  moe: 'moe:layers=2,hidden=16,heads=4,kvHeads=2,mlp=24,context=8,vocab=32,experts=4,topk=2,expertMlp=12',
}

interface Case {
  readonly model: keyof typeof models
  readonly mesh: Readonly<Record<string, unknown>>
  readonly more?: Readonly<Record<string, unknown>>
}

const cases: readonly Case[] = [
  { model: 'llama', mesh: { tensor: 2 } },
  { model: 'gpt', mesh: { tensor: 2 } },
  { model: 'llama', mesh: { tensor: 4 } },
  { model: 'gpt', mesh: { pipeline: 2, data: [2, 1], tensor: 2 } },
  { model: 'llama', mesh: { pipeline: 2, data: 2, tensor: 2 }, more: { layout: { sequence: true } } },
  { model: 'gpt', mesh: { pipeline: 2, data: 2, tensor: 2 }, more: { zero: 3, recompute: 'full' } },
  {
    model: 'gpt',
    mesh: { pipeline: 2, data: [2, 3], tensor: 2 },
    more: { batch: { samples: 12, microbatches: 2 } },
  },
  { model: 'moe', mesh: { pipeline: 2, data: 4, expert: 2 }, more: { zero: 3 } },
  {
    model: 'llama',
    mesh: { tensor: { x: 2, y: 2, z: 2 } },
    more: { recompute: 'full', layout: { gathered: true } },
  },
  {
    model: 'gpt',
    mesh: { data: 4, tensor: 2 },
    more: { zero: { stage: 3, shards: 2, replicas: 'sharded' }, layout: { sequence: true } },
  },
  { model: 'gpt', mesh: { pipeline: 2, tensor: 2 }, more: { layout: { sequence: true }, schedule: 'zb-h1' } },
]

function compiled({ model, mesh, more }: Case): Compiled {
  const data = typeof mesh['data'] === 'number' ? mesh['data'] : 1
  return compilePlan({
    meshwright: 1,
    model: models[model],
    mesh: { pipeline: 1, ...mesh },
    schedule: '1f1b',
    batch: { samples: 8 * data, microbatches: 2 },
    dtype: 'f64',
    optimizer: { name: 'adamw', weightDecay: 0.1 },
    // Far below the norm of a new model's gradients.
    clip: 0.25,
    reduction: { bucketBytes: 4096 },
    ...more,
  })
}

describe.each(cases)('$model on $mesh', (one) => {
  const made = compiled(one)
  const program = lowerPlan(made.plan, made.model, { gradients: true })

  it('verifies', () => {
    expect(verifyProgram(program).findings.map(({ message }) => message)).toEqual([])
  })

  it('equals serial training', async () => {
    const alone = serial(made)
    const differences = await checkEquality({
      actual: createEmulator(program),
      expected: createEmulator(lowerPlan(alone.plan, alone.model, { gradients: true })),
      state: stateOf(made),
      optimizer: made.optimizer,
      learningRate: learningRateOf(made.document, 2),
      batches: randomBatches(made, 2),
      tolerance: 1e-9,
    })
    expect(differences.filter(({ equal }) => !equal)).toEqual([])
  })
})

function lowered(one: Case): Program {
  const { plan, model } = compiled(one)
  return lowerPlan(plan, model)
}

/** Names of the tensors that lie in a region of a role's buffer. */
function tensorsIn({ pack }: BufferSpec, region: Region | undefined): string[] {
  const { start, end } = region ?? { start: 0, end: Infinity }
  return pack!.filter(({ offset }) => start <= offset && offset < end).map(({ name }) => name)
}

/** Of every operand of instructions that is part of a buffer: the tensors there. */
function tensorsOf(
  role: Role,
  buffer: string,
  operands: (instruction: Instruction) => readonly { readonly value: number; readonly region?: number }[],
): { readonly instruction: Instruction; readonly tensors: readonly string[] }[] {
  return readInstructions(role.code).flatMap((instruction) =>
    operands(instruction).flatMap(({ value, region }) => {
      const spec = role.buffers[role.values[value]!.buffer]!
      if (spec.name !== buffer) return []
      return [
        { instruction, tensors: tensorsIn(spec, region === undefined ? undefined : role.regions[region]) },
      ]
    }),
  )
}

describe('gradients of layouts', () => {
  const program = lowered({
    model: 'llama',
    mesh: { data: 2, tensor: 2 },
    more: { layout: { sequence: true } },
  })
  const [role] = program.roles as [Role]
  const isNorm = (name: string): boolean => /norm/.test(name)

  it('are added along tensor together with the replicas, where ranks along it hold terms', () => {
    const sums = tensorsOf(role, 'g0', (instruction) =>
      instruction.kind === 'collective' ? instruction.parts.map(({ source }) => source) : [],
    )
    const axes = new Map<string, readonly string[]>()
    for (const { instruction, tensors } of sums)
      for (const name of tensors)
        axes.set(name, program.groups[(instruction as { group: number }).group]!.axes)
    // Each rank sees the norms work on its part of the sequence (Korthikanti et al. 2022, section 4.2.2).
    for (const [name, own] of axes) expect(own).toEqual(isNorm(name) ? ['data', 'tensor'] : ['data'])
    expect(axes.size).toBe(role.buffers.find(({ name }) => name === 'g0')!.pack!.length)
  })

  it('are counted by one of the ranks that have the same', () => {
    const counted = readInstructions(role.code).flatMap((instruction) => {
      if (instruction.kind !== 'run' || program.tasks[instruction.task]!.name !== 'sumSquares') return []
      const [source, owner] = instruction.reads
      const region = role.regions[source!.region ?? -1]
      const tensors = tensorsIn(role.buffers.find(({ name }) => name === 'g0')!, region)
      const { constant } = role.buffers[role.values[owner!.value]!.buffer]!
      return tensors.map((name) => [name, constant] as const)
    })
    for (const [name, constant] of counted)
      expect(constant).toEqual({ isZero: isNorm(name) ? ['data', 'tensor'] : ['data'] })
    expect(counted.map(([name]) => name).sort()).toEqual(
      role.buffers
        .find(({ name }) => name === 'g0')!
        .pack!.map(({ name }) => name)
        .sort(),
    )
  })

  it('of experts that replicas share out are dealt out over the others alone', () => {
    const [expert] = lowered({ model: 'moe', mesh: { data: 4, expert: 2 }, more: { zero: 1 } }).roles
    const pack = (name: string): BufferSpec => expert!.buffers.find((buffer) => buffer.name === name)!
    expect(pack('g0').shard!.axes).toEqual(['data.expertData', 'data.expert'])
    expect(pack('g0.1').shard!.axes).toEqual(['data.expertData'])
    const names = (name: string): string[] => pack(name).pack!.map((entry) => entry.name)
    expect(names('g0').some((name) => /experts/.test(name))).toBe(false)
    expect(names('g0.1').every((name) => /experts/.test(name))).toBe(true)
  })
})

describe('actions of layouts', () => {
  it('make gathered weights one piece ahead, and drop them after it', () => {
    const program = lowered({ model: 'gpt', mesh: { tensor: { x: 2, y: 2, z: 2 } } })
    const [role] = program.roles as [Role]
    const isGathered = (instruction: Instruction): boolean =>
      instruction.kind === 'collective' &&
      instruction.parts.some(({ source }) => role.buffers[role.values[source.value]!.buffer]!.name === 'w0')
    let live = new Set<number>()
    let most = 0
    for (const instruction of readInstructions(role.code)) {
      if (instruction.kind === 'collective' && isGathered(instruction))
        for (const { result } of instruction.parts) live.add(result.value)
      if (instruction.kind === 'free')
        live = new Set([...live].filter((value) => !instruction.values.includes(value)))
      most = Math.max(most, live.size)
    }
    // Of a layer's four weights and as many biases, and of its norms.
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThanOrEqual(4)
  })
})
