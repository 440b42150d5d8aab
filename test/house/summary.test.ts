import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'

const root = join(import.meta.dirname, '..', '..')
const folder = mkdtempSync(join(tmpdir(), 'meshwright-summary-'))
afterAll(() => rmSync(folder, { recursive: true }))

type Status = 'passed' | 'failed' | 'pending' | 'todo'

/** One test file of a report in the form that Vitest's JSON reporter shares with Jest. */
function file(name: string, status: 'passed' | 'failed', tests: readonly Status[]): unknown {
  return {
    name: join(root, name),
    status,
    assertionResults: tests.map((test, index) => ({ status: test, fullName: `test ${index}` })),
  }
}

function summary(files: readonly unknown[] | undefined, status: number, others = 0): readonly string[] {
  const report = join(folder, 'report.json')
  rmSync(report, { force: true })
  if (files !== undefined) writeFileSync(report, JSON.stringify({ testResults: files }))
  const script = join(root, 'scripts', 'testSummary.mjs')
  const output = execFileSync(process.execPath, [script, report, String(status), String(others)], {
    cwd: root,
    encoding: 'utf8',
  })
  return output.trimEnd().split('\n')
}

describe('the last line of CI', () => {
  it('counts tests', () => {
    const lines = summary([file('a.test.ts', 'passed', ['passed', 'passed'])], 0)
    expect(lines).toEqual(['0 skipped', '2 passed, 0 failed'])
  })

  it('names what failed and what was skipped', () => {
    const lines = summary([file('a.test.ts', 'failed', ['failed', 'pending', 'todo', 'passed'])], 1)
    expect(lines).toEqual([
      'failed: a.test.ts > test 0',
      'skipped: a.test.ts > test 1',
      'skipped: a.test.ts > test 2',
      '2 skipped',
      '1 passed, 1 failed',
    ])
  })

  it('counts a file that could not be loaded', () => {
    const lines = summary([file('a.test.ts', 'failed', []), file('b.test.ts', 'passed', ['passed'])], 1)
    expect(lines.at(-1)).toBe('1 passed, 1 failed')
  })

  it('never says that nothing failed when the tests ended with an error', () => {
    expect(summary([file('a.test.ts', 'passed', ['passed'])], 1).at(-1)).toBe('1 passed, 1 failed')
    expect(summary(undefined, 2).at(-1)).toBe('0 passed, 1 failed')
  })

  it('counts other checks that failed', () => {
    expect(summary([file('a.test.ts', 'passed', ['passed'])], 0, 2).at(-1)).toBe('1 passed, 2 failed')
  })
})
