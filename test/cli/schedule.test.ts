import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parseSchedule, printSchedule, scheduleChain } from '../../src/schedule/index.ts'
import { commandFile, meshwright, runProcess } from '../support/command.ts'
import { temporaryFolder } from '../support/trainingRuns.ts'

const folder = temporaryFolder()
afterAll(folder.remove)
const directory = folder.path
const own = printSchedule(scheduleChain('zeropp', { actors: 2, microbatches: 4 }))
writeFileSync(join(directory, 'own.txt'), own)

describe.concurrent('schedule', () => {
  test('says what it has, and helps by name', async () => {
    const bare = await meshwright(['schedule'])
    expect([bare.code, bare.stdout]).toEqual([2, ''])
    for (const name of ['list', 'show', 'check', 'compare', 'search'])
      expect(bare.stderr).toMatch(new RegExp(`^ {2}${name} `, 'm'))
    const help = await meshwright(['schedule', 'show', '--help'])
    expect([help.code, help.stderr]).toEqual([0, ''])
    expect(help.stdout).toMatch(/--unit <n>[\s\S]*zeropp: micro-batches of a unit/)
    const wrong = await meshwright(['schedule', 'shwo'])
    expect([wrong.code, wrong.stdout]).toEqual([2, ''])
    expect(wrong.stderr).toMatch(/Did you mean show/)
  })

  test('loads nothing of a plan, a program or an engine, and no schedules for other help', async () => {
    const loaded = async (...words: string[]): Promise<string[]> => {
      const coverage = join(directory, `coverage-${words.join('-')}`)
      await meshwright(words, { environment: { NODE_V8_COVERAGE: coverage } })
      return readdirSync(coverage).flatMap((file) => {
        const report = JSON.parse(readFileSync(join(coverage, file), 'utf8')) as { result: { url: string }[] }
        return report.result.map(({ url }) => url)
      })
    }
    const heavy = /node_modules\/(zod|yaml|onnx|@bufbuild|@huggingface)|dist\/(plan|program|engine|scene)\//
    expect((await loaded('--help')).filter((url) => /dist\/schedule\//.test(url))).toEqual([])
    const shown = await loaded('schedule', 'show', '1f1b')
    expect(shown.some((url) => /dist\/schedule\//.test(url))).toBe(true)
    expect(shown.filter((url) => heavy.test(url))).toEqual([])
  })

  test('reads standard input, once', async () => {
    const { code, stdout, stderr } = await meshwright(['schedule', 'show', '-', '--text'], { input: own })
    expect([code, stderr, stdout]).toEqual([0, '', own])
    const costs = await meshwright(['schedule', 'show', 'own.txt', '--costs', '-', '--json'], {
      directory,
      input: '{"F": 1, "I": 0.5, "W": 0.5}',
    })
    // Two units of two micro-batches and two chunks on two ranks: 2 (UV + P - 1)(F + B).
    expect(JSON.parse(costs.stdout)).toMatchObject({ schemaVersion: 1, makespanSeconds: 2 * 5 * 2 })
    const twice = await meshwright(['schedule', 'compare', '-', '-'], { input: own })
    expect([twice.code, twice.stdout]).toEqual([2, ''])
    expect(twice.stderr).toMatch(/DATA_STDIN/)
  })

  test.each([
    [0, own],
    [4, own.replace(/0F0\/0 /, '')],
    [2, own.replace('0F0', '0Q0')],
    [2, ''],
    [2, '\u0000\u0001'],
  ])('check ends with %i', async (expected, input) => {
    const { code, stdout, stderr } = await meshwright(['schedule', 'check', '-', '--json'], { input })
    expect(code).toBe(expected)
    expect(JSON.parse(stdout)).toMatchObject({ schemaVersion: 1, ok: expected === 0 })
    expect(stderr).not.toMatch(/^ +at /m)
  })

  test('search ends with 3 where nothing fits', async () => {
    const { code, stdout, stderr } = await meshwright([
      ...['schedule', 'search', '--memory', '0.25', '--ranks', '2', '--microbatches', '2'],
    ])
    expect([code, stdout]).toEqual([3, ''])
    expect(stderr).toMatch(/SCHEDULE_MEMORY.*\n.*at least 1/)
  })

  test.each([
    ['schedule check', 'schedule', 67108864],
    ['check', 'plan', 4194304],
  ])('%s - stops reading an input that does not end', async (command, what, bytes) => {
    const { stdout, stderr } = await runProcess('bash', [
      '-c',
      `yes , | tr -d '\\n' | ${process.execPath} --max-old-space-size=64 ${commandFile} ${command} -; echo "\${PIPESTATUS[2]}"`,
    ])
    expect(stderr).toMatch(`DATA_TOO_LARGE the ${what} on standard input has more than ${bytes} bytes`)
    expect(stdout).toBe('2\n')
  })

  test('what a module prints is no result, and a drawing and a document do not share the output', async () => {
    writeFileSync(
      join(directory, 'talks.mjs'),
      `export default ({ stages, microbatches, placement }) => {
        console.log('hello')
        return { stages, microbatches, placement, actors: placement.map((_, stage) => ['F', 'B'].flatMap((phase) =>
          Array.from({ length: microbatches }, (_, microbatch) => ({ phase, stage, microbatch })))) }
      }`,
    )
    const { stdout, stderr } = await meshwright(['schedule', 'check', './talks.mjs', '--json'], { directory })
    expect([JSON.parse(stdout).ok, stderr]).toEqual([true, 'hello\n'])
    const both = await meshwright(['schedule', 'compare', '1f1b', 'gpipe', '--svg', '--json'])
    expect([both.code, both.stdout]).toEqual([2, ''])
  })

  test('writes a text that is read back', async () => {
    const { stdout } = await meshwright(['schedule', 'show', 'own.txt', '--text'], { directory })
    expect(parseSchedule(stdout)).toEqual(parseSchedule(own))
  })
})
