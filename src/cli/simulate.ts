import { Command, InvalidArgumentError, Option } from 'commander'
import { MeshwrightError } from '../base/index.ts'
import type { EngineProfile } from '../simulate/index.ts'
import { planFlags, wholeNumber } from './flags.ts'
import type { PlanFlags } from './setup.ts'
import { paint } from './style.ts'

interface SimulateFlags extends PlanFlags {
  readonly costs: string
  readonly saveCosts?: string
  readonly engine?: EngineProfile
  readonly trace?: string
  readonly svg?: string
  readonly theme?: 'light' | 'dark' | 'auto'
  readonly width?: number
  readonly verbose?: boolean
  readonly json?: boolean
}

export function simulateCommand(): Command {
  return planFlags(
    new Command('simulate')
      .description(
        'predict one step of a plan: its time, where ranks wait and for what, memory, traffic, the critical path',
      )
      .argument('[plan]', 'plan file, - for standard input; left out: the default plan'),
  )
    .option(
      '--costs <file|measured|unit>',
      'what things take: a JSON file (- for standard input) with the seconds of a micro-batch in a stage by phase, {"F":1,"I":1,"W":1,"hop":0.1}, or with measured times; measured: the tasks of this plan, measured here first; unit: every F, I and W takes 1, communication nothing',
      'unit',
    )
    .option('--save-costs <file>', 'keep what was measured, for --costs', fileName)
    .addOption(
      new Option(
        '--engine <engine>',
        'how ranks carry out their streams: side by side, in turns on each resource, or as the local engine; left out: local for measured costs, else independent',
      ).choices(['independent', 'turns', 'local'] satisfies readonly EngineProfile[]),
    )
    .option('--trace <file>', 'the step as a Chrome trace, for Perfetto', fileName)
    .option('--svg <file>', 'the step as a drawing, with memory over time', fileName)
    .addOption(
      new Option('--theme <theme>', 'of the drawing; left out: as the reader has it').choices([
        'light',
        'dark',
        'auto',
      ]),
    )
    .option('--width <pixels>', 'of the drawing; left out: 1200', wholeNumber(400, 20_000))
    .option('--verbose', 'also the first steps of the critical path, and more of each list')
    .option('--json', 'one JSON document')
    .action(simulate)
}

function fileName(value: string): string {
  if (value === '' || value === '-') throw new InvalidArgumentError('It is the name of a file.')
  return value
}

async function simulate(file: string | undefined, flags: SimulateFlags, command: Command): Promise<void> {
  if (flags.svg === undefined && (flags.theme ?? flags.width) !== undefined)
    command.error(`error: ${flags.theme === undefined ? '--width' : '--theme'} is for --svg`)
  if (flags.svg !== undefined && flags.svg === flags.trace)
    command.error('error: --svg and --trace name the same file')
  if (flags.saveCosts !== undefined && flags.costs !== 'measured')
    command.error('error: --save-costs is for --costs measured')
  try {
    await simulateWithFlags(file, flags)
  } catch (error) {
    if (flags.json === true && error instanceof MeshwrightError) {
      const { errorReport } = await import('./simulate/document.ts')
      process.stdout.write(`${JSON.stringify(errorReport(error), null, 2)}\n`)
    }
    throw error
  }
}

async function simulateWithFlags(file: string | undefined, flags: SimulateFlags): Promise<void> {
  const { simulatePlan } = await import('./simulate/simulatePlan.ts')
  const { loadPlan } = await import('./setup.ts')
  const simulated = await simulatePlan(await loadPlan(file, flags), {
    costs: flags.costs,
    ...(flags.engine === undefined ? {} : { engine: flags.engine }),
  })
  const { fitting, simulateDocument } = await import('./simulate/document.ts')
  const { result, compiled } = simulated
  for (const notice of compiled.model.notices) note(notice)
  const budget = compiled.plan.deviceBytes
  if (budget !== null && !fitting(result, budget))
    note('the plan does not fit memory.deviceBytes: meshwright check says on which ranks')
  // All is made before any of it is written.
  const files: (readonly [name: string, content: string])[] = []
  if (flags.trace !== undefined) {
    const { simulationTrace } = await import('../simulate/index.ts')
    const { writeChromeTrace } = await import('../trace/index.ts')
    files.push([flags.trace, writeChromeTrace(simulationTrace(result))])
  }
  if (flags.svg !== undefined) {
    const { simulationSvg } = await import('./simulate/picture.ts')
    const { theme = 'auto', width } = flags
    files.push([flags.svg, simulationSvg(simulated, { theme, ...(width === undefined ? {} : { width }) })])
  }
  const { table } = simulated.costs
  if (flags.saveCosts !== undefined && table !== undefined)
    files.push([flags.saveCosts, `${JSON.stringify(table, null, 2)}\n`])
  const { reportLines } = await import('./simulate/report.ts')
  const output =
    flags.json === true
      ? JSON.stringify(simulateDocument(simulated), null, 2)
      : reportLines(simulated, { verbose: flags.verbose === true }).join('\n')
  const { writeFileAtomic } = await import('../data/index.ts')
  for (const [name, content] of files) {
    writeFileAtomic(name, content)
    process.stderr.write(`wrote ${name}\n`)
  }
  process.stdout.write(`${output}\n`)
}

function note(text: string): void {
  process.stderr.write(`${paint.yellow('note')} ${text}\n`)
}
