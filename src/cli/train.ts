import { Command } from 'commander'
import { dataFlags, planFlags, wholeNumber } from './flags.ts'
import type { PlanFlags } from './setup.ts'

export interface TrainFlags extends PlanFlags {
  readonly steps?: number
  readonly out?: string
  readonly resume?: string
  readonly validateEvery?: number
  readonly validationBatches?: number
  readonly checkpointEvery: number
  readonly json?: boolean
}

export function trainCommand(): Command {
  return dataFlags(
    planFlags(
      new Command('train')
        .description(
          'train under a plan on this machine: real text, real kernels, a worker thread for each rank',
        )
        .argument(
          '[plan]',
          'plan file, - for standard input; left out: the default plan, or that of --resume',
        ),
    ),
  )
    .option('--steps <n>', 'steps in all (default: 100, or those of the run that is resumed)', wholeNumber(1))
    .option('--out <dir>', 'write plan, metrics, trace and checkpoints here; left out: nothing is written')
    .option('--resume <dir>', 'go on from the latest checkpoint of a run, under its plan or another')
    .option('--validate-every <n>', 'loss on held-out text every n steps', wholeNumber(1))
    .option(
      '--validation-batches <n>',
      'most batches of held-out text in a validation (default: 16)',
      wholeNumber(1),
    )
    .option('--checkpoint-every <n>', 'checkpoint every n steps, and after the last', wholeNumber(1), 100)
    .option('--json', 'newline-delimited JSON: start, one event a step, end or error')
    .addHelpText(
      'after',
      '\nCtrl-C finishes the step, writes a checkpoint and ends with 130; a second one ends without a checkpoint.',
    )
    .action(async (file: string | undefined, flags: TrainFlags) => {
      const { trainWithFlags } = await import('./trainRun.ts')
      await trainWithFlags(file, flags)
    })
}
