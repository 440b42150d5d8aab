import { Command } from 'commander'
import { MeshwrightError } from '../base/index.ts'
import { planFlags, wholeNumber } from './flags.ts'
import type { PlanFlags } from './setup.ts'
import { paint } from './style.ts'

interface ShowFlags extends PlanFlags {
  readonly rank?: number
  readonly full?: boolean
  readonly grid?: boolean
  readonly json?: boolean
}

export function showCommand(): Command {
  return planFlags(
    new Command('show')
      .description('the compiled program of a plan in its text form: what each role does, in order')
      .argument('[plan]', 'plan file, - for standard input; left out: the default plan'),
  )
    .option('--rank <rank>', 'only the role of this rank', wholeNumber(0))
    .option('--grid', 'the schedule as a rank x time grid instead')
    .option('--full', 'everything, task graphs included: the form that is read back')
    .option('--json', 'one JSON document')
    .action(show)
}

async function show(file: string | undefined, flags: ShowFlags): Promise<void> {
  const { compile, lowerVerified } = await import('./prepare.ts')
  const { loadPlan } = await import('./setup.ts')
  const { printProgram, rolesByRank } = await import('../program/index.ts')
  const compiled = compile(await loadPlan(file, flags))
  for (const notice of compiled.model.notices) process.stderr.write(`${paint.yellow('note')} ${notice}\n`)
  const program = lowerVerified(compiled)
  const byRank = rolesByRank(program)
  const role = flags.rank === undefined ? undefined : byRank[flags.rank]
  if (flags.rank !== undefined && role === undefined)
    throw new MeshwrightError('SHOW_RANK', `there is no rank ${flags.rank}`, {
      hint: `the plan has ranks 0 to ${byRank.length - 1}`,
    })
  if (flags.json === true) {
    const { programDocument } = await import('./programDocument.ts')
    process.stdout.write(`${JSON.stringify(programDocument(compiled, program, role), null, 2)}\n`)
    return
  }
  if (flags.grid === true) {
    const { drawProgram } = await import('./drawProgram.ts')
    process.stdout.write(`${drawProgram(compiled.plan, program).join('\n')}\n`)
    return
  }
  process.stdout.write(
    printProgram(program, {
      ...(role === undefined ? {} : { roles: [role] }),
      ...(flags.full === true ? { full: true } : {}),
    }),
  )
}
