import { describe, expect, it } from 'vitest'
import { changed, codes, ofTask, place, runPlace } from '../../../test/support/findings.ts'
import {
  drop,
  duplicate,
  replace,
  type TinyPlan,
  tinyProgram,
  withInstructions,
  withRole,
} from '../../../test/support/programs.ts'
import type { Instruction, Program } from '../types.ts'
import { invariants, verifyProgram } from './index.ts'

const base = tinyProgram({ stages: 2, data: 2, microbatches: 3 })

describe('an unchanged program', () => {
  const plans: TinyPlan[] = [
    { stages: 1 },
    { stages: 2, data: 2, microbatches: 3 },
    { stages: 2, data: [3, 2], microbatches: 2, schedule: 'gpipe' },
    { stages: 3, schedule: '1f1b b', model: 'llama' },
  ]
  it.each(plans)('is accepted, every invariant proven: %o', (plan) => {
    expect(verifyProgram(tinyProgram(plan), { budgetBytes: 2 ** 40 })).toEqual({
      findings: [],
      proven: invariants.map(({ name }) => name),
      skipped: [],
    })
  })
})

describe('roles', () => {
  it('misses ranks without a role', () => {
    const found = verifyProgram({ ...base, roles: base.roles.slice(0, 1) }).findings[0]!
    expect(found).toMatchObject({ code: 'ROLE_MISSING', ranks: [2, 3] })
  })

  it('refuses two roles for one rank', () => {
    const found = verifyProgram({ ...base, roles: [...base.roles, base.roles[1]!] }).findings[0]!
    expect(found).toMatchObject({ code: 'ROLE_REPEATED', ranks: [2, 3] })
  })
})

describe('types', () => {
  const first = runPlace(base, 0, 'F')
  const withRun = (change: (run: Extract<Instruction, { kind: 'run' }>) => Instruction): string[] =>
    changed(base, 0, (list) =>
      replace(list, first, (item) => {
        if (item.kind !== 'run') throw new Error('no run')
        return change(item)
      }),
    )

  it('refuses operands in the wrong order', () => {
    expect(withRun((item) => ({ ...item, reads: item.reads.toReversed() }))).toContain('OPERAND_TYPE')
  })

  it('refuses operands too few', () => {
    expect(withRun((item) => ({ ...item, reads: item.reads.slice(1) }))).toContain('OPERAND_TYPE')
  })

  it('refuses a task that is not declared', () => {
    expect(withRun((item) => ({ ...item, task: base.tasks.length }))).toContain('OPERAND_TYPE')
  })

  it('refuses a buffer of another dtype or shape', () => {
    for (const change of [{ dtype: 'f32' }, { shape: [2, 2] }] as const) {
      const other = withRole(base, 0, (role) => ({
        ...role,
        buffers: role.buffers.map((buffer) => (buffer.name === 'r0.0' ? { ...buffer, ...change } : buffer)),
      }))
      expect(codes(other)).toEqual(['OPERAND_TYPE'])
    }
  })

  it('refuses a kernel with operands that it cannot take', () => {
    const found = changed(base, 0, (list) =>
      replace(list, place(base, 0, ofTask(base, 'sumSquares')), (item) =>
        item.kind === 'run' ? { ...item, reads: item.reads.toReversed() } : item,
      ),
    )
    expect(found).toContain('OPERAND_TYPE')
  })

  it('refuses ids that are no whole numbers, and rows that are not as many as their ids', () => {
    const at = base.tasks.findIndex(({ name }) => name === 'B0')
    const task = base.tasks[at]!
    if (task.kind !== 'graph') throw new Error('no graph')
    const withRows = (change: object): Program => ({
      ...base,
      tasks: base.tasks.with(at, {
        ...task,
        writes: task.writes.map((port) =>
          port.kind === 'pack' ? { ...port, rows: port.rows.map((rows) => ({ ...rows, ...change })) } : port,
        ),
      }),
    })
    expect(task.writes.some((port) => port.kind === 'pack' && port.rows.length > 0)).toBe(true)
    expect(codes(withRows({}))).toEqual([])
    const cotangent = task.reads.findIndex((port) => port.kind === 'tensor')
    expect(codes(withRows({ ids: { read: cotangent + 1 } }))).toEqual(['OPERAND_TYPE'])
    expect(codes(withRows({ ids: { read: 99 } }))).toEqual(['OPERAND_TYPE'])
    expect(codes(withRows({ rowElements: 1 }))).toEqual(['OPERAND_TYPE'])
  })

  it('refuses a set that leaves part of its operand as it was', () => {
    const at = base.tasks.findIndex(({ name }) => name === 'FB1')
    const task = base.tasks[at]!
    if (task.kind !== 'graph') throw new Error('no graph')
    const writes = task.writes.map((port) =>
      port.kind === 'pack' ? { ...port, entries: port.entries.slice(1) } : port,
    )
    const other = { ...base, tasks: base.tasks.with(at, { ...task, writes }) }
    expect(codes(other)).toEqual(['OPERAND_TYPE'])
    expect(verifyProgram(other).findings[0]!.message).toMatch(/sets only part of g1: element \d+/)
  })
})

describe('actions', () => {
  const backward = runPlace(base, 0, 'B', 2)

  it('misses an action', () => {
    const { findings } = verifyProgram(withInstructions(base, 0, (list) => drop(list, backward)))
    expect(findings[0]).toMatchObject({ code: 'ACTION_MISSING', stage: 0, microbatch: 2, ranks: [0, 1] })
  })

  it('refuses a second one', () => {
    const { findings } = verifyProgram(withInstructions(base, 0, (list) => duplicate(list, backward)))
    expect(findings[0]).toMatchObject({ code: 'ACTION_REPEATED', stage: 0, microbatch: 2 })
  })

  it('refuses an action that no step has', () => {
    for (const change of [{ stage: 2 }, { microbatch: 3 }, { phase: 'U' }, { phase: 'Z' }]) {
      const other = withRole(base, 0, (role) => ({
        ...role,
        actions: role.actions.map((action, index) => (index === 0 ? { ...action, ...change } : action)),
      }))
      expect(codes(other)).toContain(change.phase === 'U' ? 'ACTION_MISSING' : 'ACTION_UNKNOWN')
    }
  })

  it('misses a stage that nobody runs, and one that a replica does not run', () => {
    expect(codes({ ...base, work: { ...base.work, stages: 3 } })).toEqual(['ACTION_MISSING'])
    const split = tinyProgram({ stages: 2, data: [3, 2], microbatches: 1 })
    const isAction = (item: Instruction): boolean => item.kind === 'run' && item.action !== undefined
    expect(changed(split, 1, (list) => list.filter((item) => !isAction(item)))).toContain('ACTION_MISSING')
  })

  it('refuses a stage at two pipeline coordinates', () => {
    const other = withRole(base, 1, (role) => ({
      ...role,
      actions: role.actions.map((action) => ({ ...action, stage: 0 })),
    }))
    const { findings } = verifyProgram(other)
    expect(findings.map(({ code }) => code)).toEqual(
      expect.arrayContaining(['ACTION_REPEATED', 'ACTION_MISSING']),
    )
  })

  it('asks of a validation program that it goes forward only', () => {
    const forward = tinyProgram({ stages: 2, microbatches: 2 }, { method: 'infer' })
    expect(codes(forward)).toEqual([])
    expect(codes({ ...forward, work: { ...forward.work, method: 'gradient' } })).toContain('ACTION_MISSING')
    expect(codes({ ...base, work: { ...base.work, method: 'infer' } })).toContain('ACTION_UNKNOWN')
  })
})

describe('state', () => {
  it('finds state that is updated in part or twice', () => {
    const [decayed, undecayed] = ['U0', 'U0.undecayed'].map((name) => place(base, 0, ofTask(base, name)))
    expect(changed(base, 0, (list) => drop(list, undecayed!))).toEqual(['STATE_PARTIAL'])
    expect(changed(base, 0, (list) => drop(list, decayed!))).toEqual(['STATE_PARTIAL'])
    expect(changed(base, 0, (list) => duplicate(list, decayed!))).toEqual(
      expect.arrayContaining(['STATE_TWICE', 'WRITE_UNREAD']),
    )
  })
})

describe('the next state', () => {
  it('is all left as a next version by a step that trains, and as it was by any other', () => {
    const untouched = [0, 1].reduce((program, role) => {
      const updates = ofTask(base, `U${role}`)
      const rest = ofTask(base, `U${role}.undecayed`)
      return withInstructions(program, role, (list) => list.filter((item) => !updates(item) && !rest(item)))
    }, base)
    const kept = verifyProgram(untouched).findings.filter(({ code }) => code === 'STATE_KEPT')
    expect(kept.map(({ message }) => message.split(' ')[2]).sort()).toEqual([
      'm0',
      'm1',
      'v0',
      'v1',
      'w0',
      'w1',
    ])
    expect(codes({ ...base, work: { ...base.work, method: 'infer' } })).toContain('STATE_CHANGED')
  })

  it('has one owner for each tensor', () => {
    const owned = (isOwned: (pipeline: number) => boolean): Program =>
      ({
        ...base,
        roles: base.roles.map((role) => ({
          ...role,
          buffers: role.buffers.map((buffer) => ({
            ...buffer,
            ...(buffer.pack === undefined
              ? {}
              : {
                  pack: buffer.pack.map((entry) =>
                    entry.name.endsWith('wte.weight') ? { ...entry, owned: isOwned(role.pipeline) } : entry,
                  ),
                }),
          })),
        })),
      }) satisfies Program
    expect(codes(owned((pipeline) => pipeline === 0))).toEqual([])
    expect(codes(owned(() => true))).toContain('STATE_OWNER')
    expect(codes(owned(() => false))).toContain('STATE_OWNER')
  })
})

describe('memory', () => {
  it('refuses what does not fit the budget', () => {
    // Every buffer of the arena in whole cache lines.
    const bytes = Math.max(
      ...base.roles.map((role) =>
        role.pools.reduce((sum, { slots }, pool) => {
          const { shape, dtype } = role.buffers.find((buffer) => buffer.pool === pool)!
          const size = shape.reduce((product, dim) => product * dim, dtype === 'f64' ? 8 : 4)
          return sum + slots * Math.ceil(size / 64) * 64
        }, 0),
      ),
    )
    expect(codes(base, { budgetBytes: bytes })).toEqual([])
    expect(codes(base, { budgetBytes: bytes - 1 })).toEqual(['MEMORY_BUDGET'])
    expect(codes(base, { budgetBytes: bytes, workspaceBytes: 1 })).toEqual(['MEMORY_BUDGET'])
  })
})
