import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { checkPlan } from '../src/cli/checkPlan.ts'
import { loadPlan } from '../src/cli/setup.ts'

const files = readdirSync('examples').filter((name) => name.endsWith('.yaml'))

test('there are examples', () => {
  expect(files.length).toBeGreaterThanOrEqual(8)
})

test.each(files)('examples/%s says what it shows, verifies, and equals serial training', async (name) => {
  const file = `examples/${name}`
  expect(readFileSync(file, 'utf8')).toMatch(/^# [A-Z]/)
  const report = await checkPlan(await loadPlan(file, {}), { run: true, steps: 2 })
  expect(report.verification.findings).toEqual([])
  expect(report.run!.differences.map(({ kind }) => kind)).toEqual([
    'loss',
    'gradient',
    'parameter',
    'optimizer state',
  ])
  expect(report.run!.differences.filter(({ equal }) => !equal)).toEqual([])
  expect(report.ok).toBe(true)
  // More than 16 ranks run as a miniature, which says what it hides.
  expect(report.run!.miniature !== undefined).toBe(report.plan.ranks.length > 16)
  if (report.run!.miniature !== undefined) expect(report.run!.miniature.hides.length).toBeGreaterThan(0)
})
