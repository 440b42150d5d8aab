import { type Command, Option } from 'commander'
import { MeshwrightError } from '../../base/index.ts'
import type { ParameterRule, ScheduleGenerator } from '../../schedule/index.ts'
import { collect, wholeNumber } from '../flags.ts'

/** Sizes of the step that is scheduled. */
export interface ShapeFlags {
  readonly ranks?: number
  readonly microbatches?: number
}

export const standardRanks = 4

export function shapeFlags(command: Command): Command {
  return command
    .option('--ranks <n>', `pipeline ranks (${standardRanks} if not given)`, wholeNumber(1, 4096))
    .option(
      '--microbatches <n>',
      'micro-batches of a step (twice the ranks if not given)',
      wholeNumber(1, 65_536),
    )
}

export function shapeOf({ ranks = standardRanks, microbatches = 2 * ranks }: ShapeFlags): {
  readonly ranks: number
  readonly microbatches: number
} {
  return { ranks, microbatches }
}

/** What `--costs` means where schedules with different numbers of chunks stand side by side. */
export const shareCostsFlag = [
  '--costs <file>',
  'times of one micro-batch, {"F":1,"I":1,"W":1,"hop":0.1} as JSON, - for standard input: of all chunks of a rank together, one number or a list by rank; a whole backward takes I + W. All F, I and W are 1 if not given',
] as const

export type SvgTheme = 'light' | 'dark' | 'auto'

export function themeFlag(): Option {
  return new Option('--theme <name>', "colours of --svg; auto follows the reader's, where CSS is understood")
    .choices(['light', 'dark', 'auto'])
    .default('light')
}

/** A generator's parameter as a flag. */
export class ParameterOption extends Option {}

const takesParameters = new WeakSet<Command>()

/** Says that the command has a flag for every parameter of every generator, beside `--set`. */
export function withParameters(command: Command): Command {
  takesParameters.add(command)
  return command.option(
    '--set <key=value>',
    'a parameter of the schedule, as the flags for them below; may be repeated',
    collect,
  )
}

/** Adds those flags, each with what every generator means by it. */
export function parameterFlags(command: Command, generators: Iterable<ScheduleGenerator>): void {
  if (!takesParameters.has(command)) return
  const rules = new Map<string, { readonly generator: string; readonly rule: ParameterRule }[]>()
  for (const generator of generators)
    for (const [name, rule] of Object.entries(generator.parameters))
      rules.set(name, [...(rules.get(name) ?? []), { generator: generator.name, rule }])
  for (const [name, uses] of rules) {
    const flag = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
    if (command.options.some((option) => option.attributeName() === name)) continue
    const summaries = new Map<string, string[]>()
    for (const { generator, rule } of uses)
      summaries.set(rule.summary, [...(summaries.get(rule.summary) ?? []), generator])
    const meaning = [...summaries].map(([summary, names]) => `${names.join(', ')}: ${summary}`).join(' / ')
    command.addOption(new ParameterOption(flagOf(flag, uses[0]!.rule), meaning))
  }
}

function flagOf(flag: string, rule: ParameterRule): string {
  if (rule.kind === 'boolean') return rule.default ? `--no-${flag}` : `--${flag}`
  return `--${flag} <${rule.kind === 'integer' ? 'n' : Object.keys(rule.choices).join('|')}>`
}

/** Parameters that the command line gives, by flags and by `--set`. */
export function givenParameters(command: Command): Readonly<Record<string, unknown>> {
  const flags = command.options.flatMap((option): [string, unknown][] => {
    const name = option.attributeName()
    if (!(option instanceof ParameterOption) || command.getOptionValueSource(name) !== 'cli') return []
    const value: unknown = command.getOptionValue(name)
    return [[name, typeof value === 'string' ? parameterValue(value) : value]]
  })
  const set = (command.getOptionValue('set') as readonly string[] | undefined) ?? []
  return Object.fromEntries([...flags, ...set.map(splitParameter)])
}

/** `chunks=2` as name and value. @throws MeshwrightError `SCHEDULE_PARAMETER` */
export function splitParameter(text: string): [name: string, value: unknown] {
  const at = text.indexOf('=')
  if (at < 1)
    throw new MeshwrightError('SCHEDULE_PARAMETER', `"${text.slice(0, 40)}" sets no parameter`, {
      hint: 'write key=value, as chunks=2',
    })
  return [text.slice(0, at), parameterValue(text.slice(at + 1))]
}

/** What is no number, true or false stays text, for the parameter's rule to judge. */
function parameterValue(text: string): unknown {
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?\d+$/.test(text) ? Number(text) : text
}
