#!/usr/bin/env node
import { Console } from 'node:console'
import { Command, CommanderError } from 'commander'
import { didYouMean, exitCodes, MeshwrightError } from '../base/index.ts'
import { accuracyCommand } from './accuracy.ts'
import { checkCommand } from './check.ts'
import { doctorCommand } from './doctor.ts'
import { reportError } from './errors.ts'
import { examplesText } from './examples.ts'
import { scheduleCommand } from './schedule.ts'
import { showCommand } from './show.ts'
import { simulateCommand } from './simulate.ts'
import { tourCommand } from './tour.ts'
import { trainCommand } from './train.ts'
import { packageVersion } from './version.ts'

/** Every command defines itself with light imports; what it needs to run loads when it runs. */
const commands = [
  trainCommand,
  checkCommand,
  showCommand,
  simulateCommand,
  scheduleCommand,
  accuracyCommand,
  doctorCommand,
  tourCommand,
]

async function main(argv: readonly string[]): Promise<void> {
  const program = new Command('meshwright')
    .description('A type checker and compiler for the parallel training of large neural networks.')
    .version(packageVersion())
    .option('--no-color', 'no colour, as with NO_COLOR in the environment')
    .showHelpAfterError('(meshwright --help, or meshwright COMMAND --help, says what there is)')
    .helpCommand(true)
    .exitOverride()
    // A first word that is no command is a mistake, not an argument of the bare command.
    .allowExcessArguments(true)
    .action(() => {
      const [word] = program.args
      if (word !== undefined) throw unknownCommand(word, program)
      process.stdout.write(examplesText())
    })
  for (const command of commands) program.addCommand(inheriting(command(), program))
  try {
    await program.parseAsync([...argv])
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.input
      return
    }
    process.exitCode = reportError(error)
  }
}

/** The command, and those below it, with the settings of the one above. */
function inheriting(command: Command, parent: Command): Command {
  command.copyInheritedSettings(parent).allowExcessArguments(false)
  for (const below of command.commands) inheriting(below, command)
  return command
}

function unknownCommand(word: string, program: Command): MeshwrightError {
  const names = program.commands.map((command) => command.name())
  return new MeshwrightError('USAGE_COMMAND', `there is no command "${word}"`, {
    hint: didYouMean(word, names) ?? `commands are ${names.join(', ')}`,
  })
}

/**
 * A reader that closes the pipe (`| head`) has seen enough. A command that handles interrupts ends in good order, as
 * with Ctrl-C: leaving at once while worker threads run would abort the process.
 */
let closed = false
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    if (closed || stream === process.stderr) return
    closed = true
    if (process.listenerCount('SIGINT') > 0) process.emit('SIGINT')
    else process.exit(exitCodes.ok)
  })

// Results alone go to standard output: what the module of a schedule prints is none.
globalThis.console = new Console(process.stderr)

await main(process.argv)
