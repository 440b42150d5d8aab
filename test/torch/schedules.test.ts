import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findPython, type Python, torchEnvironment } from '../../bench/python.ts'
import { MeshwrightError } from '../../src/base/index.ts'
import {
  entryActions,
  formatCsvEntry,
  parseScheduleCsv,
  printScheduleCsv,
  type Schedule,
  scheduleChain,
  scheduleGenerators,
  verifyCommunication,
} from '../../src/schedule/index.ts'
import { runProcess } from '../support/command.ts'

// The schedules as PyTorch's own runtime runs them, from the files that are written here. Needs a Python with PyTorch.

const ranks = 4
const microbatches = 8
const full = process.env['MESHWRIGHT_FULL'] === '1'
const always = ['gpipe', '1f1b', 'interleaved-1f1b', 'zb-h1', 'zb-v', 'zeropp', 'dualpipe-v']
const cases: readonly (readonly [string, string, Readonly<Record<string, unknown>>])[] = [
  ...[...scheduleGenerators.keys()]
    .filter((name) => full || always.includes(name))
    .map((name) => [name, name, {}] as const),
  ['zeropp-split', 'zeropp', { backward: 'split', unit: 4 }],
]
const schedules = new Map(
  cases.map(([title, name, parameters]) => [
    title,
    scheduleChain(name, { actors: ranks, microbatches }, parameters),
  ]),
)
const root = fileURLToPath(new URL('../../', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'meshwright-torch-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function pythonOrWhyNot(): Promise<{ readonly python?: Python; readonly why?: string }> {
  try {
    return { python: await findPython(root) }
  } catch (error) {
    if (error instanceof MeshwrightError) return { why: `${error.message}; ${error.hint}` }
    throw error
  }
}

interface Job {
  readonly name: string
  readonly schedule: Schedule
  readonly format: 'compute_only' | 'compute_comms'
  readonly text: string
}

const jobs: readonly Job[] = [...schedules].flatMap(([name, schedule]): Job[] => [
  {
    name: `${name}-compute`,
    schedule,
    format: 'compute_only',
    text: printScheduleCsv(schedule, { dialect: 'compute' }),
  },
  {
    name: `${name}-communication`,
    schedule,
    format: 'compute_comms',
    text: printScheduleCsv(schedule, { dialect: 'communication' }),
  },
])

/** Files that PyTorch loads and runs to wrong gradients without a word, and what is said of them here. */
const wrong = [
  {
    name: 'no-reduction',
    change: (text: string): string => text.replace(',3REDUCE_GRAD', ''),
    format: 'compute_comms' as const,
    finding: '3REDUCE_GRAD is missing from actor 3',
  },
  {
    name: 'crossed-receives',
    change: (text: string): string => text.replace(',1RECV_F1', '').replace('1RECV_F0', '1RECV_F1,1RECV_F0'),
    format: 'compute_comms' as const,
    finding: 'message 0 from actor 0 to actor 1 is sent by 0SEND_F0',
  },
  {
    name: 'losses-out-of-order',
    change: (text: string): string => text.replace('3F0,3F1', '3F1,3F0'),
    format: 'compute_only' as const,
    finding: '3F1 comes as forward 1 of the last stage',
  },
].map(({ name, change, format, finding }): Job & { readonly finding: string } => {
  const schedule = schedules.get('gpipe')!
  const dialect = format === 'compute_only' ? 'compute' : 'communication'
  const text = printScheduleCsv(schedule, { dialect })
  expect(change(text)).not.toBe(text)
  return { name, schedule, format, text: change(text), finding }
})

/** Cells with actions of stage 0, and such that are nearly so. */
const cells: readonly string[] = fc.sample(
  fc
    .array(
      fc.constantFrom(
        ...['0F1', '0B0', '0I2', '0W3', '0SEND_F1', '0UNSHARD', '0REDUCE_GRAD', '(0F1;0B0)OVERLAP_F_B'],
        ...['F', 'B', 'BW', '0', '1', ' ', '(', ')', ';', 'OVERLAP_F_B', 'x', '_', ''],
      ),
      { minLength: 1, maxLength: 3 },
    )
    .map((parts) => parts.join('')),
  { numRuns: 400, seed: 20_131 },
)

interface TorchAnswers {
  /** Largest relative difference of any gradient from the serial run, by job. */
  readonly worst: ReadonlyMap<string, number>
  /** What each of `cells` is read as, null where it is refused. */
  readonly cells: readonly (string | null)[]
}

async function runTorch(command: string): Promise<TorchAnswers> {
  const listed = [...jobs, ...wrong].map(({ name, schedule, format, text }) => {
    const file = join(folder, `${name}.csv`)
    writeFileSync(file, text)
    const stages = schedule.actors.map((_, actor) =>
      schedule.placement.flatMap((owner, stage) => (owner === actor ? [stage] : [])),
    )
    return { name, file, format, microbatches, stages }
  })
  const work = join(folder, 'work.json')
  writeFileSync(work, JSON.stringify({ ranks, folder, cells, jobs: listed }))
  const script = fileURLToPath(new URL('./run_schedules.py', import.meta.url))
  const environment = Object.fromEntries(
    Object.entries(torchEnvironment()).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    ),
  )
  const { code, stdout, stderr } = await runProcess(command, [script, work], { environment })
  if (code !== 0) throw new Error(`PyTorch ended with ${code}:\n${stderr.slice(-4000)}`)
  const [first, ...lines] = stdout.split('\n').filter((line) => line.startsWith('{'))
  return {
    cells: (JSON.parse(first ?? '') as Pick<TorchAnswers, 'cells'>).cells,
    worst: new Map(
      lines.map((line) => {
        const { name, worst } = JSON.parse(line) as { name: string; worst: number }
        return [name, worst]
      }),
    ),
  }
}

/** The cell as it is read here, null where it is refused. */
function readHere(cell: string): string | null {
  try {
    const { schedule, communication, letters } = parseScheduleCsv(`0F0,${cell}`)
    const entry = (communication ?? schedule).actors[0]![1]
    if (entry === undefined) return ''
    const text = formatCsvEntry(entry)
    return letters === '2024' ? null : 'pair' in entry ? `${text}OVERLAP_F_B` : text
  } catch (error) {
    if (error instanceof MeshwrightError && error.code === 'SCHEDULE_CSV') return null
    throw error
  }
}

const { python, why } = await pythonOrWhyNot()
const title = `schedules in PyTorch's runtime${why === undefined ? '' : ` (skipped: ${why})`}`

describe.skipIf(python === undefined)(title, () => {
  let answers: TorchAnswers
  beforeAll(async () => {
    answers = await runTorch(python!.command)
  }, 300_000)

  it('reads a cell as it is read here, or takes the beginning of what is refused here', () => {
    let both = 0
    for (const [at, cell] of cells.entries()) {
      const [here, there] = [readHere(cell), answers.cells[at]]
      if (here !== null) {
        expect(there, cell).toBe(here)
        both++
      }
    }
    expect(both).toBeGreaterThan(20)
    expect(answers.cells.filter((read) => read === null).length).toBeGreaterThan(20)
  })

  it('gives the serial gradients with the files of each generator, in both dialects', () => {
    const { worst } = answers
    for (const { name } of jobs) expect(worst.get(name), name).toBeLessThan(1e-10)
    for (const { name, schedule, format, text } of jobs) {
      const comms = readFileSync(join(folder, `${name}.comms.csv`), 'utf8')
      if (format === 'compute_only') {
        // What PyTorch read is what was written, and the communication that it adds is what the verifier asks for.
        expect(readFileSync(join(folder, `${name}.compute.csv`), 'utf8').replaceAll('\r\n', '\n')).toBe(text)
        const { communication, schedule: read } = parseScheduleCsv(comms)
        expect(read.actors.flat().flatMap(entryActions)).toHaveLength(
          schedule.actors.flat().flatMap(entryActions).length,
        )
        expect(verifyCommunication(communication!)).toEqual([])
      } else expect(comms.replaceAll('\r\n', '\n')).toBe(text)
    }
  })

  it.each(wrong)(
    'gives wrong gradients with a file that is refused here: $name',
    ({ name, text, finding }) => {
      expect(answers.worst.get(name)).toBeGreaterThan(0.1)
      const { schedule, communication } = parseScheduleCsv(text)
      if (communication !== undefined)
        expect(
          verifyCommunication(communication)
            .map(({ message }) => message)
            .join('\n'),
        ).toContain(finding)
      else expect(() => printScheduleCsv(schedule, { dialect: 'compute' })).toThrow(finding)
    },
  )
})
