import { Command } from 'commander'

export interface AccuracyFlags {
  readonly quick?: boolean
  readonly json?: boolean
  readonly out?: string
}

export function accuracyCommand(): Command {
  return new Command('accuracy')
    .description(
      'how well steps are predicted here: nine plans predicted from the times of tasks, then measured',
    )
    .option('--quick', 'a smaller model and fewer rounds: about a minute')
    .option('--out <file>', 'write the page to a file, such as docs/accuracy.md')
    .option('--json', 'one JSON document')
    .action(accuracy)
}

async function accuracy(flags: AccuracyFlags, command: Command): Promise<void> {
  const { accuracyWithFlags } = await import('./accuracy/run.ts')
  await accuracyWithFlags(
    flags,
    command.options.map(({ flags: long, description }) => [long, description] as const),
  )
}
