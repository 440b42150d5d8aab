import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parseProgram } from '../../src/program/index.ts'
import { jsonLines, meshwright, runProcess } from '../support/command.ts'
import { temporaryFolder } from '../support/trainingRuns.ts'

const folder = temporaryFolder()
afterAll(folder.remove)
const directory = folder.path
const colour = '\u001b['

writeFileSync(
  join(directory, 'plan.yaml'),
  `meshwright: 1
model: gpt:layers=2,hidden=16,heads=2,context=16
mesh: { pipeline: 2 }
batch: { samples: 4, microbatches: 2 }
`,
)

describe.concurrent('the command', () => {
  test('by itself prints five things to try, and nothing else', async () => {
    const { code, stdout, stderr } = await meshwright([])
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout.match(/^ +(npx )?meshwright [a-z]+/gm)!.length).toBeGreaterThanOrEqual(5)
  })

  test('says its version and its commands', async () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
    expect((await meshwright(['--version'])).stdout).toBe(`${version}\n`)
    const { code, stdout } = await meshwright(['--help'])
    expect(code).toBe(0)
    for (const command of ['train', 'check', 'show', 'simulate', 'schedule', 'doctor', 'tour'])
      expect(stdout).toContain(`\n  ${command} `)
    expect((await meshwright(['help', 'check'])).stdout).toContain('Usage: meshwright check')
  })

  test('helps without loading what is heavy', async () => {
    const coverage = join(directory, 'coverage')
    await meshwright(['--help'], { environment: { NODE_V8_COVERAGE: coverage } })
    await meshwright(['train', '--help'], { environment: { NODE_V8_COVERAGE: coverage } })
    // What V8 reports on is every script that was loaded.
    const loaded = readdirSync(coverage).flatMap((file) => {
      const report = JSON.parse(readFileSync(join(coverage, file), 'utf8')) as { result: { url: string }[] }
      return report.result.map(({ url }) => url)
    })
    expect(loaded.some((url) => url.includes('/node_modules/commander/'))).toBe(true)
    expect(loaded.filter((url) => /node_modules\/(zod|yaml|onnx|@bufbuild|@huggingface)/.test(url))).toEqual(
      [],
    )
    expect(loaded.filter((url) => /dist\/(plan|program|engine|graph|data)\//.test(url))).toEqual([])
  })

  test.each([
    [['trian'], /there is no command "trian"\n.*did you mean "train"/],
    [['train', '--stepz', '3'], /unknown option '--stepz'/],
    [['train', '--steps', 'three'], /--steps.*'three'.*whole number/],
    [['check', 'a.yaml', 'b.yaml'], /too many arguments/],
    [['show', '--rank', '4'], /there is no rank 4\n.*0 to 3/],
    [['check', '--set', 'mesh'], /write path=value/],
    [['train', '--model', 'gtp:layers=2'], /no model "gtp"\n.*did you mean "gpt"/],
  ])('refuses %j with 2', async (words, message) => {
    const { code, stdout, stderr } = await meshwright(words)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(message)
    expect(stderr).not.toMatch(/^ +at /m)
  })

  test('colours a terminal, unless told not to, and never a pipe', async () => {
    const words = ['check', join(directory, 'plan.yaml')]
    const onTerminal = (environment: Record<string, string>, ...more: string[]) => {
      const command = [process.execPath, 'dist/cli/main.js', ...words, ...more].join(' ')
      return runProcess('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
        environment: { TERM: 'xterm', ...environment },
      })
    }
    expect((await onTerminal({})).stdout).toContain(colour)
    expect((await onTerminal({ NO_COLOR: '1' })).stdout).not.toContain(colour)
    expect((await onTerminal({}, '--no-color')).stdout).not.toContain(colour)
    expect((await meshwright(words, { environment: { FORCE_COLOR: '1' } })).stdout).not.toContain(colour)
  })

  test('ends quietly when its reader has seen enough', async () => {
    const { stdout, stderr } = await runProcess('bash', [
      '-c',
      `${process.execPath} dist/cli/main.js show --full | head -c 100; echo; echo "\${PIPESTATUS[0]}"`,
    ])
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^program 1[\s\S]*\n0\n$/)
  })
})

describe.concurrent('show', () => {
  test('prints a program that reads back', async () => {
    const { code, stdout, stderr } = await meshwright(['show', 'plan.yaml', '--full'], { directory })
    expect([code, stderr]).toEqual([0, ''])
    expect(parseProgram(stdout).roles).toHaveLength(2)
  })

  test('prints one role, a grid, or JSON', async () => {
    const role = await meshwright(['show', 'plan.yaml', '--rank', '1'], { directory })
    expect(role.stdout).toMatch(/role .*pipeline=1/)
    expect(role.stdout).not.toMatch(/role .*pipeline=0/)
    const grid = await meshwright(['show', 'plan.yaml', '--grid'], { directory })
    expect(grid.stdout).toMatch(/rank 0.*F0 .*B0[\s\S]*rank 1.*FB0/)
    const json = await meshwright(['show', '-', '--json', '--rank', '0'], {
      directory,
      input: readFileSync(join(directory, 'plan.yaml'), 'utf8'),
    })
    expect(JSON.parse(json.stdout)).toMatchObject({
      schemaVersion: 1,
      work: { method: 'gradient', stages: 2, microbatches: 2 },
      roles: [{ ranks: [0] }],
    })
  })
})

describe.concurrent('check', () => {
  test('says what is proven, as text and as JSON', async () => {
    const { code, stdout, stderr } = await meshwright(['check', 'plan.yaml'], { directory })
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout.match(/^✓/gm)!.length).toBeGreaterThan(5)
    expect(stdout).not.toContain('✗')
    const json = await meshwright(['check', 'plan.yaml', '--json'], { directory })
    const document = JSON.parse(json.stdout) as { proven: string[] }
    expect(document).toMatchObject({ schemaVersion: 1, ok: true, findings: [], skipped: ['memory'] })
    expect(document.proven).toContain('deadlock')
  })

  test('with --run compares with serial training', async () => {
    const { code, stdout } = await meshwright(['check', 'plan.yaml', '--run', '--steps', '2', '--json'], {
      directory,
    })
    expect(code).toBe(0)
    const { ok, run } = JSON.parse(stdout) as {
      ok: boolean
      run: { steps: number; tolerance: number; differences: { kind: string; equal: boolean }[] }
    }
    expect([ok, run.steps, run.tolerance]).toEqual([true, 2, 1e-9])
    expect(run.differences.map(({ kind, equal }) => [kind, equal])).toEqual([
      ['loss', true],
      ['gradient', true],
      ['parameter', true],
      ['optimizer state', true],
    ])
    const text = await meshwright(['check', 'plan.yaml', '--run', '--steps', '1'], { directory })
    expect(text.stdout).toMatch(/✓ +gradient +28 /)
  })

  test('gives 4 where a readable plan is wrong, on standard output', async () => {
    writeFileSync(
      join(directory, 'wrong.yaml'),
      `meshwright: 1
model: gpt:layers=2,hidden=16,heads=2
batch:
  samples: 5
  microbatchs: 2
`,
    )
    const { code, stdout, stderr } = await meshwright(['check', 'wrong.yaml'], { directory })
    expect([code, stderr]).toEqual([4, ''])
    expect(stdout).toContain(
      'wrong.yaml:5:3 batch.microbatchs: unknown key "microbatchs"; did you mean "microbatches"?',
    )
    const json = await meshwright(['check', 'wrong.yaml', '--json'], { directory })
    expect(json.code).toBe(4)
    expect(JSON.parse(json.stdout)).toMatchObject({
      ok: false,
      errors: [{ code: 'PLAN_UNKNOWN_KEY', at: { line: 5, column: 3 } }],
    })
  })

  test('gives 4 where the plan does not fit its budget', async () => {
    const words = ['check', 'plan.yaml', '--set', 'memory.deviceBytes=100KiB']
    const { code, stdout } = await meshwright(words, { directory })
    expect(code).toBe(4)
    expect(stdout).toMatch(/✗ .*budget/)
  })
})

describe.concurrent('train', () => {
  test('prints results to standard output and progress to standard error', async () => {
    const { code, stdout, stderr } = await meshwright(['train', 'plan.yaml', '--steps', '2'], { directory })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^2 steps in .*tokens\/s\nloss .*unigram entropy/)
    expect(stderr).toMatch(/step 2\/2/)
  })

  test('with --json prints an event a line and, with --out, writes plan, metrics, trace and checkpoint', async () => {
    const words = ['train', 'plan.yaml', '--steps', '3', '--validate-every', '3', '--out', 'run', '--json']
    const { code, stdout } = await meshwright(words, { directory })
    expect(code).toBe(0)
    const events = jsonLines(stdout)
    expect(events.map(({ event }) => event)).toEqual(['start', 'step', 'step', 'step', 'checkpoint', 'end'])
    expect(events.every(({ schemaVersion }) => schemaVersion === 1)).toBe(true)
    expect(events[3]).toMatchObject({ step: 3, loss: expect.any(Number), validationLoss: expect.any(Number) })
    const run = join(directory, 'run')
    const metrics = jsonLines(readFileSync(join(run, 'metrics.ndjson'), 'utf8'))
    expect(metrics.map(({ loss }) => loss)).toEqual(events.slice(1, 4).map(({ loss }) => loss))
    expect(JSON.parse(readFileSync(join(run, 'trace.json'), 'utf8'))).toMatchObject({
      traceEvents: expect.any(Array),
    })
    expect(existsSync(join(run, 'step-000003', 'state.safetensors'))).toBe(true)
    // The plan that was written is one.
    expect((await meshwright(['check', join(run, 'plan.yaml')])).code).toBe(0)

    const again = await meshwright(['train', 'plan.yaml', '--steps', '3', '--out', 'run'], { directory })
    expect(again.code).toBe(2)
    expect(again.stderr).toContain('--resume run')
    // One of its checkpoints stands for the run.
    const onwards = ['train', '--resume', 'run/step-000003', '--steps', '4', '--set', 'seed=5', '--json']
    const more = await meshwright(onwards, { directory })
    expect(jsonLines(more.stdout)[0]).toMatchObject({ event: 'start', firstStep: 3, steps: 4 })
    expect(more.stderr).toContain("note the data order differs from the resumed run's (seed: 5, was 0)")
    expect(readdirSync(run).filter((name) => name.startsWith('step'))).toEqual(['step-000003', 'step-000004'])
    const done = await meshwright(['train', '--resume', 'run', '--steps', '4'], { directory })
    expect([done.code, done.stderr]).toEqual([2, expect.stringContaining('4 of 4 steps')])
  })
})

test('doctor says what can run here', async () => {
  const { code, stdout } = await meshwright(['doctor', '--json'])
  expect(code).toBe(0)
  const { checks } = JSON.parse(stdout) as { checks: { name: string; found: string; ok: boolean }[] }
  expect(checks.find(({ name }) => name === 'Node')).toMatchObject({ found: process.versions.node, ok: true })
  expect(checks.find(({ name }) => name === 'ONNX Runtime')).toMatchObject({ ok: true })
  expect((await meshwright(['doctor'])).stdout).toMatch(/cores +\d/)
})

test('the tour goes through its three acts', async () => {
  const place = join(directory, 'tour')
  mkdirSync(place)
  const { code, stdout } = await meshwright(['tour', '--quick'], { directory: place })
  expect(code).toBe(0)
  for (const act of ['one', 'two', 'three']) expect(stdout).toContain(`Act ${act}`)
  expect(stdout).toMatch(/cycle|circle/)
  expect(readdirSync(join(place, 'runs/tour'))).toContain('metrics.ndjson')
}, 120_000)
