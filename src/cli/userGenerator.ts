import { basename } from 'node:path'
import { didYouMean, MeshwrightError } from '../base/index.ts'
import {
  type ParameterRule,
  type Schedule,
  type ScheduleEntry,
  type ScheduleGenerator,
  type StageGraph,
  scheduleLimits,
  validateSchedule,
} from '../schedule/index.ts'

/** What a module exports, as a generator that may be relied on as one of the registry. @throws `SCHEDULE_MODULE` */
export function userGenerator(exported: unknown, path: string): ScheduleGenerator {
  return checkedGenerator(readGenerator(exported, path), path)
}

const generatorKeys = [
  'name',
  'summary',
  'source',
  'parameters',
  'place',
  'refuse',
  'generate',
  'closedForms',
]
const unknownForms: ScheduleGenerator['closedForms'] = {
  peakActivations: () => undefined,
  makespan: () => undefined,
}

/** What the module exports, with what may be left out filled in. */
function readGenerator(exported: unknown, path: string): ScheduleGenerator {
  const fail = (message: string, hint: string): never => {
    throw moduleError(path, message, hint)
  }
  const given = typeof exported === 'function' ? { generate: exported } : exported
  if (typeof given !== 'object' || given === null)
    return fail(
      exported === undefined ? 'the module has no default export' : 'the default export is no generator',
      'export default a ScheduleGenerator, or a function (graph, parameters, costs) => Schedule',
    )
  for (const key of Object.keys(given))
    if (!generatorKeys.includes(key))
      fail(
        `a generator has no "${key.slice(0, 40)}"`,
        didYouMean(key, generatorKeys) ?? `it has ${generatorKeys.join(', ')}`,
      )
  const { name, summary, source, parameters, place, refuse, generate, closedForms } =
    given as Partial<ScheduleGenerator>
  for (const [key, value] of Object.entries({ name, summary, source }))
    if (value !== undefined && (typeof value !== 'string' || value === ''))
      fail(`${key} of the generator is no text`, `give ${key} as a string, or leave it out`)
  if (typeof generate !== 'function')
    fail('the generator has no function generate', 'generate: (graph, parameters, costs) => Schedule')
  for (const [key, value] of Object.entries({ place, refuse }))
    if (value !== undefined && typeof value !== 'function')
      fail(`${key} of the generator is no function`, `give a function, or leave ${key} out`)
  if (parameters !== undefined) checkParameters(parameters, fail)
  for (const [key, value] of Object.entries(closedForms ?? {}))
    if (!Object.hasOwn(unknownForms, key) || typeof value !== 'function')
      fail(
        `closedForms of the generator has no function "${key.slice(0, 40)}"`,
        'closedForms: { peakActivations, makespan }, each a function, or left out',
      )
  return {
    name: name ?? basename(path).replace(/\.[^.]*$/, ''),
    summary: summary ?? `from ${basename(path)}`,
    source: source ?? path,
    parameters: parameters ?? {},
    ...(place === undefined ? {} : { place }),
    ...(refuse === undefined ? {} : { refuse }),
    generate: generate!,
    closedForms: { ...unknownForms, ...closedForms },
  }
}

function checkParameters(parameters: unknown, fail: (message: string, hint: string) => never): void {
  if (typeof parameters !== 'object' || parameters === null)
    fail('parameters of the generator is no object', 'parameters: { name: rule }')
  for (const [name, value] of Object.entries(parameters as Readonly<Record<string, unknown>>)) {
    const rule = (typeof value === 'object' && value !== null ? value : {}) as Partial<ParameterRule>
    const isChoice = rule.kind === 'choice' && typeof rule.choices === 'object' && rule.choices !== null
    const isInteger =
      rule.kind === 'integer' && Number.isInteger(rule.minimum) && Number.isInteger(rule.maximum)
    const isBoolean = rule.kind === 'boolean' && typeof rule.default === 'boolean'
    if (
      !(isChoice || isInteger || isBoolean) ||
      rule.default === undefined ||
      typeof rule.summary !== 'string'
    )
      fail(
        `parameter "${name.slice(0, 40)}" of the generator has no rule`,
        "a rule is { kind: 'integer', summary, minimum, maximum, default }, { kind: 'choice', summary, choices, default } or { kind: 'boolean', summary, default }",
      )
  }
}

/** The generator, with all that it returns looked at before anybody relies on it. */
function checkedGenerator(generator: ScheduleGenerator, path: string): ScheduleGenerator {
  const run = <T>(what: string, call: () => T): T => {
    try {
      return call()
    } catch (cause) {
      throw moduleError(path, `${what} of ${generator.name} threw: ${messageOf(cause)}`, undefined, cause)
    }
  }
  const { place, refuse, closedForms } = generator
  const known = (what: string, call: () => unknown): number | undefined => {
    const value = run(what, call)
    if (value === undefined || typeof value === 'number') return value
    throw moduleError(path, `${what} of ${generator.name} gives no number`, 'a number, or undefined')
  }
  return {
    ...generator,
    ...(place === undefined
      ? {}
      : {
          place: (actors, parameters): readonly number[] => {
            const placement: unknown = run('place', () => place(actors, parameters))
            if (!isPlacement(placement, actors))
              throw moduleError(
                path,
                `place of ${generator.name} gives no actor of each stage`,
                'a list of actors',
              )
            return placement
          },
        }),
    ...(refuse === undefined
      ? {}
      : {
          refuse: (graph, parameters): string | undefined => {
            const reason: unknown = run('refuse', () => refuse(graph, parameters))
            if (reason !== undefined && typeof reason !== 'string')
              throw moduleError(path, `refuse of ${generator.name} gives no reason`, 'a text, or undefined')
            return reason
          },
        }),
    generate: (graph, parameters, costs): Schedule =>
      checkSchedule(
        run('generate', () => generator.generate(graph, parameters, costs)),
        graph,
        generator.name,
        path,
      ),
    closedForms: {
      peakActivations: (...given) => known('peakActivations', () => closedForms.peakActivations(...given)),
      makespan: (...given) => known('makespan', () => closedForms.makespan(...given)),
    },
  }
}

function isPlacement(value: unknown, actors: number): value is readonly number[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= scheduleLimits.stages &&
    // `every` passes over what a list leaves out.
    !value.includes(undefined) &&
    value.every((actor) => Number.isInteger(actor) && actor >= 0 && actor < actors)
  )
}

function checkSchedule(made: unknown, graph: StageGraph, name: string, path: string): Schedule {
  const fail = (message: string, hint?: string): never => {
    throw moduleError(path, `the schedule of ${name} ${message}`, hint)
  }
  if (!isSchedule(made))
    return fail(
      'is none',
      '{ stages, microbatches, placement, actors: [[{ phase, stage, microbatch }, …], …] }',
    )
  const { stages, microbatches, placement } = graph
  if (made.stages !== stages || made.microbatches !== microbatches)
    fail(
      `has ${made.stages} stages and ${made.microbatches} micro-batches`,
      `asked were ${stages} and ${microbatches}`,
    )
  if (made.placement.length !== stages || made.placement.some((actor, stage) => actor !== placement[stage]))
    fail('places stages elsewhere than asked', 'take graph.placement; place says where stages go')
  const finding = validateSchedule(made, { edges: graph.edges, limit: 1 })[0]
  if (finding !== undefined)
    fail(`is not valid: ${[finding.message, ...(finding.grid ?? [])].join('\n')}`, finding.hint)
  return made
}

function isSchedule(value: unknown): value is Schedule {
  if (typeof value !== 'object' || value === null) return false
  const { stages, microbatches, placement, actors } = value as Readonly<Record<keyof Schedule, unknown>>
  if (typeof stages !== 'number' || typeof microbatches !== 'number') return false
  if (!Array.isArray(placement) || !Array.isArray(actors) || actors.length > scheduleLimits.actors)
    return false
  if (actors.includes(undefined) || !actors.every((entries: unknown) => Array.isArray(entries))) return false
  const total = actors.reduce((sum, { length }) => sum + length, 0)
  return (
    total <= scheduleLimits.actions &&
    actors.every((entries) => !entries.includes(undefined) && entries.every(isEntry))
  )
}

function isEntry(value: unknown): value is ScheduleEntry {
  if (typeof value !== 'object' || value === null) return false
  const { pair } = value as { readonly pair?: unknown }
  return pair === undefined
    ? isAction(value)
    : Array.isArray(pair) && pair.length === 2 && pair.every(isAction)
}

function isAction(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { phase, stage, microbatch, slice, unit } = value as Readonly<Record<string, unknown>>
  return (
    typeof phase === 'string' &&
    typeof stage === 'number' &&
    typeof microbatch === 'number' &&
    [slice, unit].every((part) => part === undefined || typeof part === 'number')
  )
}

export function moduleError(path: string, message: string, hint?: string, cause?: unknown): MeshwrightError {
  return new MeshwrightError('SCHEDULE_MODULE', message, {
    at: { file: path },
    ...(hint === undefined ? {} : { hint }),
    ...(cause === undefined ? {} : { cause }),
  })
}

export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}
