import type { Command } from 'commander'
import { exitCodes } from '../../src/base/index.ts'
import { accuracyCommand } from '../../src/cli/accuracy.ts'
import { checkCommand } from '../../src/cli/check.ts'
import { doctorCommand } from '../../src/cli/doctor.ts'
import { ParameterOption, parameterFlags } from '../../src/cli/schedule/flags.ts'
import { scheduleCommand } from '../../src/cli/schedule.ts'
import { showCommand } from '../../src/cli/show.ts'
import { simulateCommand } from '../../src/cli/simulate.ts'
import { tourCommand } from '../../src/cli/tour.ts'
import { trainCommand } from '../../src/cli/train.ts'
import { layoutRecipes } from '../../src/layout/index.ts'
import {
  countParameters,
  type KeyInfo,
  modelFamilies,
  modelFromShortName,
  printShortName,
  publicModels,
} from '../../src/models/index.ts'
import { learningRates, optimizers, type SettingInfo } from '../../src/optimizers/index.ts'
import { aliases } from '../../src/plan/aliases.ts'
import { invariants } from '../../src/program/index.ts'
import { type ParameterRule, phases, scheduleGenerators } from '../../src/schedule/index.ts'
import { planDefault, planKeyTable } from './planKeyTable.ts'

/** The command line as it is defined; a test compares the names with those that `--help` lists. */
export function cliCommands(): Command[] {
  const schedule = scheduleCommand()
  for (const command of schedule.commands) parameterFlags(command, scheduleGenerators.values())
  return [
    trainCommand(),
    checkCommand(),
    showCommand(),
    simulateCommand(),
    schedule,
    accuracyCommand(),
    doctorCommand(),
    tourCommand(),
  ]
}

/** A Markdown table. A bar inside a cell would end it. */
export function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n')
}

const code = (text: string): string => `\`${text}\``
const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** Everything in the documents that follows from the code, by the name that its markers have. */
export function generatedParts(): ReadonlyMap<string, () => string> {
  const flags = cliCommands().flatMap((command): [string, () => string][] =>
    command.commands.length === 0
      ? [[`flags of ${command.name()}`, () => flagTable(command)]]
      : [
          [`commands of ${command.name()}`, () => groupTable(command)],
          ...command.commands.map((below): [string, () => string] => [
            `flags of ${command.name()} ${below.name()}`,
            () => flagTable(below, below.name() !== 'show'),
          ]),
        ],
  )
  return new Map<string, () => string>([
    ['commands', commandTable],
    ...flags,
    ['plan keys', planKeyTable],
    ['short names of plan keys', aliasTable],
    ['model families', familyTables],
    ['public models', publicModelTable],
    ['schedules', scheduleTable],
    ['phases', phaseTable],
    ['layout recipes', recipeTable],
    ['optimizers', () => settingTables('optimizer', optimizers)],
    [
      'learning rates',
      () =>
        settingTables(
          'learningRate',
          learningRates.map((info) => ({ ...info, name: info.kind })),
        ),
    ],
    ['invariants', invariantTable],
    ['promises', promiseList],
    ['exit codes', exitCodeTable],
  ])
}

function commandTable(): string {
  return markdownTable(
    ['command', 'what it does'],
    cliCommands().map((command) => [
      `[${code(usage(command))}](docs/${command.name()}.md)`,
      command.description(),
    ]),
  )
}

/** The commands below one, each with a link to its section. */
function groupTable(group: Command): string {
  return markdownTable(
    ['command', 'what it does'],
    group.commands.map((command) => [`[${code(usage(command))}](#${command.name()})`, command.description()]),
  )
}

function usage(command: Command): string {
  if (command.commands.length > 0)
    return `${command.name()} ${command.commands.map((below) => below.name()).join('|')}`
  const operands = command.registeredArguments.map((argument) => {
    const name = `${argument.name().toUpperCase()}${argument.variadic ? '…' : ''}`
    return argument.required ? name : `[${name}]`
  })
  return [command.name(), ...operands].join(' ')
}

/** `brief`: flags for parameters of schedules, which are the same for several commands, in one row. */
function flagTable(command: Command, brief = false): string {
  const operands = command.registeredArguments.map((argument) => [
    code(argument.required ? argument.name() : `[${argument.name()}]`),
    argument.description,
  ])
  const parameters = command.options.filter((option) => option instanceof ParameterOption)
  const summary =
    brief && parameters.length > 0
      ? [[parameters.map(({ long }) => code(long ?? '')).join(', '), 'parameters, as for `show`']]
      : []
  const options = command.options
    .filter((option) => !option.hidden && !(brief && parameters.includes(option)))
    .map(({ flags, description, defaultValue }) => {
      const isShown = defaultValue !== undefined && !Array.isArray(defaultValue)
      return [code(flags), isShown ? `${description} (default: ${String(defaultValue)})` : description]
    })
  return markdownTable(['argument or flag', 'meaning'], [...operands, ...options, ...summary])
}

function aliasTable(): string {
  const meaning: Readonly<Record<string, string>> = {
    mbs: '`batch.samples` / (`mbs` x replicas) micro-batches: `mbs` is the samples of a micro-batch on one replica',
  }
  return markdownTable(
    ['short', 'stands for'],
    Object.entries(aliases).map(([short, path]) => [code(short), meaning[short] ?? code(path.join('.'))]),
  )
}

function familyTables(): string {
  return modelFamilies
    .map(({ name, summary, keys }) =>
      [
        `### ${code(name)}`,
        `${sentence(summary)}.`,
        markdownTable(
          ['key', 'default', 'meaning'],
          keys.map((key) => [code(key.name), code(defaultOf(key)), key.summary]),
        ),
      ].join('\n\n'),
    )
    .join('\n\n')
}

function defaultOf({ default: value }: KeyInfo): string {
  return typeof value === 'object' ? value.kind : String(value)
}

function publicModelTable(): string {
  return markdownTable(
    ['name', 'what it is', 'parameters', 'the same as'],
    publicModels.map(({ name, summary }) => {
      const model = modelFromShortName(name)
      const parameters = countParameters(model.parameters).toLocaleString('en-US')
      return [code(name), summary, parameters, code(printShortName(model.config))]
    }),
  )
}

function scheduleTable(): string {
  return [...scheduleGenerators.values()]
    .map(({ name, summary, source, parameters }) => {
      const rows = Object.entries(parameters).map(([parameter, rule]) => [
        code(parameter),
        rule.default === null ? 'not set' : code(String(rule.default)),
        parameterText(rule),
      ])
      const table =
        rows.length === 0
          ? 'It takes no parameters.'
          : markdownTable(['parameter', 'default', 'meaning'], rows)
      return [`### ${code(name)}`, `${sentence(summary)}. Source: ${source}.`, table].join('\n\n')
    })
    .join('\n\n')
}

function recipeTable(): string {
  return markdownTable(
    ['recipe', 'what it does', 'settings', 'source'],
    layoutRecipes.map(({ name, summary, parameters, source }) => [
      code(name),
      summary,
      Object.keys(parameters).map(code).join(', ') || 'none',
      source,
    ]),
  )
}

function parameterText(rule: ParameterRule): string {
  if (rule.kind === 'integer')
    return `${rule.summary}; a whole number from ${rule.minimum} to ${rule.maximum}`
  if (rule.kind === 'boolean') return `${rule.summary}; true or false`
  const choices = Object.entries(rule.choices).map(([name, meaning]) => `${code(name)} = ${meaning}`)
  return `${rule.summary}; ${choices.join('; ')}`
}

function phaseTable(): string {
  return markdownTable(
    ['letter', 'phase', 'time units', 'what it is'],
    [...phases.values()].map(({ letter, name, latency, summary }) => [
      code(letter),
      name,
      String(latency),
      summary,
    ]),
  )
}

function settingTables(
  planKey: string,
  infos: readonly {
    readonly name: string
    readonly summary: string
    readonly settings: readonly SettingInfo[]
  }[],
): string {
  return infos
    .map(({ name, summary, settings }) =>
      [
        `### ${code(name)}`,
        `${sentence(summary)}.`,
        markdownTable(
          ['setting', 'default', 'meaning'],
          settings.map((setting) => [
            code(setting.name),
            settingDefault(planKey, name, setting.name),
            setting.summary,
          ]),
        ),
      ].join('\n\n'),
    )
    .join('\n\n')
}

function settingDefault(planKey: string, name: string, setting: string): string {
  const value = planDefault(planKey, name, setting)
  return value === undefined ? 'the steps of the run' : code(String(value))
}

function promiseList(): string {
  return invariants.map(({ promise }) => `- ${promise}`).join('\n')
}

function invariantTable(): string {
  return markdownTable(
    ['invariant', 'what holds'],
    invariants.map(({ name, promise }) => [code(name), promise]),
  )
}

function exitCodeTable(): string {
  const meaning: Readonly<Record<keyof typeof exitCodes, string>> = {
    ok: 'all went well',
    unexpected: 'a mistake of Meshwright: the only case in which a stack is shown',
    input: 'usage, or input that cannot be read or is invalid',
    infeasible: 'there is no feasible plan',
    findings: '`check` read the plan and found errors in it',
    run: 'a run failed',
    interrupted: 'interrupted by Ctrl-C',
  }
  return markdownTable(
    ['exit code', 'meaning'],
    Object.entries(exitCodes).map(([name, value]) => [
      String(value),
      meaning[name as keyof typeof exitCodes],
    ]),
  )
}
