import { Command, Option } from 'commander'
import type { CsvDialect } from '../../schedule/index.ts'
import { wholeNumber } from '../flags.ts'
import {
  givenParameters,
  type ShapeFlags,
  type SvgTheme,
  shapeFlags,
  shapeOf,
  themeFlag,
  withParameters,
} from './flags.ts'
import type { Measured } from './measures.ts'

interface ShowFlags extends ShapeFlags {
  readonly stages?: number
  readonly costs?: string
  readonly text?: boolean
  readonly csv?: CsvDialect | true
  readonly svg?: string | true
  readonly theme: SvgTheme
  readonly json?: boolean
}

export function showScheduleCommand(): Command {
  const forms = ['text', 'csv', 'svg', 'json']
  const form = (flags: string, description: string): Option => {
    const option = new Option(flags, description)
    return option.conflicts(forms.filter((other) => other !== option.attributeName()))
  }
  const command = new Command('show')
    .description('one schedule: drawn, as text, as CSV for PyTorch, as SVG or as JSON')
    .argument(
      '<name>',
      'a schedule of the list, also as zeropp:chunks=2,unit=4; or a file, - or a module (.ts, .mjs)',
    )
  return withParameters(
    shapeFlags(command)
      .option(
        '--stages <n>',
        'stages in all; has to fit how the schedule places them, and decides chunks if they are not given',
        wholeNumber(1, 4096),
      )
      .option(
        '--costs <file>',
        'times of one micro-batch, {"F":1,"I":1,"W":1,"hop":0.1} as JSON, - for standard input: seconds of one stage (one chunk), a number or a list by stage; a whole backward takes I + W. F, I and W are 1 if not given',
      )
      .addOption(form('--text', "Meshwright's text form, which is read back"))
      .addOption(
        form('--csv [dialect]', "PyTorch's schedule file: computations, or with communication")
          .choices(['compute', 'communication'])
          .preset('compute'),
      )
      .addOption(form('--svg [file]', 'a drawing, to a file or to standard output'))
      .addOption(themeFlag())
      .addOption(form('--json', 'one JSON document')),
  ).action(show)
}

async function show(name: string, flags: ShowFlags, command: Command): Promise<void> {
  const { readCostsFile, stageCosts } = await import('./costs.ts')
  const { measure, measuresDocument } = await import('./measures.ts')
  const { makeSchedule, readSubject } = await import('./subject.ts')
  const { formatEntry, printSchedule, printScheduleCsv } = await import('../../schedule/index.ts')
  const subject = await readSubject(name)
  const costs = stageCosts(await readCostsFile(flags.costs), flags.costs)
  const made = makeSchedule(subject, shapeOf(flags), flags, givenParameters(command), costs)
  const measured = measure(made)
  if (flags.text === true) process.stdout.write(printSchedule(made.schedule))
  else if (flags.csv !== undefined) {
    const whole = subject.kind === 'full' && subject.source.kind === 'csv' && subject.source.csv.communication
    const dialect = flags.csv === true ? 'compute' : flags.csv
    process.stdout.write(printScheduleCsv(whole || made.schedule, { dialect }))
  } else if (flags.svg !== undefined) {
    const { putSvg, scheduleSvg } = await import('./picture.ts')
    putSvg(scheduleSvg([measured], flags.costs === undefined ? 'units' : 'seconds', flags.theme), flags.svg)
  } else if (flags.json === true) {
    const document = {
      schemaVersion: 1,
      ...measuresDocument(measured.measures),
      costs: made.costs,
      actors: made.schedule.actors.map((entries) => entries.map(formatEntry)),
    }
    process.stdout.write(`${JSON.stringify(document)}\n`)
  } else process.stdout.write(`${(await showLines(measured, flags.costs !== undefined)).join('\n')}\n`)
}

async function showLines(measured: Measured, inSeconds: boolean): Promise<string[]> {
  const { formatShare, formatTime, nameWithParameters, overBound } = await import('./measures.ts')
  const { drawSchedule } = await import('./drawing.ts')
  const { counted, formatCount } = await import('../format.ts')
  const { paint } = await import('../style.ts')
  const { measures } = measured
  const { ranks, stages, microbatches, closed } = measures
  const unit = inSeconds ? ' s' : ''
  const beside = (text: string | undefined): string => (text === undefined ? '' : ` (closed form: ${text})`)
  const peaks = closed.peakActivations.every((peak) => peak !== null)
    ? byRank(closed.peakActivations)
    : undefined
  return [
    `${paint.bold(nameWithParameters(measures))}: ${counted(stages, 'stage')} on ${counted(ranks, 'rank')}, ${counted(microbatches, 'micro-batch', 'micro-batches')}`,
    '',
    ...drawSchedule(measured),
    '',
    `time       ${formatTime(measures.makespan)}${unit}${beside(closed.makespan === null ? undefined : formatTime(closed.makespan) + unit)}; lower bound ${formatTime(measures.lowerBound)}${unit} (${overBound(measures)})`,
    `bubble     ${formatShare(measures.bubbleFraction)} of the time from a rank's first to its last action`,
    `peaks      ${byRank(measures.peakActivations)} activations of a stage, by rank${beside(peaks)}`,
    ...(byRank(measures.peakHeld) === byRank(measures.peakActivations)
      ? []
      : [`           ${byRank(measures.peakHeld)} where each half of a backward lets go of half of one`]),
    `transfers  ${formatCount(measures.hops)} from rank to rank`,
    `gathers    ${formatTime(measures.gathers)} of all parameters of a rank, where a data axis shards them`,
  ]
}

/** Numbers of a few ranks as they are, of many from the least to the most. */
function byRank(counts: readonly number[]): string {
  const [least, most] = [Math.min(...counts), Math.max(...counts)]
  if (counts.length <= 8) return counts.join(' ')
  return least === most ? `${most} x ${counts.length}` : `${least} to ${most}`
}
