import { Command } from 'commander'

export function tourCommand(): Command {
  return new Command('tour')
    .description('three acts in about 90 seconds: a plan drawn, trained and compared, a bad program refused')
    .option('--quick', 'fewer steps')
    .action(async (flags: { readonly quick?: boolean }) => {
      const { tour } = await import('./tourRun.ts')
      await tour(flags.quick === true)
    })
}
