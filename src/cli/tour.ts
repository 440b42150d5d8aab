import { Command, Option } from 'commander'

export function tourCommand(): Command {
  return new Command('tour')
    .description('three acts in about 90 seconds: a plan drawn, trained and compared, a bad program refused')
    .option('--quick', 'fewer steps')
    .addOption(new Option('--act <number>', 'only one act').choices(['1', '2', '3']))
    .action(async (flags: { readonly quick?: boolean; readonly act?: string }) => {
      const { tour } = await import('./tourRun.ts')
      await tour({
        quick: flags.quick === true,
        act: flags.act === undefined ? undefined : Number(flags.act),
      })
    })
}
