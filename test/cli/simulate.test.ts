import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readChromeTrace, traceSeconds } from '../../src/trace/index.ts'
import { meshwright } from '../support/command.ts'
import { temporaryFolder } from '../support/trainingRuns.ts'

const folder = temporaryFolder()
const directory = folder.path

const plan = `meshwright: 1
model: gpt:layers=4,hidden=16,heads=2,context=16
mesh: { pipeline: 2, data: 2 }
schedule: gpipe
batch: { samples: 8, microbatches: 4 }
clip: null
`

beforeAll(() => {
  writeFileSync(join(directory, 'plan.yaml'), plan)
  writeFileSync(join(directory, 'costs.json'), '{"F": 1, "I": 2, "W": 3}')
  mkdirSync(join(directory, 'full'))
  writeFileSync(join(directory, 'negative.json'), '{"F": 1, "I": 2, "W": -3}')
})

const simulate = (...words: string[]): ReturnType<typeof meshwright> =>
  meshwright(['simulate', 'plan.yaml', ...words], { directory })

describe.concurrent('simulate', () => {
  test('predicts the step of a plan: GPipe takes (m + p - 1)(F + I + W)', async () => {
    const { code, stdout, stderr } = await simulate('--costs', 'costs.json', '--json')
    expect([code, stderr]).toEqual([0, ''])
    const document = JSON.parse(stdout) as Record<string, unknown> & {
      readonly ranks: readonly { readonly idleSeconds: number; readonly peakBytes: number }[]
    }
    expect(document).toMatchObject({
      schemaVersion: 1,
      ok: true,
      timeUnit: 'seconds',
      stepSeconds: 5 * 6,
      idleFraction: expect.closeTo(1 / 5, 12),
      // Two borders, four micro-batches, two replicas with a sample of 16 tokens of 16 numbers of 4 bytes each.
      bytes: { p2p: 2 * 4 * 2 * 16 * 16 * 4, allGather: 0, reduceScatter: 0 },
      plan: { ranks: 4, schedule: 'gpipe', microbatches: 4, zero: 0, fits: null },
    })
    expect(document.ranks.map(({ idleSeconds }) => idleSeconds)).toEqual([6, 6, 6, 6])
    for (const { peakBytes } of document.ranks) expect(peakBytes).toBeGreaterThan(0)
  })

  test('takes costs from standard input, and the default plan', async () => {
    const { code, stdout, stderr } = await meshwright(['simulate', '--costs', '-'], {
      input: '{"F": 1, "I": 1, "W": 1}',
    })
    expect([code, stderr]).toEqual([0, ''])
    // (4 + 2 - 1)(F + I + W).
    expect(stdout).toMatch(/^the default plan: gpt on 4 ranks[\s\S]*^step {2}15 s$/m)
    const both = await meshwright(['simulate', '-', '--costs', '-'], { input: plan })
    expect([both.code, both.stdout]).toEqual([2, ''])
  })

  test('writes a trace that reads back and a drawing, whole', async () => {
    const words = ['--costs', 'costs.json', '--trace', 'step.json', '--svg', 'step.svg', '--theme', 'dark']
    const { code, stderr } = await simulate(...words, '--set', 'memory.deviceBytes=1GiB')
    expect([code, stderr]).toEqual([0, 'wrote step.json\nwrote step.svg\n'])
    const trace = readChromeTrace(readFileSync(join(directory, 'step.json'), 'utf8'))
    expect([trace.ranks, traceSeconds(trace)]).toEqual([4, 30])
    const forwards = trace.events.filter(({ rank, phase }) => rank === 0 && phase === 'F')
    expect(forwards.map(({ start, end }) => [start, end])).toEqual([0, 1, 2, 3].map((at) => [at, at + 1]))
    const svg = readFileSync(join(directory, 'step.svg'), 'utf8')
    expect(svg).toMatch(/^<svg [\s\S]*capacity[\s\S]*<\/svg>\n$/)
  })

  test('says that a plan does not fit, and simulates it', async () => {
    const { code, stdout, stderr } = await simulate('--json', '--set', 'memory.deviceBytes=1KiB')
    expect(code).toBe(0)
    expect(stderr).toMatch(/does not fit memory\.deviceBytes/)
    expect(JSON.parse(stdout)).toMatchObject({ plan: { deviceBytes: 1024, fits: false } })
  })

  test.each([
    [['--costs', 'negative.json'], /SIMULATE_COSTS negative\.json W: W is -3\n.*a number from 0/],
    [['--costs', 'gone.json'], /DATA_MISSING.*gone\.json/],
    [['--costs', '.'], /DATA_NOT_A_FILE/],
    [['--set', 'zero=3', '--set', 'mesh.data=1'], /there is one replica.*\n.*mesh\.data to 2/],
    [['--svg', join('nowhere', 'step.svg')], /nowhere/],
    [['--trace', 'full'], /DATA_NOT_WRITABLE full cannot be written/],
    [['--svg', 'a.svg', '--trace', 'a.svg'], /the same file/],
    [['--width', '800'], /--width is for --svg/],
    [['--svg', '-'], /name of a file/],
    [['--engine', 'fast'], /independent, turns, local/],
  ])('refuses %j with 2', async (words, message) => {
    const { code, stdout, stderr } = await simulate(...words)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(message)
    expect(stderr).not.toMatch(/^ +at /m)
  })

  test('refuses with a document where one is asked for', async () => {
    const { code, stdout } = await simulate('--costs', 'negative.json', '--json')
    expect(code).toBe(2)
    expect(JSON.parse(stdout)).toMatchObject({
      schemaVersion: 1,
      ok: false,
      errors: [{ code: 'SIMULATE_COSTS', at: { file: 'negative.json', path: 'W' } }],
    })
  })
})

afterAll(folder.remove)

test('nothing is left of what was refused', () => {
  const expected = ['costs.json', 'full', 'negative.json', 'plan.yaml', 'step.json', 'step.svg']
  expect(readdirSync(directory).sort()).toEqual(expected)
})
