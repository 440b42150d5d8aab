import { Command, Option } from 'commander'
import { exitCodes, MeshwrightError } from '../../base/index.ts'
import { givenParameters, type ShapeFlags, shapeFlags, withParameters } from './flags.ts'

interface CheckFlags extends ShapeFlags {
  readonly json?: boolean
  readonly format: 'text' | 'github'
}

export function checkScheduleCommand(): Command {
  return withParameters(
    shapeFlags(
      new Command('check')
        .description('verify a schedule of your own: a file, or what a generator makes')
        .argument(
          '<file>',
          "Meshwright's text form, PyTorch's CSV (both dialects, letters of 2024 too) or a module (.ts, .mjs); - for standard input; a schedule of the list too",
        ),
    )
      .option('--json', 'one JSON document')
      .addOption(
        new Option('--format <name>', 'findings as text, or as annotations for GitHub')
          .choices(['text', 'github'])
          .default('text'),
      ),
  )
    .addHelpText(
      'after',
      '\nExit codes: 0 the schedule is complete and runs to its end; 4 it was read, and that is not so; 2 it cannot be read.',
    )
    .action(check)
}

async function check(file: string, flags: CheckFlags, command: Command): Promise<void> {
  const { verifySubject } = await import('./verdict.ts')
  const report = await import('./verdictReport.ts')
  const print = (lines: readonly string[]): void => {
    process.stdout.write(`${lines.join('\n')}\n`)
  }
  try {
    const verdict = await verifySubject(file, flags, givenParameters(command))
    if (flags.json === true) print([JSON.stringify(report.verdictDocument(verdict), null, 2)])
    else print(flags.format === 'github' ? report.githubLines(verdict) : report.verdictLines(verdict))
    if (verdict.findings.length > 0) process.exitCode = exitCodes.findings
  } catch (error) {
    if (error instanceof MeshwrightError) {
      if (flags.json === true) print([JSON.stringify(report.errorReport(error), null, 2)])
      else if (flags.format === 'github') print([report.githubError(error)])
    }
    throw error
  }
}
