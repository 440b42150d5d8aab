import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { groupIsGone, jsonLines, meshwright } from '../support/command.ts'
import { temporaryFolder } from '../support/trainingRuns.ts'

const folder = temporaryFolder()
afterAll(folder.remove)
const directory = folder.path

writeFileSync(
  join(directory, 'plan.yaml'),
  `meshwright: 1
model: gpt:layers=2,hidden=16,heads=2,context=16
mesh: { pipeline: 2 }
batch: { samples: 4, microbatches: 2 }
`,
)

describe.concurrent('a model too large for this machine', () => {
  test.each([
    ['gpt:vocab=2000000,hidden=16384,heads=128,layers=2', 'ENGINE_ARENA_TOO_LARGE', /rank 0 needs .* GiB/],
    ['llama-3-70b', 'ENGINE_ARENA_TOO_LARGE', /rank 0 needs .* GiB/],
  ])('(%s) ends training with 3 at once, in words', async (model, errorCode, message) => {
    const { code, stdout, stderr } = await meshwright(['train', '--model', model, '--json'])
    expect(stderr).toMatch(new RegExp(`^error ${errorCode} `, 'm'))
    expect(stderr).toMatch(message)
    expect(stderr).toMatch(/^ +hint /m)
    expect(stderr).not.toMatch(/^ +at /m)
    expect(code).toBe(3)
    expect(jsonLines(stdout)).toEqual([
      {
        schemaVersion: 1,
        event: 'error',
        error: {
          code: errorCode,
          message: expect.stringMatching(message),
          hint: 'use more stages, smaller micro-batches or a smaller model',
        },
      },
    ])
  })

  test('serially, is checked by its miniature', async () => {
    // 154 million parameters with gradients and two moments of 8 bytes each: on one rank more than 4 GiB.
    const words = [
      'check',
      'plan.yaml',
      '--model',
      'gpt:layers=2,hidden=128,heads=2,context=16,vocab=1200000',
    ]
    const run = [...words, '--run', '--steps', '1']
    const { code, stdout } = await meshwright(run, { directory })
    expect(stdout).toMatch(
      /^ran as its miniature, gpt on 2 ranks: serially in float64, rank 0 needs 4\.\d\d GiB of tensors, .*; this hides:\n +Hidden 128/m,
    )
    expect(stdout).toMatch(/✓ +gradient/)
    expect(code).toBe(0)
  })
})

test('a plan with too much inside its tasks is warned of before anything is made', async () => {
  // 100,000 sequences at once: each of their activations is a terabyte or more.
  const model = 'gpt:layers=1,hidden=2048,heads=16,context=2048'
  const batch = ['--set', 'batch={samples: 100000, microbatches: 1}', '--set', 'mesh={}']
  const words = ['train', '--model', model, ...batch, '--data', 'gone.txt']
  const { code, stderr } = await meshwright(words, { directory })
  expect(stderr).toMatch(
    /^note this may take about \d+\.\d\d GiB of memory, .* inside tasks, .*\nerror DATA_MISSING /,
  )
  expect(code).toBe(2)
})

test('a comparison of which the second engine does not start ends, with nothing left', async () => {
  // The plan has two ranks: the third worker is that of serial training.
  const source = `import threads from 'node:worker_threads'
import { syncBuiltinESMExports } from 'node:module'
let workers = 0
threads.Worker = class extends threads.Worker {
  constructor(file, options) {
    super(++workers === 3 ? new URL('data:text/javascript,process.exit(9)') : file, options)
  }
}
syncBuiltinESMExports()`
  let group: Parameters<typeof groupIsGone>[0] | undefined
  const { code, signal, stdout, stderr } = await meshwright(['check', 'plan.yaml', '--run', '--json'], {
    directory,
    nodeFlags: ['--import', `data:text/javascript,${encodeURIComponent(source)}`],
    onOutput: (child) => {
      group = child
    },
  })
  expect(stderr).toMatch(/^error RUN_WORKER_DIED rank 0.*exit code 9/m)
  expect([code, signal]).toEqual([5, null])
  expect(groupIsGone(group!)).toBe(true)
  expect(JSON.parse(stdout)).toMatchObject({
    schemaVersion: 1,
    ok: false,
    errors: [{ code: 'RUN_WORKER_DIED', message: expect.stringContaining('exit code 9') }],
  })
})

describe.concurrent('with --json', () => {
  test('a check of what cannot be read gives its error as a document too', async () => {
    const { code, stdout, stderr } = await meshwright(['check', 'gone.yaml', '--json'], { directory })
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^error DATA_MISSING /)])
    expect(JSON.parse(stdout)).toEqual({
      schemaVersion: 1,
      ok: false,
      errors: [
        expect.objectContaining({ code: 'DATA_MISSING', message: expect.stringContaining('gone.yaml') }),
      ],
    })
  })

  test('a training of what cannot be read gives its error as the last event', async () => {
    const words = ['train', 'plan.yaml', '--set', 'batch.samples=5', '--json']
    const { code, stdout, stderr } = await meshwright(words, { directory })
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^error PLAN_INVALID /)])
    expect(jsonLines(stdout)).toEqual([
      {
        schemaVersion: 1,
        event: 'error',
        error: {
          code: 'PLAN_INVALID',
          message: expect.stringContaining('5 samples do not divide into 2 micro-batches'),
          at: expect.objectContaining({ path: 'batch.samples' }),
          hint: expect.stringContaining('would work'),
        },
      },
    ])
  })
})
