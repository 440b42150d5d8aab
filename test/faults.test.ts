import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readCheckpoint } from '../src/data/index.ts'
import {
  commandFile,
  groupIsGone,
  jsonLines,
  meshwright,
  runProcess,
  signalGroup,
} from './support/command.ts'
import { temporaryFolder } from './support/trainingRuns.ts'
import { writeWeights } from './support/weightFiles.ts'

const folder = temporaryFolder()
afterAll(folder.remove)
const directory = folder.path
const at = (...parts: string[]): string => join(directory, ...parts)
const model = 'gpt:layers=2,hidden=32,heads=2,context=64'

beforeAll(async () => {
  // A constant rate, so that a run of more steps begins as one of fewer.
  writeFileSync(
    at('plan.yaml'),
    `meshwright: 1
model: ${model}
mesh: { pipeline: 2, data: 2 }
batch: { samples: 16, microbatches: 4 }
learningRate: { kind: constant, peak: 0.003 }
data: text.txt
`,
  )
  writeFileSync(at('text.txt'), 'words that make a text, over and over. '.repeat(500))
  const isSpoilt = (name: string): boolean => name === 'transformer.h.1.mlp.c_fc.weight'
  await writeWeights(at('nan.safetensors'), model, (name, data) =>
    isSpoilt(name) ? data.fill(Number.NaN, 5, 6) : data,
  )
  await writeWeights(at('huge.safetensors'), model, (name, data) => (isSpoilt(name) ? data.fill(3e38) : data))
})

/** A user and mount namespace of its own, where one may mount. */
const namespace = ['--user', '--map-root-user', '--mount']

const train = (...words: string[]): string[] => ['train', 'plan.yaml', '--json', ...words]
const stateFile = (out: string, step: number): Buffer =>
  readFileSync(at(out, `step-${String(step).padStart(6, '0')}`, 'state.safetensors'))

/** Steps that standard output tells of. */
const stepsIn = (stdout: string): number => stdout.match(/"event":"step"/g)?.length ?? 0

/** The run resumed up to that step leaves the state that an uninterrupted one leaves, bit by bit, and the same metrics. */
async function expectResumed(out: string, steps: number): Promise<void> {
  const whole = `${out}-whole`
  const [resumed, uninterrupted] = await Promise.all([
    meshwright(['train', '--resume', out, '--steps', String(steps)], { directory }),
    meshwright(train('--steps', String(steps), '--out', whole), { directory }),
  ])
  expect([resumed.code, uninterrupted.code]).toEqual([0, 0])
  expect(stateFile(out, steps).equals(stateFile(whole, steps))).toBe(true)
  const metrics = (name: string): unknown[] =>
    jsonLines(readFileSync(at(name, 'metrics.ndjson'), 'utf8')).map(({ step, loss }) => [step, loss])
  expect(metrics(out)).toEqual(metrics(whole))
}

describe.concurrent('a worker that fails in the middle of a step', () => {
  /** Hands the fault to one worker, as an engine's option does in its own tests. */
  const injecting = (fault: object): string[] => {
    const source = `import threads from 'node:worker_threads'
import { syncBuiltinESMExports } from 'node:module'
const fault = ${JSON.stringify(fault)}
threads.Worker = class extends threads.Worker {
  constructor(file, options) {
    const { workerData } = options
    super(file, workerData.rank === fault.rank ? { ...options, workerData: { ...workerData, fault } } : options)
  }
}
syncBuiltinESMExports()`
    return ['--import', `data:text/javascript,${encodeURIComponent(source)}`]
  }

  test.each([
    ['throw', 'RUN_FAILED', /rank 3, stage 1.*, at instruction \d+ \(.+\): this fault was asked for/],
    [
      'exit',
      'RUN_WORKER_DIED',
      /rank 3, stage 1.*, at instruction \d+ \(.+\): its worker ended: exit code 7/,
    ],
  ])(
    '(%s) ends the run with 5, the place and the cause, and what was saved goes on',
    async (kind, code, message) => {
      const out = `worker-${kind}`
      let group: Parameters<typeof groupIsGone>[0] | undefined
      const words = train('--steps', '9', '--checkpoint-every', '1', '--out', out)
      const finished = await meshwright(words, {
        directory,
        nodeFlags: injecting({ rank: 3, step: 2, kind }),
        onOutput: (child) => {
          group = child
        },
      })
      expect(finished.stderr).toMatch(message)
      expect(finished.stderr).toMatch(new RegExp(`^error ${code} `, 'm'))
      expect(finished.stderr).not.toMatch(/^ +at /m)
      expect([finished.code, stepsIn(finished.stdout)]).toEqual([5, 2])
      expect(groupIsGone(group!)).toBe(true)
      expect(readCheckpoint(at(out)).description.step).toBe(2)
      await expectResumed(out, 3)
    },
  )
})

describe.concurrent('a number that is none', () => {
  test.each([
    ['nan', /loss is NaN.*its input transformer\.h\.1\.mlp\.c_fc\.weight already is NaN at element 5/],
    ['huge', /op matmul of block h\.1 .*float32 overflows/],
  ])('(%s) ends the run with rank, stage, micro-batch and op', async (weights, message) => {
    const words = train('--steps', '2', '--set', `model.weights=${weights}.safetensors`)
    const { code, stderr } = await meshwright(words, { directory })
    expect(stderr).toMatch(
      /^error RUN_NOT_FINITE rank [23], stage 1, micro-batch \d, at instruction \d+ \(run /m,
    )
    expect(stderr).toMatch(message)
    expect(code).toBe(5)
  })
})

describe.concurrent('an interrupt', () => {
  test('in the middle of a step ends it, writes a whole checkpoint and exits with 130', async () => {
    let sent: Parameters<typeof groupIsGone>[0] | undefined
    const finished = await meshwright(train('--steps', '100000', '--out', 'interrupted'), {
      directory,
      onOutput: (child, stdout) => {
        if (sent !== undefined || stepsIn(stdout) < 2) return
        sent = child
        // As a terminal does it: to every process of the group.
        signalGroup(child, 'SIGINT')
      },
    })
    expect([finished.code, finished.signal]).toEqual([130, null])
    expect(groupIsGone(sent!)).toBe(true)
    const done = stepsIn(finished.stdout)
    expect(jsonLines(finished.stdout).at(-1)).toMatchObject({ event: 'end', stepsDone: done })
    const { description, skipped } = readCheckpoint(at('interrupted'))
    expect([description.step, skipped]).toEqual([done, []])
    expect(readdirSync(at('interrupted')).filter((name) => name.includes('tmp'))).toEqual([])
    await expectResumed('interrupted', done + 2)
  })

  test('and another one end the run without a checkpoint', async () => {
    let sent: Parameters<typeof groupIsGone>[0] | undefined
    // Steps of some seconds: there is time for a second one.
    const slow = ['--model', 'gpt:layers=4,hidden=256,heads=4,context=128', '--set', 'batch.samples=32']
    const finished = await meshwright(train('--steps', '100000', '--out', 'twice', ...slow), {
      directory,
      onOutput: (child, stdout) => {
        if (sent !== undefined || stepsIn(stdout) < 1) return
        sent = child
        setTimeout(() => signalGroup(child, 'SIGINT'), 100)
        setTimeout(() => signalGroup(child, 'SIGINT'), 200)
      },
    })
    expect([finished.code, finished.signal]).toEqual([130, null])
    expect(groupIsGone(sent!)).toBe(true)
    expect(finished.stderr).not.toMatch(/^error|unexpected/m)
    expect(readdirSync(at('twice')).sort()).toEqual(['metrics.ndjson', 'plan.yaml'])
  })
})

test('a run that was killed goes on from its last whole checkpoint', async () => {
  let sent: Parameters<typeof groupIsGone>[0] | undefined
  const finished = await meshwright(
    train('--steps', '100000', '--checkpoint-every', '1', '--out', 'killed'),
    {
      directory,
      onOutput: (child, stdout) => {
        if (sent !== undefined || stepsIn(stdout) < 3) return
        sent = child
        signalGroup(child, 'SIGKILL')
      },
    },
  )
  expect(finished.signal).toBe('SIGKILL')
  expect(groupIsGone(sent!)).toBe(true)
  // The step of which the event is out may or may not be saved.
  const { description } = readCheckpoint(at('killed'))
  expect(description.step).toBeGreaterThanOrEqual(2)
  await expectResumed('killed', description.step + 2)
})

describe('an output folder that is full', () => {
  test('beyond the size that files may have ends the run with 5 and names the file', async () => {
    const words = [commandFile, ...train('--steps', '2', '--out', 'limited')].join(' ')
    const { code, stderr } = await runProcess(
      'bash',
      ['-c', `ulimit -f 64; exec ${process.execPath} ${words}`],
      {
        directory,
      },
    )
    expect(stderr).toMatch(/^error DATA_WRITE_FAILED .*limited\/step-000002.*EFBIG/m)
    expect(stderr).not.toMatch(/^ +at /m)
    expect(code).toBe(5)
    expect(readdirSync(at('limited')).filter((name) => name.startsWith('step'))).toEqual([])
  })

  test.skipIf(!canMount())('as a disk ends the run with 5, and keeps the checkpoint before', async () => {
    mkdirSync(at('disk'))
    // Room for one checkpoint (a parameter and its two moments, 4 bytes each) and less than a second one.
    const parameters = 36_000
    const size = Math.round(1.6 * parameters * 12)
    const words = [
      commandFile,
      ...train('--steps', '2', '--checkpoint-every', '1', '--out', 'disk/run'),
    ].join(' ')
    const script = `mount -t tmpfs -o size=${size} tmpfs disk && ${process.execPath} ${words}; code=$?; cp -r disk/run kept; exit $code`
    const { code, stderr } = await runProcess('unshare', [...namespace, 'bash', '-c', script], { directory })
    expect(stderr).toMatch(/^error DATA_DISK_FULL .*disk\/run\/step-000002.*ENOSPC/m)
    expect(code).toBe(5)
    expect(existsSync(at('kept'))).toBe(true)
    expect(readCheckpoint(at('kept')).description.step).toBe(1)
  })
})

function canMount(): boolean {
  try {
    execFileSync(
      'unshare',
      ['--user', '--map-root-user', '--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'],
      {
        stdio: 'ignore',
      },
    )
    return true
  } catch {
    return false
  }
}
