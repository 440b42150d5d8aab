import { Command, InvalidArgumentError } from 'commander'
import { wholeNumber } from '../flags.ts'
import { type ShapeFlags, shapeFlags, shapeOf, shareCostsFlag } from './flags.ts'

interface SearchFlags extends ShapeFlags {
  readonly memory: number
  readonly costs?: string
  readonly limit: number
  readonly json?: boolean
}

export function searchCommand(): Command {
  return shapeFlags(
    new Command('search')
      .description(
        'the fastest schedules that keep a memory limit, over all of the list and their parameters',
      )
      .requiredOption(
        '--memory <n>',
        "activations that a rank may hold: 1 is what one micro-batch leaves in all of a rank's layers, so that one of V chunks counts 1/V; 1f1b holds as many as there are ranks",
        activations,
      ),
  )
    .option(...shareCostsFlag)
    .option('--limit <n>', 'schedules that are shown', wholeNumber(1, 10_000), 10)
    .option('--json', 'one JSON document')
    .addHelpText('after', '\nExit codes: 0 some schedule fits; 3 none does; 2 usage or unreadable input.')
    .action(search)
}

async function search(flags: SearchFlags): Promise<void> {
  const { readCostsFile, shareCosts } = await import('./costs.ts')
  const { searchSchedules } = await import('./candidates.ts')
  const { formatTime, measuresDocument, measuresTable, tableLegend } = await import('./measures.ts')
  const { Progress } = await import('../progress.ts')
  const { paint } = await import('../style.ts')
  const { counted } = await import('../format.ts')
  const shape = shapeOf(flags)
  const { memory } = flags
  const costs = shareCosts(await readCostsFile(flags.costs), flags.costs)
  const progress = new Progress('search', true)
  const { tried, fitting } = searchSchedules({ ...shape, memory }, costs, (done, of, name) =>
    progress.update(done / of, `${done} of ${of} schedules, ${name}`),
  )
  progress.clear()
  const best = fitting.slice(0, flags.limit)
  if (flags.json === true) {
    const document = {
      schemaVersion: 1,
      ...shape,
      memory,
      tried,
      fitting: fitting.length,
      schedules: best.map(measuresDocument),
    }
    process.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
    return
  }
  const lines = [
    `${counted(shape.ranks, 'rank')}, ${counted(shape.microbatches, 'micro-batch', 'micro-batches')}, at most ${formatTime(memory)} activations a rank: ${fitting.length} of ${tried} schedules fit`,
    '',
    ...measuresTable(best, flags.costs === undefined ? 'time' : 'seconds'),
    '',
    ...tableLegend.map((line) => paint.dim(line)),
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}

function activations(value: string): number {
  const number = Number(value)
  if (!/^\d+(\.\d+)?$/.test(value) || !(number > 0 && number <= 65_536))
    throw new InvalidArgumentError('It is a number above 0, at most 65536.')
  return number
}
