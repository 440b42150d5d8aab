import { Command } from 'commander'
import { MeshwrightError } from '../../base/index.ts'
import type { ParameterRule, ScheduleGenerator } from '../../schedule/index.ts'
import { type ShapeFlags, shapeFlags, shapeOf, shareCostsFlag } from './flags.ts'
import type { Measures } from './measures.ts'

interface ListFlags extends ShapeFlags {
  readonly costs?: string
  readonly json?: boolean
}

/** A generator, and what it is worth for the shape that is asked for. */
interface Row {
  readonly generator: ScheduleGenerator
  readonly measures?: Measures
  /** Why it has no schedule of that shape. */
  readonly refused?: MeshwrightError
}

export function listCommand(): Command {
  return shapeFlags(
    new Command('list').description('every schedule; with a shape also its bubble, memory and traffic'),
  )
    .option(...shareCostsFlag)
    .option('--json', 'one JSON document')
    .action(list)
}

async function list(flags: ListFlags): Promise<void> {
  const { scheduleGenerators } = await import('../../schedule/index.ts')
  const asked = flags.ranks !== undefined || flags.microbatches !== undefined || flags.costs !== undefined
  const rows = asked
    ? await measureAll([...scheduleGenerators.values()], flags)
    : [...scheduleGenerators.values()].map((generator): Row => ({ generator }))
  const shape = shapeOf(flags)
  if (flags.json === true) {
    const { measuresDocument } = await import('./measures.ts')
    const document = {
      schemaVersion: 1,
      ...(asked ? shape : {}),
      schedules: rows.map(({ generator: { name, summary, source, parameters }, measures, refused }) => ({
        name,
        summary,
        source,
        parameters,
        ...(measures === undefined ? {} : { measures: measuresDocument(measures) }),
        ...(refused === undefined ? {} : { refused: refused.message }),
      })),
    }
    process.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
    return
  }
  const lines = asked ? await tableLines(rows, shape, flags) : await catalogue(rows)
  process.stdout.write(`${lines.join('\n')}\n`)
}

async function measureAll(generators: readonly ScheduleGenerator[], flags: ListFlags): Promise<Row[]> {
  const { readCostsFile, shareCosts } = await import('./costs.ts')
  const { measure } = await import('./measures.ts')
  const { makeSchedule } = await import('./subject.ts')
  const { Progress } = await import('../progress.ts')
  const costs = shareCosts(await readCostsFile(flags.costs), flags.costs)
  const progress = new Progress('list', true)
  const rows = generators.map((generator, index): Row => {
    const { name } = generator
    progress.update(index / generators.length, name)
    try {
      const subject = { kind: 'generator', name, generator, given: {} } as const
      return { generator, measures: measure(makeSchedule(subject, shapeOf(flags), {}, {}, costs)).measures }
    } catch (error) {
      if (!(error instanceof MeshwrightError) || error.code !== 'SCHEDULE_REFUSED') throw error
      return { generator, refused: error }
    }
  })
  progress.clear()
  return rows
}

async function tableLines(
  rows: readonly Row[],
  { ranks, microbatches }: Required<ShapeFlags>,
  flags: ListFlags,
): Promise<string[]> {
  const { measuresTable, tableLegend } = await import('./measures.ts')
  const { counted } = await import('../format.ts')
  const { paint } = await import('../style.ts')
  const unit = flags.costs === undefined ? 'time' : 'seconds'
  return [
    `${counted(ranks, 'rank')}, ${counted(microbatches, 'micro-batch', 'micro-batches')}, each schedule at its defaults`,
    '',
    ...measuresTable(
      rows.flatMap(({ measures }) => (measures === undefined ? [] : [measures])),
      unit,
    ),
    ...rows.flatMap(({ refused }) => (refused === undefined ? [] : ['', refused.message])),
    '',
    ...tableLegend.map((line) => paint.dim(line)),
  ]
}

async function catalogue(rows: readonly Row[]): Promise<string[]> {
  const { paint } = await import('../style.ts')
  return [
    ...rows.flatMap(({ generator: { name, summary, source, parameters } }) => [
      paint.bold(name),
      `  ${summary}`,
      `  ${paint.dim(source)}`,
      ...Object.entries(parameters).map(([key, rule]) => `  ${paint.cyan(key)}: ${describeRule(rule)}`),
      '',
    ]),
    'meshwright schedule list --ranks 4 --microbatches 8 compares them; schedule show NAME draws one.',
  ]
}

function describeRule(rule: ParameterRule): string {
  const standard = rule.default === null ? 'not set' : String(rule.default)
  const values =
    rule.kind === 'integer'
      ? `${rule.minimum} to ${rule.maximum}`
      : rule.kind === 'choice'
        ? Object.entries(rule.choices)
            .map(([value, meaning]) => `${value} = ${meaning}`)
            .join('; ')
        : 'true or false'
  return `${rule.summary} [${values}; default: ${standard}]`
}
