import { Command } from 'commander'
import { exitCodes, MeshwrightError } from '../base/index.ts'
import { dataFlags, planFlags, wholeNumber } from './flags.ts'
import type { PlanFlags } from './setup.ts'
import { paint } from './style.ts'

interface CheckFlags extends PlanFlags {
  readonly run?: boolean
  readonly steps: number
  readonly json?: boolean
}

export function checkCommand(): Command {
  return dataFlags(
    planFlags(
      new Command('check')
        .description(
          'validate a plan, compile it and verify the program; with --run, prove it equal to serial training',
        )
        .argument('[plan]', 'plan file, - for standard input; left out: the default plan'),
    ),
  )
    .option('--run', 'run steps under the plan and serially, in float64, and compare everything by name')
    .option('--steps <n>', 'steps of --run', wholeNumber(1, 1000), 3)
    .option('--json', 'one JSON document')
    .addHelpText(
      'after',
      '\nExit codes: 0 all holds; 4 an error was found in a readable plan; 2 the plan cannot be read; 3 the run finds no room on this machine; 5 the run failed.',
    )
    .action(check)
}

async function check(file: string | undefined, flags: CheckFlags): Promise<void> {
  const { checkPlan } = await import('./checkPlan.ts')
  const { reportCheck } = await import('./checkReport.ts')
  const { loadPlan } = await import('./setup.ts')
  try {
    const report = await checkPlan(await loadPlan(file, flags), {
      run: flags.run === true,
      steps: flags.steps,
    })
    for (const notice of report.model.notices) process.stderr.write(`${paint.yellow('note')} ${notice}\n`)
    reportCheck(report, flags.json === true)
    if (!report.ok) process.exitCode = exitCodes.findings
  } catch (error) {
    // A plan that could be read and is wrong is what this command is for.
    if (error instanceof MeshwrightError && error.exitCode === exitCodes.input && (await isFinding(error))) {
      const { reportPlanError } = await import('./checkReport.ts')
      reportPlanError(error, flags.json === true)
      process.exitCode = exitCodes.findings
      return
    }
    if (error instanceof MeshwrightError && flags.json === true) {
      const { reportPlanError } = await import('./checkReport.ts')
      reportPlanError(error, true)
    }
    throw error
  }
}

/** Errors in what a readable plan says, as against a file that is not there or is no plan at all. */
async function isFinding(error: MeshwrightError): Promise<boolean> {
  const { PlanError } = await import('../plan/index.ts')
  const problems = error instanceof PlanError ? error.problems : [{ code: error.code, at: error.at }]
  return !problems.some(
    ({ code, at }) =>
      /^(DATA_|PLAN_SYNTAX|PLAN_SET|ENGINE_)/.test(code) ||
      // The document as a whole: empty, or no mapping.
      (code === 'PLAN_VALUE' && at?.path === ''),
  )
}
