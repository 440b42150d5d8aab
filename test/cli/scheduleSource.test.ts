import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { printSchedule, printScheduleCsv, scheduleChain } from '../../src/schedule/index.ts'
import { commandFile, runProcess } from '../support/command.ts'
import { temporaryFolder } from '../support/trainingRuns.ts'

// In a process of its own, from the build: the test runner would take TypeScript apart itself.

const folder = temporaryFolder()
afterAll(folder.remove)

const schedule = scheduleChain('1f1b', { actors: 2, microbatches: 3 })

/** Loads each source and, from a generator, makes a schedule of 2 actors and 3 micro-batches. Prints a line for each. */
const script = `
import { loadScheduleSource } from ${JSON.stringify(pathToFileURL(join(dirname(commandFile), 'scheduleSource.js')).href)}
import { printSchedule, scheduleChain } from ${JSON.stringify(pathToFileURL(join(dirname(commandFile), '../schedule/index.js')).href)}
for (const source of process.argv.slice(1)) {
  try {
    const loaded = await loadScheduleSource(source)
    const schedule = loaded.schedule ?? scheduleChain(loaded.generator, { actors: 2, microbatches: 3 })
    const { kind, csv, generator } = loaded
    console.log(JSON.stringify({ kind, dialect: csv?.dialect, letters: csv?.letters, name: generator?.name, text: printSchedule(schedule) }))
  } catch (error) {
    if (error.code === undefined) throw error
    console.log(JSON.stringify({ code: error.code, message: error.message, hint: error.hint, at: error.at }))
  }
}`

async function load(sources: readonly string[], input = ''): Promise<Record<string, unknown>[]> {
  const { code, stdout, stderr } = await runProcess(
    process.execPath,
    ['--input-type=module', '--eval', script, '--', ...sources],
    { directory: folder.path, input },
  )
  if (code !== 0) throw new Error(stderr)
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

function write(name: string, content: string | Uint8Array): string {
  writeFileSync(join(folder.path, name), content)
  return name
}

const body = `(graph: Graph, parameters: Record<string, unknown>, costs: unknown): Schedule => {
  const { stages, microbatches, placement } = graph
  const all = order(microbatches)
  const actors = placement.map((_: number, stage: number) => [
    ...all.map((microbatch) => ({ phase: 'F', stage, microbatch })),
    ...all.map((microbatch) => ({ phase: 'B', stage, microbatch })),
  ])
  return { stages, microbatches, placement, actors }
}`
const gpipe = printSchedule(scheduleChain('gpipe', { actors: 2, microbatches: 3 }))

describe('files', () => {
  it('are told apart by what is in them, from a file or from standard input', async () => {
    const text = printSchedule(schedule)
    const compute = printScheduleCsv(schedule, { dialect: 'compute' })
    const sources = [
      write('a.schedule', `# mine\n${text}`),
      write('a.csv', compute),
      write('named-otherwise.txt', printScheduleCsv(schedule, { dialect: 'communication' })),
      write('old.csv', '0F0,0BW0\n'),
    ]
    expect(await load(sources)).toEqual([
      { kind: 'text', text },
      { kind: 'csv', dialect: 'compute', letters: 'current', text },
      { kind: 'csv', dialect: 'communication', letters: 'current', text },
      expect.objectContaining({ kind: 'csv', letters: '2024' }),
    ])
    expect(await load(['-'], text)).toEqual([{ kind: 'text', text }])
    expect(await load(['-'], compute)).toMatchObject([{ kind: 'csv', text }])
  })

  it('that are wrong are refused with the place', async () => {
    mkdirSync(join(folder.path, 'folder.csv'))
    const results = await load([
      write('bad.csv', '0F0,0B0\n1F0,1Q0\n'),
      write('bad.schedule', 'schedule 1\nstages two\n'),
      write('empty', ''),
      write('binary.csv', new Uint8Array([0x30, 0x46, 0xff, 0xfe])),
      'missing.csv',
      'missing.ts',
      'folder.csv',
    ])
    expect(results).toMatchObject([
      { code: 'SCHEDULE_CSV', at: { file: 'bad.csv', line: 2, column: 6 } },
      { code: 'SCHEDULE_TEXT', at: { file: 'bad.schedule', line: 2, column: 8 } },
      { code: 'SCHEDULE_TEXT' },
      { code: 'SCHEDULE_ENCODING' },
      { code: 'DATA_MISSING' },
      { code: 'DATA_MISSING' },
      { code: 'DATA_NOT_A_FILE' },
    ])
  })
})

describe('modules', () => {
  beforeAll(() => {
    write(
      'order.mts',
      'export const order = (count: number): number[] => Array.from({ length: count }, (_, at) => at)\n',
    )
  })

  it('in TypeScript and JavaScript give a generator, with or without its particulars', async () => {
    const types =
      "import type { Schedule, StageGraph as Graph } from 'meshwright/schedule'\nimport { order } from './order.mts'\n"
    const plain = body.replace(/: (?:Graph|Record<string, unknown>|unknown|Schedule|number)(?=[,)\s])/g, '')
    const results = await load([
      write('mine.ts', `${types}export default ${body}\n`),
      write(
        'full.mts',
        `${types}export default { name: 'my-own', parameters: {}, place: (actors: number) => [...Array(actors).keys()], generate: ${body} }\n`,
      ),
      write(
        'plain.mjs',
        `const order = (count) => Array.from({ length: count }, (_, at) => at)\nexport default ${plain}\n`,
      ),
    ])
    expect(results).toEqual([
      { kind: 'generator', name: 'mine', text: gpipe },
      { kind: 'generator', name: 'my-own', text: gpipe },
      { kind: 'generator', name: 'plain', text: gpipe },
    ])
  })

  it('that do not give one, or schedules that are none, are refused with the reason', async () => {
    const cases: readonly (readonly [string, string])[] = [
      ['export const a = 1', 'the module has no default export'],
      ['export default 3', 'the default export is no generator'],
      ['export default { generates: () => 1 }', 'a generator has no "generates"'],
      ['export default { name: "x" }', 'the generator has no function generate'],
      ['export default { place: 1, generate: () => 1 }', 'place of the generator is no function'],
      [
        'export default { parameters: { x: 1 }, generate: () => 1 }',
        'parameter "x" of the generator has no rule',
      ],
      [
        'export default { closedForms: { bubble: 1 }, generate: () => 1 }',
        'closedForms of the generator has no function "bubble"',
      ],
      ['export default (', 'the module cannot be loaded'],
      ['throw new Error("no way")', 'the module cannot be loaded: no way'],
      ['export default () => 1', 'the schedule of NAME is none'],
      ['export default async () => ({})', 'the schedule of NAME is none'],
      ['export default () => { throw new Error("oh") }', 'generate of NAME threw: oh'],
      [
        'export default (graph) => ({ ...graph, microbatches: 1, actors: [[], []] })',
        'the schedule of NAME has 2 stages and 1 micro-batches',
      ],
      [
        'export default (graph) => ({ ...graph, actors: [[], []] })',
        'the schedule of NAME is not valid: 0F0 is missing from actor 0',
      ],
      [
        'export default (graph) => ({ ...graph, actors: [[{ phase: "F" }], []] })',
        'the schedule of NAME is none',
      ],
      [
        'export default { place: () => [5], generate: () => 1 }',
        'place of NAME gives no actor of each stage',
      ],
      ['export default { refuse: () => 7, generate: () => 1 }', 'refuse of NAME gives no reason'],
      [
        'export default { refuse: () => "too few", generate: () => 1 }',
        'NAME cannot schedule these stages: too few',
      ],
      [
        'export default { parameters: { n: { kind: "integer", summary: "n", minimum: 1, maximum: 2, default: 1 } }, generate: (_, { n }) => n }',
        'the schedule of NAME is none',
      ],
    ]
    const results = await load(cases.map(([source], at) => write(`wrong${at}.mjs`, `${source}\n`)))
    for (const [at, [source, message]] of cases.entries())
      expect(results[at]?.['message'], source).toContain(message.replace('NAME', `wrong${at}`))
    const codes = new Set(results.map(({ code }) => code))
    expect([...codes].sort()).toEqual(['SCHEDULE_MODULE', 'SCHEDULE_REFUSED'])
  })
})
