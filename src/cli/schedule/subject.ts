import { existsSync } from 'node:fs'
import { MeshwrightError } from '../../base/index.ts'
import {
  chainEdges,
  findGenerator,
  generateSchedule,
  placeStages,
  readParameters,
  type Schedule,
  type ScheduleGenerator,
  type ScheduleParameters,
  type StageCosts,
  scheduleGenerators,
} from '../../schedule/index.ts'
import { isScheduleSource, loadScheduleSource, type ScheduleSource } from '../scheduleSource.ts'
import type { CostsOf } from './costs.ts'
import { splitParameter } from './flags.ts'

/** What a person names as a schedule: a way to make them, or one in full. */
export type Subject =
  | {
      readonly kind: 'generator'
      /** As it was written. */
      readonly name: string
      readonly generator: ScheduleGenerator
      /** Parameters that the name itself gives. */
      readonly given: Readonly<Record<string, unknown>>
    }
  | {
      readonly kind: 'full'
      readonly name: string
      readonly source: Extract<ScheduleSource, { readonly schedule: Schedule }>
    }

export interface WantedShape {
  readonly ranks?: number
  readonly stages?: number
  readonly microbatches?: number
}

/** A schedule, how it was made, and the costs of its stages. */
export interface Made {
  readonly name: string
  readonly generator?: ScheduleGenerator
  readonly parameters: ScheduleParameters
  readonly schedule: Schedule
  readonly costs: StageCosts
}

/**
 * A generator of the registry, or a file, standard input (`-`) or module of the user's own; parameters may follow a
 * generator's name, as `zeropp:chunks=2,unit=4`.
 *
 * @throws MeshwrightError `SCHEDULE_UNKNOWN`, `SCHEDULE_PARAMETER`, and what `loadScheduleSource` throws
 */
export async function readSubject(word: string): Promise<Subject> {
  const [, name = word, settings] = /^(.+?):([^:=,]+=.*)$/s.exec(word) ?? []
  const given = Object.fromEntries((settings?.split(',') ?? []).map(splitParameter))
  if (!isScheduleSource(name)) return { kind: 'generator', name: word, generator: findNamed(name), given }
  const source = await loadScheduleSource(name)
  if (source.kind === 'generator')
    return { kind: 'generator', name: word, generator: source.generator, given }
  refuseParameters(name, given)
  return { kind: 'full', name: name === '-' ? 'standard input' : name, source }
}

function findNamed(name: string): ScheduleGenerator {
  try {
    return findGenerator(name)
  } catch (error) {
    if (!(error instanceof MeshwrightError) || !existsSync(name)) throw error
    throw new MeshwrightError(error.code, error.message, { hint: `a file is given as ./${name}` })
  }
}

/** A schedule in full is what it is. */
function refuseParameters(name: string, given: Readonly<Record<string, unknown>>): void {
  const [key] = Object.keys(given)
  if (key !== undefined)
    throw new MeshwrightError(
      'SCHEDULE_PARAMETER',
      `${name} is a schedule in full, which has no parameter "${key}"`,
      { at: { path: key }, hint: 'leave it out' },
    )
}

/** The schedule of that shape. @throws as `generateSchedule`; `SCHEDULE_STAGES` where it has another shape */
export function makeSchedule(
  subject: Subject,
  shape: Required<Pick<WantedShape, 'ranks' | 'microbatches'>>,
  wanted: WantedShape,
  flags: Readonly<Record<string, unknown>>,
  costsOf: CostsOf,
): Made {
  const { name } = subject
  if (subject.kind === 'full') {
    refuseParameters(name, flags)
    const { schedule } = subject.source
    checkShape(name, schedule, wanted)
    return { name, parameters: {}, schedule, costs: costsOf(schedule.placement) }
  }
  const { generator } = subject
  const given = fitStages(generator, { ...flags, ...subject.given }, shape.ranks, wanted.stages)
  const placement = placeStages(generator, shape.ranks, given)
  const stages = placement.length
  const costs = costsOf(placement)
  const graph = { stages, edges: chainEdges(stages), placement, microbatches: shape.microbatches }
  const schedule = generateSchedule(generator, graph, given, costs)
  return { name, generator, parameters: readParameters(generator, given), schedule, costs }
}

function checkShape(name: string, { actors, stages, microbatches }: Schedule, wanted: WantedShape): void {
  const has = { ranks: actors.length, stages, microbatches }
  for (const key of ['ranks', 'stages', 'microbatches'] as const)
    if (wanted[key] !== undefined && wanted[key] !== has[key])
      throw new MeshwrightError(
        'SCHEDULE_STAGES',
        `${name} is a schedule of ${has[key]} ${key}, not ${wanted[key]}`,
        { hint: `leave --${key} out, or give ${has[key]}` },
      )
}

/**
 * The parameters with which the generator places so many stages: where `chunks` is not given, stages decide it.
 *
 * @throws MeshwrightError `SCHEDULE_STAGES` with what would be right
 */
function fitStages(
  generator: ScheduleGenerator,
  given: Readonly<Record<string, unknown>>,
  ranks: number,
  stages: number | undefined,
): Readonly<Record<string, unknown>> {
  if (stages === undefined) return given
  const placed = placeStages(generator, ranks, given).length
  if (placed === stages) return given
  const fitting = withChunks(generator, given, ranks, stages)
  if (fitting !== undefined && given['chunks'] === undefined) return fitting
  const { name } = generator
  const others = [...scheduleGenerators.values()].filter(
    (other) => other.name !== name && withChunks(other, {}, ranks, stages) !== undefined,
  )
  const right = [
    fitting === undefined ? `--stages ${placed}` : `--chunks ${String(fitting['chunks'])}`,
    ...(placed % ranks === 0 && stages % (placed / ranks) === 0 && fitting === undefined
      ? [`--ranks ${stages / (placed / ranks)}`]
      : []),
    ...(others.length === 0 ? [] : [`another schedule: ${others.map((other) => other.name).join(', ')}`]),
  ]
  throw new MeshwrightError(
    'SCHEDULE_STAGES',
    `${name} places ${placed} stages on ${ranks} ranks, not ${stages}`,
    { hint: `give ${right.join(', or ')}` },
  )
}

/** The parameters with as many chunks as make so many stages, if some do. */
function withChunks(
  generator: ScheduleGenerator,
  given: Readonly<Record<string, unknown>>,
  ranks: number,
  stages: number,
): Readonly<Record<string, unknown>> | undefined {
  const rule = generator.parameters['chunks']
  if (rule?.kind !== 'integer')
    return placeStages(generator, ranks, given).length === stages ? given : undefined
  const chunks = stages / ranks
  if (!Number.isInteger(chunks) || chunks < rule.minimum || chunks > rule.maximum) return undefined
  const changed = { ...given, chunks }
  return placeStages(generator, ranks, changed).length === stages ? changed : undefined
}
