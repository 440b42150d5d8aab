import { describe, expect, it } from 'vitest'
import { mostLive } from '../../../test/support/liveValues.ts'
import { pairwiseSubset, wholeGrid } from '../../../test/support/pairwise.ts'
import { tinyPlan, tinyProgram } from '../../../test/support/programs.ts'
import { parseSchedule } from '../../schedule/index.ts'
import { readInstructions } from '../columns.ts'
import { roleRanks } from '../mesh.ts'
import type { Instruction, Program, Region, Role } from '../types.ts'
import { verifyProgram } from '../verify/index.ts'
import { lowerPlan } from './index.ts'

interface Case {
  readonly model: 'gpt' | 'llama'
  readonly tied: boolean
  readonly stages: number
  /** Replicas of even and of odd stages. */
  readonly data: readonly [number, number]
  readonly microbatches: number
  readonly schedule: 'gpipe' | '1f1b a' | '1f1b b'
}

const factors = {
  model: ['gpt', 'llama'],
  tied: [true, false],
  stages: [1, 2, 3, 4],
  data: [
    [1, 1],
    [2, 2],
    [2, 1],
    [1, 2],
    [3, 1],
    [2, 3],
  ],
  microbatches: [1, 2, 5, 8],
  schedule: ['gpipe', '1f1b a', '1f1b b'],
} as const
const allowed = ({ stages, data }: Case): boolean => stages > 1 || data[0] === data[1]
const cases: readonly Case[] =
  process.env['MESHWRIGHT_FULL'] === undefined
    ? pairwiseSubset<Case>(factors, allowed)
    : wholeGrid<Case>(factors, allowed)

function replicasOf({ stages, data }: Case): number[] {
  return Array.from({ length: stages }, (_, stage) => data[stage % 2]!)
}

/** Micro-batches whose activations stage s holds at most (DAPPLE, section 3; GPipe holds all). */
function inFlight({ schedule, stages, microbatches }: Case, stage: number): number {
  const distance = stages - stage
  const warmup = { gpipe: microbatches, '1f1b a': distance, '1f1b b': 2 * distance - 1 }[schedule]
  return Math.min(warmup, microbatches)
}

function instructionsOf<Kind extends Instruction['kind']>(
  role: Role,
  kind: Kind,
): Extract<Instruction, { kind: Kind }>[] {
  return readInstructions(role.code).filter(
    (item): item is Extract<Instruction, { kind: Kind }> => item.kind === kind,
  )
}

/** Regions of the gradients of a role that collectives of the groups reduce. */
function reduced(program: Program, role: Role, groups: RegExp): Region[] {
  return instructionsOf(role, 'collective')
    .filter(({ parts: [part], group }) => {
      const { name } = role.buffers[role.values[part!.source.value]!.buffer]!
      return /^g\d+$/.test(name) && groups.test(program.groups[group]!.name)
    })
    .map(({ parts: [part] }) => role.regions[part!.source.region ?? -1] ?? { start: 0, end: elements(role) })
    .sort((a, b) => a.start - b.start)
}

function elements(role: Role): number {
  return role.buffers.find(({ name }) => /^g\d+$/.test(name))!.shape[0]!
}

function name(value: Case): string {
  return `${value.model}${value.tied ? ' tied' : ''}, ${value.stages} stages of ${value.data.join(':')}, ${value.microbatches} micro-batches, ${value.schedule}`
}

describe.each(cases.map((value) => [name(value), value] as const))('%s', (_, value) => {
  const { stages, microbatches, tied } = value
  const replicas = replicasOf(value)
  const program = tinyProgram({ ...value, data: replicas, bucket: 256 })

  it('verifies', () => {
    expect(verifyProgram(program).findings).toEqual([])
  })

  it('has a role for each coordinate at which ranks do something else', () => {
    // 2 and 3 replicas split samples so that no two ranks do the same; other counts divide each other.
    const several = replicas.includes(2) && replicas.includes(3)
    expect(program.roles).toHaveLength(several ? replicas.reduce((sum, count) => sum + count, 0) : stages)
    expect(program.roles.flatMap((role) => roleRanks(program.mesh, role)).sort((a, b) => a - b)).toEqual(
      Array.from({ length: replicas.reduce((sum, count) => sum + count, 0) }, (_, rank) => rank),
    )
  })

  it('sends each activation and each cotangent once: 2 (S - 1) transfers for each micro-batch', () => {
    const sent = program.roles.flatMap((role) =>
      instructionsOf(role, 'exchange').flatMap(({ parts }) =>
        parts.filter(({ direction }) => direction === 'send').map(({ transfer }) => transfer),
      ),
    )
    expect(new Set(sent).size).toBe(2 * (stages - 1) * microbatches)
  })

  it('moves every row of them once', () => {
    for (const role of program.roles)
      for (const direction of ['send', 'recv'] as const) {
        const rows = new Map<number, number>()
        for (const { parts } of instructionsOf(role, 'exchange'))
          for (const part of parts) {
            if (part.direction !== direction) continue
            const buffer = role.buffers[role.values[part.value]!.buffer]!
            const { start, end } = role.regions[part.region ?? -1] ?? { start: 0, end: buffer.shape[0]! }
            rows.set(part.value, (rows.get(part.value) ?? 0) + end - start)
          }
        for (const [held, count] of rows)
          expect(count).toBe(role.buffers[role.values[held]!.buffer]!.shape[0])
      }
  })

  it('reduces every gradient once over all ranks that hold it, and no other', () => {
    for (const role of program.roles) {
      const all = reduced(program, role, /./)
      const pack = role.buffers.find(({ name: buffer }) => /^g\d+$/.test(buffer))!.pack!
      const shared = reduced(program, role, /^tied/)
      const isEnd = role.pipeline === 0 || role.pipeline === stages - 1
      expect(shared).toHaveLength(tied && stages > 1 && isEnd ? 1 : 0)
      // The tied table is the model's largest: vocabulary x width.
      for (const { start, end } of shared) {
        expect(end - start).toBe(8 * 4)
        expect(pack.map(({ offset }) => offset)).toContain(start)
      }
      if (replicas[role.pipeline] === 1) {
        expect(all).toEqual(shared)
        continue
      }
      let reached = 0
      for (const { start, end } of all) {
        expect(start).toBe(reached)
        reached = end
      }
      expect(reached).toBe(elements(role))
      // Buckets of 256 bytes hold 32 elements, or a single larger tensor.
      for (const { start, end } of all)
        if (end - start > 32)
          expect(pack.filter(({ offset }) => offset >= start && offset < end)).toHaveLength(1)
    }
  })

  it('holds as many activations as the schedule says', () => {
    for (const role of program.roles) {
      const residuals = role.buffers.flatMap(({ name: buffer }, index) =>
        /^r\d+\.\d+$/.test(buffer) ? [index] : [],
      )
      const most = inFlight(value, role.pipeline)
      const isFused = role.pipeline === stages - 1 && most === 1
      expect(residuals.length > 0).toBe(!isFused)
      for (const residual of residuals) expect(mostLive(role, new Set([residual]))).toBe(most)
    }
  })

  it('runs equal middle stages by the same tasks', () => {
    const tasksOf = (stage: number): string[] => {
      const role = program.roles.find(({ pipeline }) => pipeline === stage)!
      const tasks = instructionsOf(role, 'run').map(({ task }) => program.tasks[task]!.name)
      return [...new Set(tasks)].sort()
    }
    if (stages === 4 && replicas[1] === replicas[2]) expect(tasksOf(1)).toEqual(tasksOf(2))
    if (stages > 1) expect(tasksOf(0)).not.toEqual(tasksOf(1))
    expect(new Set(program.tasks.map(({ name: task }) => task)).size).toBe(program.tasks.length)
    const keys = program.tasks.map((task) =>
      task.kind === 'graph' ? JSON.stringify([task.hash, task.reads, task.writes]) : task.hash,
    )
    expect(new Set(keys).size).toBe(keys.length)
  })
})

describe('lowering', () => {
  it('of a validation step goes forward only and keeps nothing', () => {
    const program = tinyProgram({ stages: 3, microbatches: 4 }, { method: 'infer' })
    expect(verifyProgram(program).findings).toEqual([])
    for (const role of program.roles) {
      expect(role.actions.map(({ phase }) => phase)).toEqual(['F', 'F', 'F', 'F'])
      expect(role.buffers.some(({ name: buffer }) => /^[rg]\d/.test(buffer))).toBe(false)
    }
  })

  it('gives the reduced gradients where they are asked for', () => {
    const program = tinyProgram({ stages: 2, data: 2 }, { gradients: true })
    expect(verifyProgram(program).findings).toEqual([])
    for (const role of program.roles) {
      const ports = instructionsOf(role, 'move').filter(({ direction }) => direction === 'out')
      expect(ports.map(({ port }) => port)).toContain('gradients')
    }
  })

  it('names the parts of each update, once a step', () => {
    for (const role of tinyProgram({ stages: 2, data: 2, microbatches: 3 }).roles) {
      const updates = role.actions.filter(({ phase }) => phase === 'U')
      // Parameters with weight decay, and those without.
      expect(updates).toEqual(Array(2).fill({ phase: 'U', stage: role.pipeline, microbatch: 0 }))
    }
  })

  it('refuses an update in the name of another stage', () => {
    const program = tinyProgram({ stages: 2, microbatches: 1 })
    const roles = program.roles.map((role) => ({
      ...role,
      actions: role.actions.map((action) => (action.phase === 'U' ? { ...action, stage: 0 } : action)),
    }))
    expect(verifyProgram({ ...program, roles }).findings.length).toBeGreaterThan(0)
  })

  it('does without clipping', () => {
    const program = tinyProgram({ stages: 2, clip: null })
    expect(verifyProgram(program).findings).toEqual([])
    expect(program.tasks.map(({ name: task }) => task)).not.toContain('clip')
    expect(program.groups.map(({ name: group }) => group)).not.toContain('all')
  })

  it.each(['F I W', 'F I W U', 'F B U'])('takes a schedule in full, here %s', (phases) => {
    const { plan, model } = tinyPlan({ stages: 2, microbatches: 2 })
    const actions = (stage: number): string =>
      phases
        .split(' ')
        .flatMap((phase) => (phase === 'U' ? [`${stage}U0`] : [`${stage}${phase}0`, `${stage}${phase}1`]))
        .join(' ')
    const text = `schedule 1\nstages 2 on 0,1\nmicrobatches 2\nactor 0: ${actions(0)}\nactor 1: ${actions(1)}\n`
    const program = lowerPlan({ ...plan, schedule: parseSchedule(text) }, model)
    expect(verifyProgram(program).findings).toEqual([])
  })

  it('does first of a pair what can begin first, whatever the order in which it is written', () => {
    const { plan, model } = tinyPlan({ stages: 2, microbatches: 2 })
    // Actor 1 has its forward of 1 at once, its cotangents from its own loss; actor 0 waits a round trip for 0B0.
    const order = (pair: string): string[] => {
      const text = `schedule 1\nstages 2 on 0,1\nmicrobatches 2\nactor 0: 0F0 ${pair} 0B1\nactor 1: 1F0 1B0 1F1 1B1\n`
      const program = lowerPlan({ ...plan, schedule: parseSchedule(text) }, model)
      expect(verifyProgram(program).findings).toEqual([])
      return program.roles[0]!.actions.flatMap(({ phase, microbatch }) =>
        phase === 'U' ? [] : [`${phase}${microbatch}`],
      )
    }
    for (const pair of ['(0F1;0B0)', '(0B0;0F1)']) expect(order(pair)).toEqual(['F0', 'F1', 'B0', 'B1'])
  })
})
