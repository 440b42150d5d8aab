import { didYouMean, MeshwrightError, nearest } from '../base/index.ts'
import { chainEdges } from './actions.ts'
import { readCosts, unitCosts } from './costs.ts'
import type { ParameterRule, ScheduleGenerator, ScheduleParameters, StageCosts } from './generator.ts'
import { dualPipeV } from './generators/dualpipe-v.ts'
import { gpipe } from './generators/gpipe.ts'
import { interleavedOneForwardOneBackward } from './generators/interleaved-1f1b.ts'
import { kForwardsKBackwards } from './generators/k-forwards-k-backwards.ts'
import { loopedBreadthFirst } from './generators/looped-bfs.ts'
import { eagerOneForwardOneBackward, oneForwardOneBackward } from './generators/one-forward-one-backward.ts'
import { vHalf, vMin, zeroBubbleV } from './generators/v-shaped.ts'
import { zeroBubbleH1, zeroBubbleH2 } from './generators/zero-bubble-handcrafted.ts'
import { zeroBubble1p, zeroBubble2p } from './generators/zero-bubble-search.ts'
import { zeropp } from './generators/zeropp.ts'
import { checkStageGraph } from './stage-graph.ts'
import type { Schedule, StageGraph } from './types.ts'

/** Every generator, by name. */
export const scheduleGenerators: ReadonlyMap<string, ScheduleGenerator> = new Map(
  [
    gpipe,
    oneForwardOneBackward,
    eagerOneForwardOneBackward,
    kForwardsKBackwards,
    interleavedOneForwardOneBackward,
    loopedBreadthFirst,
    zeroBubbleH1,
    zeroBubbleH2,
    zeroBubble1p,
    zeroBubble2p,
    zeroBubbleV,
    vHalf,
    vMin,
    dualPipeV,
    zeropp,
  ].map((generator) => [generator.name, generator]),
)

/** The generator of that name; one that is given itself, as a user's own, is taken. @throws MeshwrightError `SCHEDULE_UNKNOWN` */
export function findGenerator(name: string | ScheduleGenerator): ScheduleGenerator {
  if (typeof name !== 'string') return name
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

function readParameter(name: string, rule: ParameterRule, value: unknown): number | string | boolean | null {
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
  if (rule.kind === 'boolean') return typeof value === 'boolean' ? value : fail('it is true or false')
  if (typeof value === 'number' && Number.isInteger(value) && value >= rule.minimum && value <= rule.maximum)
    return value
  return fail(`it is a whole number from ${rule.minimum} to ${rule.maximum}`)
}

/** Actor of each stage as a schedule places a chain on so many actors. @throws as `readParameters` */
export function placeStages(
  name: string | ScheduleGenerator,
  actors: number,
  parameters: Readonly<Record<string, unknown>> = {},
): readonly number[] {
  const generator = findGenerator(name)
  const values = readParameters(generator, parameters)
  return generator.place?.(actors, values) ?? Array.from({ length: actors }, (_, actor) => actor)
}

/** The schedule of a chain, each stage where the schedule places it. @throws as `generateSchedule` */
export function scheduleChain(
  name: string | ScheduleGenerator,
  { actors, microbatches }: { readonly actors: number; readonly microbatches: number },
  parameters: Readonly<Record<string, unknown>> = {},
  costs?: StageCosts,
): Schedule {
  const placement = placeStages(name, actors, parameters)
  const stages = placement.length
  return generateSchedule(
    name,
    { stages, edges: chainEdges(stages), placement, microbatches },
    parameters,
    costs,
  )
}

/**
 * The schedule that a generator makes for a graph of stages. Costs guide those that search; without them every F, I and
 * W takes one unit and a hop none.
 *
 * @throws MeshwrightError `SCHEDULE_UNKNOWN`, `SCHEDULE_PARAMETER`, `SCHEDULE_STAGES`, `SCHEDULE_COSTS`, or
 *   `SCHEDULE_REFUSED` when the generator has no schedule for such a graph
 */
export function generateSchedule(
  name: string | ScheduleGenerator,
  graph: StageGraph,
  parameters: Readonly<Record<string, unknown>> = {},
  costs?: StageCosts,
): Schedule {
  const generator = findGenerator(name)
  const values = readParameters(generator, parameters)
  checkStageGraph(graph)
  const reason = generator.refuse?.(graph, values)
  if (reason !== undefined)
    throw new MeshwrightError(
      'SCHEDULE_REFUSED',
      `${generator.name} cannot schedule these stages: ${reason}`,
      {
        hint: `change that, or take another schedule: ${[...scheduleGenerators.keys()].filter((other) => other !== generator.name).join(', ')}`,
      },
    )
  return generator.generate(
    graph,
    values,
    costs === undefined ? unitCosts(graph.stages) : readCosts(costs, graph.stages),
  )
}
