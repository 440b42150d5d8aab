/** `npm run bench:engine`: the local engine against PyTorch, side by side. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command, Option } from 'commander'
import { reportError } from '../src/cli/errors.ts'
import { describeMachine, loadWarning } from '../src/cli/machine.ts'
import { Progress } from '../src/cli/progress.ts'
import { writeFileAtomic } from '../src/data/index.ts'
import { caseName, chooseCases, stepOperations } from './cases.ts'
import { measureCase, measureProduct } from './measure.ts'
import { benchmarkPage } from './page.ts'
import { findPython } from './python.ts'
import type { Effort } from './start.ts'
import { type Case, type CaseResult, type Part, parts, type Report, variants } from './types.ts'

interface Flags {
  readonly quick?: boolean
  readonly only?: Part
  readonly json?: string
}

const fullEffort: Effort = { seconds: 16, minimumRounds: 7, maximumRounds: 15, roundSeconds: 0.5 }
const quickEffort: Effort = { seconds: 4, minimumRounds: 3, maximumRounds: 7, roundSeconds: 0.3 }

/** For the estimate of the time left only: how fast one thread computes, and what starting a case takes. */
const assumedOperationsPerSecond = 5e10
const startSeconds = { a: 6, b: 12, c: 12, d: 12 } as const

const root = fileURLToPath(new URL('../../', import.meta.url))

async function bench(flags: Flags): Promise<void> {
  const machine = describeMachine()
  const python = await findPython(root)
  const whole = flags.quick !== true && flags.only === undefined
  const cases = chooseCases({
    quick: flags.quick === true,
    ...(flags.only === undefined ? {} : { only: flags.only }),
  })
  const effort = flags.quick === true ? quickEffort : fullEffort
  const busy = loadWarning(machine)
  if (busy !== undefined) process.stderr.write(`note  ${busy}\n`)
  const folder = mkdtempSync(join(tmpdir(), 'meshwright-bench-'))
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true })
  process.once('exit', removeFolder)
  // The sides end when their standard input does, and a terminal's Ctrl-C reaches them too.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

  const progress = new Progress('bench')
  const work = [startSeconds.a, ...cases.map((one) => caseSeconds(one, effort))]
  const total = work.reduce((sum, seconds) => sum + seconds, 0)
  let finished = 0
  let text = 'matrix product'
  const began = performance.now()
  const common = {
    root,
    folder,
    python,
    effort,
    onProgress: (fraction: number): void => {
      const current = work[finished] ?? 0
      const before = work.slice(0, finished).reduce((sum, seconds) => sum + seconds, 0)
      progress.update(
        Math.min(0.999, (before + fraction * current) / total),
        `${finished + 1}/${work.length} ${text}`,
      )
    },
  }
  const { product, onnxRuntime } = await measureProduct(common)
  const results: CaseResult[] = []
  for (const one of cases) {
    finished++
    text = caseName(one)
    common.onProgress(0)
    results.push(await measureCase(common, one))
  }
  progress.end()
  const report: Report = {
    schemaVersion: 1,
    date: new Date().toISOString(),
    seconds: (performance.now() - began) / 1000,
    machine,
    versions: { node: process.versions.node, onnxRuntime, torch: python.torch },
    product,
    results,
  }
  if (flags.json !== undefined) writeFileAtomic(flags.json, `${JSON.stringify(report, null, 2)}\n`)
  const page = benchmarkPage(report)
  process.stdout.write(page)
  if (!whole) return
  const path = join(root, 'docs', 'benchmarks.md')
  writeFileAtomic(path, page)
  process.stderr.write(`written: ${path}\n`)
}

function caseSeconds(one: Case, { seconds, minimumRounds }: Effort): number {
  const step = stepOperations(one.shape) / one.ranks / assumedOperationsPerSecond
  const sides = 1 + variants.length
  return startSeconds[one.part] + 5 * sides * step + Math.max(seconds, minimumRounds * sides * step)
}

const command = new Command('bench:engine')
  .description(
    'times training steps of the local engine and of PyTorch in turns; a whole run writes docs/benchmarks.md',
  )
  .option('--quick', 'a few rows in about a minute')
  .addOption(new Option('--only <part>', 'one part: one rank, data 2, pipeline 2, tensor 2').choices(parts))
  .option('--json <file>', 'keep the figures as a JSON document')
  .exitOverride()
  .action(bench)

try {
  await command.parseAsync(process.argv)
} catch (error) {
  if (error instanceof Error && 'exitCode' in error && error.name === 'CommanderError')
    process.exitCode = error.exitCode === 0 ? 0 : 2
  else process.exitCode = reportError(error)
}
