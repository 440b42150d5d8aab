import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { swapTwoSends } from '../../src/cli/sabotage.ts'
import { defaultPlan, loadModel, resolveFor } from '../../src/cli/setup.ts'
import { parsePlan } from '../../src/plan/index.ts'
import { formatFinding, lowerPlan, verifyProgram } from '../../src/program/index.ts'
import { type Fence, root, shellWords } from './documents.ts'

/**
 * Plans that a document shows: YAML fences whose first line is a comment with a file name, as `# first.yaml`.
 *
 * @returns contents by file name
 */
export function namedPlans(fences: readonly Fence[]): Map<string, string> {
  const plans = new Map<string, string>()
  for (const { language, lines } of fences) {
    const name = language === 'yaml' ? /^# ([\w-]+\.yaml)$/.exec(lines[0] ?? '')?.[1] : undefined
    if (name !== undefined) plans.set(name, `${lines.join('\n')}\n`)
  }
  return plans
}

/** A folder with these files in it, gone when `use` is done. */
export async function inFolder<T>(
  files: ReadonlyMap<string, string>,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'meshwright-docs-'))
  try {
    for (const [name, text] of files) writeFileSync(join(folder, name), text)
    return await use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Part `output of ARGUMENTS` of a document, or `output of ARGUMENTS, lines 1-4, 8`: what the command prints into a pipe,
 * first standard output, then standard error. Lines that are left out are marked by `…`.
 */
export async function commandOutput(name: string, folder: string): Promise<string> {
  const [, line = '', ranges] = /^output of (.*?)(?:, lines ([\d, -]+))?$/.exec(name) ?? []
  const all = (await run(shellWords(line), folder)).trimEnd().split('\n')
  const shown = ranges === undefined ? all : chosen(all, ranges)
  return ['```console', `$ npx meshwright ${line}`, ...shown, '```'].join('\n')
}

function chosen(all: readonly string[], ranges: string): string[] {
  const lines: string[] = []
  let next = 1
  for (const range of ranges.split(',')) {
    const [from = 1, to = from] = range.split('-').map(Number)
    if (from > next) lines.push('…')
    lines.push(...all.slice(from - 1, to))
    next = to + 1
  }
  if (next <= all.length) lines.push('…')
  return lines
}

function run(words: readonly string[], folder: string): Promise<string> {
  const command = [join(root, 'dist', 'cli', 'main.js'), ...words]
  const env = { ...process.env, NO_COLOR: '1' }
  return new Promise((resolve) => {
    execFile(process.execPath, command, { cwd: folder, env, timeout: 60_000 }, (_, stdout, stderr) => {
      resolve(stdout + stderr)
    })
  })
}

/** The third act of the tour: the default plan's program with two sends swapped, and the circle that results. */
export function refusedProgram(): string {
  const document = parsePlan(defaultPlan)
  const model = loadModel({ document, directory: root, source: 'the default plan' })
  const { program, what } = swapTwoSends(lowerPlan(resolveFor(document, model), model))
  const finding = verifyProgram(program).findings.find(({ cycle }) => cycle !== undefined)
  if (finding === undefined) throw new Error('the swapped sends make no circle')
  return ['```text', what, '', ...formatFinding(program, finding), '```'].join('\n')
}
