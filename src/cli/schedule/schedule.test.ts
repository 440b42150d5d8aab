import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { MeshwrightError } from '../../base/index.ts'
import {
  parseSchedule,
  parseScheduleCsv,
  printSchedule,
  printScheduleCsv,
  scheduleChain,
  scheduleGenerators,
} from '../../schedule/index.ts'
import { scheduleCommand } from '../schedule.ts'

let folder: string
const file = (name: string): string => join(folder, name)
const write = (name: string, text: string): void => writeFileSync(file(name), text)
const costs = (value: unknown): string => {
  write('costs.json', typeof value === 'string' ? value : JSON.stringify(value))
  return file('costs.json')
}

const own = scheduleChain('1f1b', { actors: 2, microbatches: 2 })
const interleaved = scheduleChain('interleaved-1f1b', { actors: 2, microbatches: 4 })

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'meshwright-schedule-'))
  write('own.txt', printSchedule(own))
  write('own.csv', printScheduleCsv(interleaved, { dialect: 'communication' }))
  write(
    'circle.txt',
    'schedule 1\nstages 2 on 0,1\nmicrobatches 2\nactor 0: 0F0 0B0 0F1 0B1\nactor 1: 1F0 1F1 1B0 1B1\n',
  )
  write('own.mjs', 'export default { parameters: {}, generate: (graph) => ({ ...graph, actors: [] }) }\n')
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Output {
  readonly stdout: string
  readonly code: number
}

/** Runs `schedule ...words` in this process; its errors are thrown. */
async function run(...words: string[]): Promise<Output> {
  let stdout = ''
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
      stdout += String(text)
      return true
    }),
    vi.spyOn(process.stderr, 'write').mockReturnValue(true),
  ]
  const group = scheduleCommand().exitOverride()
  for (const command of group.commands) command.exitOverride()
  try {
    await group.parseAsync(words, { from: 'user' })
    return { stdout, code: Number(process.exitCode ?? 0) }
  } finally {
    process.exitCode = undefined
    for (const spy of spies) spy.mockRestore()
  }
}

interface Measured {
  readonly name: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly stages: number
  readonly placement: readonly number[]
  readonly makespanSeconds: number
  readonly bubbleFraction: number
  readonly peakActivations: readonly number[]
  readonly worstPeak: number
  readonly lowerBoundSeconds: number
  readonly hops: number
  readonly gathers: number
  readonly closedForms: { readonly makespanSeconds: number | null; readonly peakUntilWeights: unknown[] }
}

async function json<T = Measured>(...words: string[]): Promise<T> {
  return JSON.parse((await run(...words, '--json')).stdout) as T
}

const shown = (...words: string[]): Promise<Measured & { readonly actors: string[][] }> =>
  json('show', ...words)

const measured = async (...words: string[]): Promise<readonly Measured[]> =>
  (await json<{ readonly schedules: readonly Measured[] }>(...words)).schedules

async function refusal(...words: string[]): Promise<{ readonly code: string; readonly text: string }> {
  try {
    await run(...words)
  } catch (error) {
    const { code, message } = error as Error & { readonly code: string }
    const more = error instanceof MeshwrightError ? `${JSON.stringify(error.at)} ${error.hint}` : ''
    return { code, text: `${message} ${more}` }
  }
  throw new Error(`not refused: ${words.join(' ')}`)
}

describe('show', () => {
  test('1F1B with hops and different stages, by hand', async () => {
    const given = { F: [1, 2], I: [3, 4], W: [0.5, 0.25], hop: 0.125 }
    const one = await shown('1f1b', '--ranks', '2', '--microbatches', '1', '--costs', costs(given))
    // There, back, and both hops; the busiest rank works 6.25 and the first rank spans all.
    expect(one.makespanSeconds).toBeCloseTo(1 + 0.125 + 2 + 4.25 + 0.125 + 3.5, 12)
    expect(one.bubbleFraction).toBeCloseTo(1 - 6.25 / 11, 12)
    expect([one.peakActivations, one.hops, one.placement]).toEqual([[1, 1], 2, [0, 1]])
    expect(one.closedForms.makespanSeconds).toBeNull()
    expect(one.actors).toEqual([
      ['0F0', '0B0'],
      ['1F0', '1B0'],
    ])
  })

  test('ZeroPP has the bubbles of its paper: (P - 1)/(UV + P - 1), less with W apart', async () => {
    const shape = ['--ranks', '4', '--microbatches', '8', '--chunks', '2', '--unit', '4']
    const whole = await shown('zeropp', ...shape)
    expect(whole.bubbleFraction).toBeCloseTo(3 / 11, 12)
    expect(whole.peakActivations).toEqual([8, 8, 8, 8])
    expect((await shown('zeropp', ...shape, '--backward', 'split')).bubbleFraction).toBeCloseTo(0.2, 12)
    expect(await shown('zeropp:chunks=2,unit=4', ...shape.slice(0, 4))).toEqual(whole)
    expect(await shown('zeropp', '--set', 'unit=4', '--set', 'chunks=2', ...shape.slice(0, 4))).toEqual(whole)
  })

  test('costs are of one stage: two chunks work twice as long as one', async () => {
    const file = costs({ F: 0.5, I: 0.25, W: 0.25 })
    const one = await shown('interleaved-1f1b', '--ranks', '4', '--microbatches', '8', '--costs', file)
    expect(one.makespanSeconds).toBeCloseTo(2 * 8 + 3, 12)
    expect(one.closedForms.makespanSeconds).toBeCloseTo(2 * 8 + 3, 12)
    expect(one.bubbleFraction).toBeCloseTo(3 / 19, 12)
  })

  test('stages decide how many chunks there are, where nothing else does', async () => {
    const one = await shown('interleaved-1f1b', '--ranks', '4', '--stages', '12', '--microbatches', '4')
    expect(one.stages).toBe(12)
    expect(one.parameters['chunks']).toBe(3)
    expect(one.placement).toEqual([0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3])
  })

  test('text and CSV are read back', async () => {
    const shape = { actors: 3, microbatches: 6 }
    for (const name of scheduleGenerators.keys()) {
      const { stdout } = await run('show', name, '--ranks', '3', '--microbatches', '6', '--text')
      expect(parseSchedule(stdout)).toEqual(scheduleChain(name, shape))
    }
    const { stdout } = await run('show', 'zb-v', '--ranks', '3', '--csv')
    expect(parseScheduleCsv(stdout).schedule).toEqual(scheduleChain('zb-v', shape))
    expect((await run('show', file('own.csv'), '--csv', 'communication')).stdout).toBe(
      readFileSync(file('own.csv'), 'utf8'),
    )
  })

  test('a CSV is what PyTorch reads, cell by cell', async () => {
    const { stdout } = await run('show', 'gpipe', '--ranks', '2', '--microbatches', '2', '--csv')
    expect(stdout).toBe('0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n')
  })

  test('draws in characters that fit, and as SVG', async () => {
    const drawn = (await run('show', '1f1b', '--ranks', '2', '--microbatches', '2')).stdout
    expect(drawn).toMatch(/rank 0 {2}F0 F1 {7}B0--- B1---\n|rank 0 .*F0 F1 +B0---/)
    expect(drawn).toContain('time       9 (closed form: 9)')
    const odd = costs({ F: 0.1, I: 0.1, W: 0.05, hop: 0.013 })
    const wide = (await run('show', '1f1b', '--costs', odd)).stdout
    expect(wide).toContain('B7')
    expect(Math.max(...wide.split('\n').map((line) => line.length))).toBeLessThanOrEqual(120)
    const svg = (await run('show', '1f1b', '--svg')).stdout
    expect(svg).toMatch(/^<svg [\s\S]*rank 3[\s\S]*<\/svg>\n$/)
    expect((await run('show', '1f1b', '--svg', file('one.svg'))).stdout).toBe('')
    expect(readFileSync(file('one.svg'), 'utf8')).toBe(svg)
    expect((await run('show', '1f1b', '--svg', '--theme', 'auto')).stdout).toContain('prefers-color-scheme')
  })

  test.each([
    [['zerop'], 'SCHEDULE_UNKNOWN', /did you mean "zeropp"/],
    [['1f1b', '--stages', '8'], 'SCHEDULE_STAGES', /--stages 4.*--ranks 8.*interleaved-1f1b/],
    [['zeropp', '--chunks', '3', '--stages', '8'], 'SCHEDULE_STAGES', /--chunks 2/],
    [['zeropp', '--unit', '20', '--microbatches', '8'], 'SCHEDULE_REFUSED', /larger than the batch/],
    [['1f1b', '--chunks', '2'], 'SCHEDULE_PARAMETER', /no parameter "chunks"/],
    [['zeropp:chunk=2'], 'SCHEDULE_PARAMETER', /did you mean "chunks"/],
    [['zeropp', '--set', 'chunks'], 'SCHEDULE_PARAMETER', /key=value/],
    [['1f1b', '--ranks', '0'], 'commander.invalidArgument', /whole number from 1/],
    [['1f1b', '--microbatches', 'NaN'], 'commander.invalidArgument', /whole number from 1/],
    [['1f1b', '--ranks', '4096', '--microbatches', '65536'], 'SCHEDULE_STAGES', /at most 488/],
    [['1f1b', '--text', '--json'], 'commander.conflictingOption', /--json/],
    [['1f1b', '--unitt', '3'], 'commander.unknownOption', /--unitt/],
  ])('refuses %j', async (words, code, text) => {
    const refused = await refusal('show', ...words)
    expect(refused.code).toBe(code)
    expect(refused.text).toMatch(text)
  })

  test.each([
    ['{"F": 1, "I": 1', /not JSON/],
    ['null', /no object/],
    [{ F: 1, I: 1 }, /W is missing/],
    [{ F: 1, I: 1, W: 1, hop: [1, 2] }, /hop is a list of 2/],
    [{ F: 1, I: -1, W: 1 }, /I is -1/],
    [{ F: [1, 2], I: 1, W: 1 }, /F lists 2 stages of 4/],
    [{ F: 1, I: 1, W: 1, B: 2 }, /no "B"/],
    ['{"F": 1, "I": 1, "W": 1e999}', /W is Infinity/],
  ])('refuses costs %j, naming the file', async (given, text) => {
    const refused = await refusal('show', '1f1b', '--costs', costs(given))
    expect(refused.code).toBe('SCHEDULE_COSTS')
    expect(refused.text).toMatch(text)
    expect(refused.text).toContain('costs.json')
  })

  test('a schedule in full keeps its shape, and has to be valid', async () => {
    expect((await shown(file('own.txt'), '--ranks', '2')).stages).toBe(2)
    expect(await refusal('show', file('own.txt'), '--ranks', '3')).toMatchObject({ code: 'SCHEDULE_STAGES' })
    expect(await refusal('show', file('own.txt'), '--chunks', '3')).toMatchObject({
      code: 'SCHEDULE_PARAMETER',
    })
    const refused = await refusal('show', file('circle.txt'))
    expect(refused.code).toBe('SCHEDULE_DEADLOCK')
    expect(refused.text).toContain('>0B0<')
  })
})

describe('list and compare', () => {
  test('list has every schedule of the registry, measured where a shape is given', async () => {
    const names = [...scheduleGenerators.keys()]
    const bare = await json<{ schedules: { name: string; summary: string }[] }>('list')
    expect(bare.schedules.map(({ name }) => name)).toEqual(names)
    expect((await run('list')).stdout).toContain(scheduleGenerators.get('zeropp')!.source)
    const { schedules } = await json<{
      readonly schedules: readonly { name: string; measures?: Measured; refused?: string }[]
    }>('list', '--ranks', '3', '--microbatches', '4')
    expect(schedules.map(({ name }) => name)).toEqual(names)
    for (const { measures, refused } of schedules) {
      if (measures === undefined) expect(refused).toMatch(/cannot schedule/)
      else expect(measures.makespanSeconds).toBeGreaterThanOrEqual(measures.lowerBoundSeconds)
    }
    // 1F1B: (M + S - 1)(F + I + W).
    expect(schedules.find(({ name }) => name === '1f1b')!.measures!.makespanSeconds).toBe(6 * 3)
  })

  test('schedules with more chunks do the same work', async () => {
    const [one, two, four] = await measured(
      ...['compare', '1f1b', 'interleaved-1f1b:chunks=2', 'interleaved-1f1b:chunks=4'],
      ...['--ranks', '4', '--microbatches', '8', '--costs', costs({ F: [1, 1, 1, 1], I: 1, W: 1 })],
    )
    // (P - 1)/V of idle time, 8 x 3 of work.
    expect(one!.makespanSeconds).toBeCloseTo(24 + 9, 12)
    expect(two!.makespanSeconds).toBeCloseTo(24 + 9 / 2, 12)
    expect(four!.makespanSeconds).toBeCloseTo(24 + 9 / 4, 12)
    // P - 1 hops there and back with one chunk, VP - 1 with several.
    expect([one!.hops, two!.hops, four!.hops]).toEqual([3, 7, 15].map((hops) => hops * 16))
    // Megatron: 1 + (P - 1)/(PV) times the memory of 1F1B, without the one that is under way.
    expect([one!.worstPeak, two!.worstPeak]).toEqual([4, (4 + 6 + 1) / 2])
  })

  test('ZeroPP gathers each parameter twice a unit', async () => {
    const [zeropp] = await measured(
      'compare',
      'zeropp',
      '--chunks',
      '3',
      '--unit',
      '2',
      '--microbatches',
      '8',
    )
    expect(zeropp!.gathers).toBe((2 * 8) / 2)
  })

  test('lists of costs are by rank', async () => {
    const refused = await refusal('compare', 'zeropp', '--costs', costs({ F: [1, 2], I: 1, W: 1 }))
    expect(refused.text).toMatch(/F lists 2 ranks of 4/)
  })

  test('others follow a schedule in full', async () => {
    const [mine, other] = await measured('compare', file('own.txt'), 'gpipe')
    expect([mine!.makespanSeconds, other!.makespanSeconds]).toEqual([9, 9])
    expect(other!.stages).toBe(2)
    const svg = (await run('compare', file('own.txt'), 'gpipe', '--svg')).stdout
    expect(svg).toMatch(/A \S+own\.txt, B gpipe[\s\S]*>A rank 1<[\s\S]*>B rank 0</)
    expect(await refusal('compare', file('own.txt'), file('own.csv'))).toMatchObject({
      code: 'SCHEDULE_STAGES',
    })
    expect(await refusal('compare', '1f1b', 'gpipe', '--unit', '3')).toMatchObject({
      code: 'SCHEDULE_PARAMETER',
    })
  })
})

describe('search', () => {
  test('all that is found keeps the limit, shortest first, under names that make it again', async () => {
    const shape = ['--ranks', '3', '--microbatches', '6']
    const text = (await run('search', '--memory', '2.5', ...shape)).stdout
    const found = await measured('search', '--memory', '2.5', ...shape)
    expect(found.length).toBeGreaterThan(3)
    for (const { worstPeak } of found) expect(worstPeak).toBeLessThanOrEqual(2.5)
    const times = found.map(({ makespanSeconds }) => makespanSeconds)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    const first = /^(\S+) +\d+ +([\d.]+)/m.exec(text.split('\n').slice(3).join('\n'))!
    const [again] = await measured('compare', first[1]!, ...shape)
    expect(again!.makespanSeconds).toBeCloseTo(Number(first[2]), 4)
    expect(again!.makespanSeconds).toBe(times[0])
  })

  test('in the memory of 1F1B, ZB-V leaves no bubble; in less, units do', async () => {
    const [best] = await measured('search', '--memory', '4', '--ranks', '4', '--microbatches', '8')
    expect(best!.bubbleFraction).toBeLessThanOrEqual(1e-9)
    const least = await measured('search', '--memory', '1', '--ranks', '4', '--microbatches', '4')
    for (const { worstPeak } of least) expect(worstPeak).toBe(1)
  })

  test('says what would fit where nothing does', async () => {
    const refused = await refusal('search', '--memory', '0.5', '--ranks', '2', '--microbatches', '2')
    expect(refused.code).toBe('SCHEDULE_MEMORY')
    expect(refused.text).toContain('at least 1')
    expect(await refusal('search', '--memory', 'NaN')).toMatchObject({ code: 'commander.invalidArgument' })
    expect(await refusal('search', '--ranks', '4')).toMatchObject({
      code: 'commander.missingMandatoryOptionValue',
    })
    expect(
      await refusal('search', '--memory', '4', '--ranks', '4096', '--microbatches', '65536'),
    ).toMatchObject({ code: 'SCHEDULE_STAGES' })
  })
})

describe('check', () => {
  test('says where more may be wrong than it shows', async () => {
    write('short.txt', 'schedule 1\nstages 1 on 0\nmicrobatches 200\nactor 0: 0F0 0B0\n')
    const { stdout } = await run('check', file('short.txt'))
    expect(stdout.match(/SCHEDULE_MISSING/g)).toHaveLength(100)
    expect(stdout).toMatch(/\nthese are the first 100 findings; there may be more\n$/)
  })

  test.each([
    ['own.txt', /text form[\s\S]*8 actions/],
    ['own.csv', /CSV, with \d+ communications[\s\S]*4 stages on 2 ranks, 4 micro-batches, 32 actions/],
  ])('%s is clean', async (name, text) => {
    const { stdout, code } = await run('check', file(name))
    expect(code).toBe(0)
    expect(stdout).toMatch(text)
  })

  test('letters of 2024 are named', async () => {
    write('old.csv', '0F0,0BW0\n1F0,1B0,1W0\n')
    const report = await json<Record<string, unknown>>('check', file('old.csv'))
    expect(report).toMatchObject({
      ok: true,
      form: 'csv',
      dialect: 'compute',
      letters: '2024',
      complete: true,
    })
  })

  test('a circle is drawn and named, and ends with 4', async () => {
    const { stdout, code } = await run('check', file('circle.txt'))
    expect(code).toBe(4)
    expect(stdout).toMatch(/✓ every action once[\s\S]*✗ runs[\s\S]*>0B0<[\s\S]*>1F1</)
    const { findings } = await json<{ findings: Record<string, unknown>[] }>('check', file('circle.txt'))
    expect(findings).toHaveLength(1)
    expect(findings[0]!['cycle']).toEqual([
      { actor: 0, index: 1, action: '0B0', waitsFor: '1B0' },
      { actor: 1, index: 1, action: '1F1', waitsFor: '0F1' },
    ])
    const annotated = (await run('check', file('circle.txt'), '--format', 'github')).stdout
    expect(annotated).toMatch(/^::error file=.*circle\.txt,title=SCHEDULE_DEADLOCK::2 actors wait.*%0A.*\n$/)
  })

  test('a send that is missing from a file with communication is found', async () => {
    write('lacking.csv', readFileSync(file('own.csv'), 'utf8').replace('1SEND_F0,', ''))
    const { stdout, code } = await run('check', file('lacking.csv'))
    expect(code).toBe(4)
    expect(stdout).toMatch(/✗ every action once[\s\S]*SCHEDULE_MISSING 1SEND_F0 is missing from actor 1/)
  })

  test('a generator that makes no schedule was read: 4', async () => {
    const { stdout, code } = await run('check', file('own.mjs'), '--ranks', '2')
    expect(code).toBe(4)
    expect(stdout).toContain('SCHEDULE_MODULE')
  })

  test.each([
    ['ragged.csv', '0F0,0B0\n\n', /row 2 has no action/],
    ['letters.csv', '0F0,0X0\n', /no action "X"/],
    ['twice.csv', '0F0,0B0\n0F1,0B1\n', /stage 0 on row 2.*row 1/],
    ['trailing.csv', '0F0,0B0junk\n', /"junk" after the action|junk/],
    ['mixed.csv', '0F0,0BW0\n1F0,1I0,1W0\n', /./],
  ])('%s cannot be read, and the place is given', async (name, text, message) => {
    write(name, text)
    const refused = await refusal('check', file(name))
    expect(refused.code).toBe('SCHEDULE_CSV')
    expect(refused.text).toMatch(message)
    expect(refused.text).toMatch(/"line":\d,"column":\d/)
  })
})
