import { didYouMean, MeshwrightError, nearest } from '../base/index.ts'
import type { ParameterRule, ScheduleGenerator, ScheduleParameters } from './generator.ts'
import { gpipe } from './generators/gpipe.ts'
import { oneForwardOneBackward } from './generators/one-forward-one-backward.ts'
import { checkStageGraph } from './stage-graph.ts'
import type { Schedule, StageGraph } from './types.ts'

/** Every generator, by name. */
export const scheduleGenerators: ReadonlyMap<string, ScheduleGenerator> = new Map(
  [gpipe, oneForwardOneBackward].map((generator) => [generator.name, generator]),
)

/** @throws MeshwrightError `SCHEDULE_UNKNOWN` */
export function findGenerator(name: string): ScheduleGenerator {
  const generator = scheduleGenerators.get(name)
  if (generator !== undefined) return generator
  const names = [...scheduleGenerators.keys()]
  throw new MeshwrightError('SCHEDULE_UNKNOWN', `no schedule "${name}"`, {
    hint: didYouMean(name, names) ?? `schedules are ${names.join(', ')}`,
  })
}

/**
 * Fills in defaults. Strict: an unknown key, a wrong type or a value out of range is refused.
 *
 * @throws MeshwrightError `SCHEDULE_PARAMETER` with the parameter as `at.path`
 */
export function readParameters(
  generator: ScheduleGenerator,
  given: Readonly<Record<string, unknown>> = {},
): ScheduleParameters {
  const names = Object.keys(generator.parameters)
  for (const key of Object.keys(given))
    if (!names.includes(key))
      throw new MeshwrightError(
        'SCHEDULE_PARAMETER',
        `schedule ${generator.name} has no parameter "${key}"`,
        {
          at: { path: key },
          hint:
            didYouMean(key, names) ?? (names.length === 0 ? 'it takes none' : `it takes ${names.join(', ')}`),
        },
      )
  return Object.fromEntries(
    Object.entries(generator.parameters).map(([name, rule]) => [
      name,
      readParameter(name, rule, given[name]),
    ]),
  )
}

function readParameter(name: string, rule: ParameterRule, value: unknown): number | string | null {
  if (value === undefined || (value === null && rule.default === null)) return rule.default
  const fail = (hint: string): never => {
    const shown = typeof value === 'string' ? JSON.stringify(value.slice(0, 40)) : String(value)
    throw new MeshwrightError('SCHEDULE_PARAMETER', `${name} is ${shown}`, { at: { path: name }, hint })
  }
  if (rule.kind === 'choice') {
    const choices = Object.keys(rule.choices)
    if (typeof value === 'string' && choices.includes(value)) return value
    const near = typeof value === 'string' ? nearest(value, choices) : undefined
    return fail(near === undefined ? `it is one of ${choices.join(', ')}` : `did you mean "${near}"?`)
  }
  if (typeof value === 'number' && Number.isInteger(value) && value >= rule.minimum && value <= rule.maximum)
    return value
  return fail(`it is a whole number from ${rule.minimum} to ${rule.maximum}`)
}

/**
 * The schedule that a generator makes for a graph of stages.
 *
 * @throws MeshwrightError `SCHEDULE_UNKNOWN`, `SCHEDULE_PARAMETER`, `SCHEDULE_STAGES`, or `SCHEDULE_REFUSED` when the
 *   generator has no schedule for such a graph
 */
export function generateSchedule(
  name: string,
  graph: StageGraph,
  parameters: Readonly<Record<string, unknown>> = {},
): Schedule {
  const generator = findGenerator(name)
  const values = readParameters(generator, parameters)
  checkStageGraph(graph)
  const reason = generator.refuse?.(graph, values)
  if (reason !== undefined)
    throw new MeshwrightError('SCHEDULE_REFUSED', `${name} cannot schedule these stages: ${reason}`, {
      hint: `change that, or take another schedule: ${[...scheduleGenerators.keys()].filter((other) => other !== name).join(', ')}`,
    })
  return generator.generate(graph, values)
}
