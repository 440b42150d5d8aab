import { describe, expect, it } from 'vitest'
import { type TinyPlan, tinyProgram } from '../../../test/support/programs.ts'
import { eachInstruction, type Program, rankCount, rolesByRank, verifyProgram } from '../../program/index.ts'
import {
  type MeasuredTable,
  measuredCosts,
  readMeasuredTable,
  simulateProgram,
} from '../../simulate/index.ts'
import { calibrate } from './calibrate.ts'
import { collectPayloads } from './payloads.ts'
import { taskPrograms } from './taskPrograms.ts'

const plans: Readonly<Record<string, TinyPlan>> = {
  'pipeline, tied, clipped': { stages: 2, microbatches: 4 },
  'split backward, recomputed': { stages: 2, schedule: { name: 'zb-h1' }, more: { recompute: 'full' } },
  'sharded, in chunks': {
    stages: 1,
    layers: 2,
    data: 2,
    schedule: { name: 'looped-bfs', chunks: 2 },
    more: { zero: 3 },
  },
  'uneven replicas': { stages: 2, data: [2, 1], microbatches: 4 },
}

function* instructionsOf(
  program: Program,
): Generator<ReturnType<typeof eachInstruction> extends Iterable<infer T> ? T : never> {
  for (const role of rolesByRank(program)) yield* eachInstruction(role.code)
}

describe.each(Object.entries(plans))('tasks alone: %s', (_, plan) => {
  const program = tinyProgram(plan)
  const alone = taskPrograms(program, 2)

  it('are all of the program, as often as it has them', () => {
    const counts = new Map<string, number>()
    for (const one of instructionsOf(program)) {
      if (one.kind !== 'run') continue
      const { hash } = program.tasks[one.task]!
      counts.set(hash, (counts.get(hash) ?? 0) + 1)
    }
    const found = new Map<string, number>()
    const roles = new Set<unknown>()
    for (const { classes } of alone)
      for (const rank of classes) {
        // Where roles are fewer than cores, several ranks run the same.
        const key = [...rank.values()].map(({ task, bytes }) => `${task.hash} ${bytes}`).join()
        if (roles.has(key)) continue
        roles.add(key)
        for (const one of new Set(rank.values()))
          found.set(one.task.hash, (found.get(one.task.hash) ?? 0) + one.count)
      }
    expect([...found.keys()].sort()).toEqual([...counts.keys()].sort())
    for (const [hash, count] of counts) expect(found.get(hash)).toBeGreaterThanOrEqual(count)
  })

  it('meet nobody, on as many ranks as there are, at most one a core', () => {
    for (const { program: tasks } of alone) {
      expect(rankCount(tasks.mesh)).toBe(Math.min(2, rankCount(program.mesh)))
      for (const { kind } of instructionsOf(tasks)) expect(['run', 'move']).toContain(kind)
    }
    for (const { program: tasks } of taskPrograms(program, 1)) expect(rankCount(tasks.mesh)).toBe(1)
  })
})

describe('payloads', () => {
  it('are all messages and collectives of a program', () => {
    for (const plan of Object.values(plans)) {
      const program = tinyProgram(plan)
      const { messages, collectives } = collectPayloads([program], 4)
      const { calls } = simulateProgram(program, measuredCosts(nothing(program)))
      const count = (list: readonly { readonly count: number }[]): number =>
        list.reduce((sum, one) => sum + one.count, 0)
      expect(count(messages)).toBe(calls.p2p)
      const meetings = calls.allReduce + calls.allGather + calls.reduceScatter + calls.other
      // Calls are counted by member.
      expect(collectives.reduce((sum, one) => sum + one.count * one.members, 0)).toBeCloseTo(meetings)
    }
  })
})

describe('a calibration', () => {
  it('has what its programs need to be simulated, and is read back', async () => {
    const programs = [plans['pipeline, tied, clipped']!, plans['sharded, in chunks']!].map((plan) =>
      tinyProgram(plan),
    )
    for (const program of programs) expect(verifyProgram(program).findings).toEqual([])
    const fractions: number[] = []
    const tables: MeasuredTable[] = []
    for (let turn = 0; turn < 2; turn++)
      tables.push(
        await calibrate(programs, { rounds: 1, onProgress: (fraction) => fractions.push(fraction) }),
      )
    const [table] = tables
    expect(readMeasuredTable(JSON.parse(JSON.stringify(table)))).toEqual(table)
    for (const program of programs) {
      const { stepSeconds } = simulateProgram(program, measuredCosts(table!), { engine: 'local' })
      expect(stepSeconds).toBeGreaterThan(0)
    }
    const keys = (given: MeasuredTable): unknown => [
      Object.keys(given.tasks),
      Object.entries(given.collectives).map(([operation, entries]) => [
        operation,
        entries.map(({ members }) => members),
      ]),
    ]
    expect(keys(tables[1]!)).toEqual(keys(table!))
    for (const line of Object.values(table!.tasks))
      expect(line.seconds + line.secondsPerByte).toBeGreaterThan(0)
    expect(fractions.every((fraction) => fraction > 0 && fraction <= 1)).toBe(true)
  })

  it('ends when asked to, and leaves nothing behind', async () => {
    await expect(calibrate([tinyProgram({ stages: 2 })], { shouldStop: () => true })).rejects.toMatchObject({
      code: 'RUN_STOPPED',
    })
  })
})

/** Costs of nothing for every task and collective of a program. */
function nothing(program: Program): MeasuredTable {
  const line = { seconds: 0, secondsPerByte: 0 }
  const collectives: Record<string, { members: number; seconds: number; secondsPerByte: number }[]> = {}
  for (const one of instructionsOf(program))
    if (one.kind === 'collective') collectives[one.operation] = [{ members: 2, ...line }]
  return {
    meshwrightCosts: 1,
    machine: { name: 'none', cores: 1, software: {} },
    tasks: Object.fromEntries(program.tasks.map(({ hash }) => [hash, line])),
    transfer: { send: line, receive: line },
    wake: 0,
    collectives,
    moves: { in: line, out: line },
  }
}
