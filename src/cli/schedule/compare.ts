import { Command } from 'commander'
import { MeshwrightError } from '../../base/index.ts'
import {
  givenParameters,
  type ShapeFlags,
  type SvgTheme,
  shapeFlags,
  shapeOf,
  shareCostsFlag,
  themeFlag,
  withParameters,
} from './flags.ts'
import type { Measured, Measures } from './measures.ts'
import type { Subject } from './subject.ts'

interface CompareFlags extends ShapeFlags {
  readonly costs?: string
  readonly svg?: string | true
  readonly theme: SvgTheme
  readonly json?: boolean
}

export function compareCommand(): Command {
  return withParameters(
    shapeFlags(
      new Command('compare')
        .description('schedules side by side, of the same work on as many ranks')
        .argument(
          '<names...>',
          'as for show: names of the list, also as zeropp:chunks=2,unit=4; files, - or modules',
        ),
    )
      .option(...shareCostsFlag)
      .option('--svg [file]', 'their drawings on one page, to a file or to standard output')
      .addOption(themeFlag())
      .option('--json', 'one JSON document'),
  ).action(compare)
}

async function compare(names: readonly string[], flags: CompareFlags, command: Command): Promise<void> {
  const drawn = flags.svg === true || flags.svg === '-'
  if (drawn && flags.json === true)
    command.error('error: --svg and --json both go to standard output: give --svg a file')
  const { readCostsFile, shareCosts } = await import('./costs.ts')
  const { measure, measuresDocument, measuresTable, tableLegend } = await import('./measures.ts')
  const { makeSchedule, readSubject } = await import('./subject.ts')
  const { counted } = await import('../format.ts')
  const { paint } = await import('../style.ts')
  const subjects: Subject[] = []
  for (const name of names) subjects.push(await readSubject(name))
  const given = givenParameters(command)
  checkTaken(subjects, given)
  const costs = shareCosts(await readCostsFile(flags.costs), flags.costs)
  const measured: Measured[] = subjects.map((subject) => {
    const taken = subject.kind === 'full' ? {} : takenBy(subject, given)
    return measure(makeSchedule(subject, shapeFor(subjects, flags), flags, taken, costs))
  })
  const all = measured.map(({ measures }) => measures)
  checkSameShape(all)
  if (flags.svg !== undefined) {
    const { putSvg, scheduleSvg } = await import('./picture.ts')
    putSvg(scheduleSvg(measured, flags.costs === undefined ? 'units' : 'seconds', flags.theme), flags.svg)
    if (drawn) return
  }
  if (flags.json === true) {
    const document = { schemaVersion: 1, schedules: all.map(measuresDocument) }
    process.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
    return
  }
  const [first] = all
  const lines = [
    `${counted(first!.ranks, 'rank')}, ${counted(first!.microbatches, 'micro-batch', 'micro-batches')}`,
    '',
    ...measuresTable(all, flags.costs === undefined ? 'time' : 'seconds'),
    '',
    ...tableLegend.map((line) => paint.dim(line)),
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}

/** That of the flags, else of the first schedule in full, so that generators follow it. */
function shapeFor(subjects: readonly Subject[], flags: CompareFlags): Required<ShapeFlags> {
  const full = subjects.find((subject) => subject.kind === 'full')?.source.schedule
  if (full === undefined) return shapeOf(flags)
  return shapeOf({ ranks: full.actors.length, microbatches: full.microbatches, ...flags })
}

function takenBy(
  { generator }: Extract<Subject, { readonly kind: 'generator' }>,
  given: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(given).filter(([key]) => Object.hasOwn(generator.parameters, key)))
}

/** A parameter given for all is taken by those that have it; by one at least. */
function checkTaken(subjects: readonly Subject[], given: Readonly<Record<string, unknown>>): void {
  for (const key of Object.keys(given))
    if (
      !subjects.some(
        (subject) => subject.kind === 'generator' && Object.hasOwn(subject.generator.parameters, key),
      )
    )
      throw new MeshwrightError('SCHEDULE_PARAMETER', `none of these schedules has a parameter "${key}"`, {
        at: { path: key },
        hint: 'meshwright schedule list says which have which',
      })
}

/** Other micro-batches or ranks are other work. */
function checkSameShape(all: readonly Measures[]): void {
  const [first, ...rest] = all
  for (const other of rest)
    for (const [what, a, b] of [
      ['ranks', first!.ranks, other.ranks],
      ['micro-batches', first!.microbatches, other.microbatches],
    ] as const)
      if (a !== b)
        throw new MeshwrightError(
          'SCHEDULE_STAGES',
          `${first!.name} is a schedule of ${a} ${what}, ${other.name} of ${b}`,
          { hint: 'compare schedules of the same shape' },
        )
}
