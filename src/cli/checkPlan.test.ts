import { beforeEach, expect, test, vi } from 'vitest'
import type { Program } from '../program/index.ts'
import { checkPlan } from './checkPlan.ts'
import { loadPlan } from './setup.ts'

const seen = vi.hoisted(() => ({ verified: [] as unknown[], run: [] as Program[] }))

vi.mock('../program/index.ts', async (original) => {
  const room = await original<typeof import('../program/index.ts')>()
  return {
    ...room,
    verifyProgram: (...given: Parameters<typeof room.verifyProgram>) => {
      seen.verified.push(given[0])
      return room.verifyProgram(...given)
    },
  }
})

vi.mock('../engine/index.ts', async (original) => {
  const room = await original<typeof import('../engine/index.ts')>()
  return {
    ...room,
    createLocalEngine: (...given: Parameters<typeof room.createLocalEngine>) => {
      seen.run.push(given[0])
      return room.createLocalEngine(...given)
    },
  }
})

beforeEach(() => {
  seen.verified.length = 0
  seen.run.length = 0
})

const model = 'gpt:layers=2,hidden=16,heads=2,context=16'
const small = ['mesh={pipeline: 2}', 'batch={samples: 4, microbatches: 2}']

test('every program that is run beside another is verified first', async () => {
  const report = await checkPlan(await loadPlan(undefined, { model, set: small }), { run: true, steps: 1 })
  expect(report.ok).toBe(true)
  expect(report.run?.miniature).toBeUndefined()
  expect(seen.run.map(({ roles }) => roles.length)).toEqual([2, 1])
  // In float64, and not the program that the report is about.
  for (const program of seen.run) {
    expect(program.roles[0]!.buffers.some(({ dtype }) => dtype === 'f64')).toBe(true)
    expect(program).not.toBe(report.program)
    expect(seen.verified).toContain(program)
  }
})

test('the budget of a plan is not that of its comparison in float64', async () => {
  const bytes = Math.max(
    ...(await checkPlan(await loadPlan(undefined, { model, set: small }), { run: false, steps: 1 }))
      .rankBytes,
  )
  const set = [...small, `memory.deviceBytes=${bytes}`]
  const report = await checkPlan(await loadPlan(undefined, { model, set }), { run: true, steps: 1 })
  expect([report.ok, report.verification.proven.includes('memory')]).toEqual([true, true])
  expect(report.run?.differences).toHaveLength(4)
})
