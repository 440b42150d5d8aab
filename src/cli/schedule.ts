import { Command } from 'commander'
import { checkScheduleCommand } from './schedule/check.ts'
import { compareCommand } from './schedule/compare.ts'
import { parameterFlags } from './schedule/flags.ts'
import { listCommand } from './schedule/list.ts'
import { searchCommand } from './schedule/search.ts'
import { showScheduleCommand } from './schedule/show.ts'

/** Commands on schedules alone, without a model or a plan. */
export function scheduleCommand(): Command {
  const group = new Command('schedule').description(
    'pipeline schedules: list, draw, verify, compare and search them, built in or your own',
  )
  for (const command of [
    listCommand,
    showScheduleCommand,
    checkScheduleCommand,
    compareCommand,
    searchCommand,
  ])
    group.addCommand(command())
  // Flags for parameters come from the registry, which only these commands load.
  return group.hook('preSubcommand', async (_, command) => {
    const { scheduleGenerators } = await import('../schedule/index.ts')
    parameterFlags(command, scheduleGenerators.values())
  })
}
