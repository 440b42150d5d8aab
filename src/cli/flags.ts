import { type Command, InvalidArgumentError } from 'commander'

/** Flags of every command that takes a plan. */
export function planFlags(command: Command): Command {
  return command
    .option(
      '--model <name>',
      'model by short name with overrides (gpt:layers=4,hidden=128), or a config.json',
    )
    .option('--dtype <f32|f64>', 'dtype of everything')
    .option('--set <path=value>', 'override one value of the plan; may be repeated', collect)
}

/** Flags that say what text a run reads. */
export function dataFlags(command: Command): Command {
  return command
    .option('--data <file>', 'text to train on; left out: a large text that is already here')
    .option('--tokenizer <file>', 'a Hugging Face tokenizer.json; left out: bytes')
}

export function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value]
}

/** A whole number of at least `minimum`, or commander's error. */
export function wholeNumber(minimum: number, maximum = 1_000_000_000): (value: string) => number {
  return (value) => {
    const number = Number(value)
    if (!/^\d+$/.test(value) || !Number.isSafeInteger(number) || number < minimum || number > maximum)
      throw new InvalidArgumentError(`It is a whole number from ${minimum} to ${maximum}.`)
    return number
  }
}
