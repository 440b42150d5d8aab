import { MeshwrightError } from '../base/index.ts'
import { learningRates, makeOptimizer, optimizers } from '../optimizers/index.ts'
import { findGenerator, type GivenCosts, parseSchedule, readParameters } from '../schedule/index.ts'
import type { Locate } from './check.ts'
import { fillLayout, writeLayout } from './layoutSection.ts'
import type { PlanProblem } from './problems.ts'
import type { PlanRecompute } from './recompute.ts'
import { formatSize, parseSize } from './sizes.ts'
import type {
  PlanDocument,
  PlanLearningRate,
  PlanMesh,
  PlanModel,
  PlanOptimizer,
  PlanSchedule,
} from './types.ts'
import { fillZero, type PlanZero, writeZero } from './zero.ts'

type Named<K extends string> = string | (Readonly<Record<K, string>> & Readonly<Record<string, unknown>>)

/** What the schema lets through: a document as people write it, short forms and all. */
interface PlanInput {
  readonly model:
    | null
    | string
    | { readonly name?: string; readonly config?: string; readonly weights: string | null }
  readonly data: string | { readonly file: string | null; readonly tokenizer: string | null }
  readonly mesh: PlanMesh
  /** Filled in, or a short form. */
  readonly layout: unknown
  readonly stages: readonly number[] | null
  readonly schedule: Named<'name'> | { readonly text: string } | { readonly file: string }
  readonly batch: { readonly samples: number; readonly microbatches: number }
  readonly sequence: number | null
  readonly dtype: 'f32' | 'f64'
  readonly zero: number | PlanZero
  readonly recompute: PlanRecompute
  readonly optimizer: Named<'name'>
  readonly learningRate: number | Exclude<Named<'kind'>, string>
  readonly clip: number | null
  readonly reduction: { readonly bucketBytes: number | string }
  readonly memory: { readonly deviceBytes: number | string | null }
  readonly seed: number
}

/** Writes out the short forms of a validated document; what the schema cannot see is added to `problems`. */
export function fillDocument(validated: unknown, locate: Locate, problems: PlanProblem[]): PlanDocument {
  const input = validated as PlanInput
  const size = (value: number | string, group: string, key: string): number => {
    const bytes = typeof value === 'number' ? value : parseSize(value)
    if (bytes !== undefined && bytes > 0) return bytes
    problems.push({
      code: 'PLAN_VALUE',
      message: `expected a whole number of bytes from 1 to ${Number.MAX_SAFE_INTEGER}, got ${JSON.stringify(value)}`,
      at: locate([group, key], 'value'),
    })
    return 1
  }
  const { memory } = input
  return {
    meshwright: 1,
    model: fillModel(input.model),
    data: typeof input.data === 'string' ? { file: input.data, tokenizer: null } : input.data,
    mesh: input.mesh,
    layout: fillLayout(input.layout, locate, problems),
    stages: input.stages,
    schedule: fillSchedule(input.schedule, locate, problems),
    batch: input.batch,
    sequence: input.sequence,
    dtype: input.dtype,
    zero: fillZero(input.zero),
    recompute: input.recompute,
    optimizer: fillOptimizer(input.optimizer, locate, problems),
    learningRate: fillLearningRate(input.learningRate),
    clip: input.clip,
    reduction: { bucketBytes: size(input.reduction.bucketBytes, 'reduction', 'bucketBytes') },
    memory: {
      deviceBytes: memory.deviceBytes === null ? null : size(memory.deviceBytes, 'memory', 'deviceBytes'),
    },
    seed: input.seed,
  }
}

function fillModel(model: PlanInput['model']): PlanModel | null {
  if (model === null) return null
  if (typeof model === 'string') return { name: model, weights: null }
  return model as PlanModel
}

function fillSchedule(
  schedule: PlanInput['schedule'],
  locate: Locate,
  problems: PlanProblem[],
): PlanSchedule {
  if (typeof schedule === 'string')
    return { name: schedule, parameters: readParameters(findGenerator(schedule)), costs: null }
  if ('file' in schedule) return { file: schedule['file'] as string }
  if ('text' in schedule) {
    const text = schedule['text'] as string
    try {
      parseSchedule(text)
    } catch (error) {
      if (!(error instanceof MeshwrightError)) throw error
      problems.push({
        code: 'PLAN_SCHEDULE',
        message: `line ${error.at?.line ?? 1}, column ${error.at?.column ?? 1} of the schedule: ${error.message}`,
        at: locate(['schedule', 'text'], 'value'),
        ...(error.hint === undefined ? {} : { hint: error.hint }),
      })
    }
    return { text }
  }
  const { name, costs, ...parameters } = schedule
  return {
    name: name as string,
    parameters: readParameters(findGenerator(name as string), parameters),
    costs: costs as GivenCosts | null,
  }
}

function fillOptimizer(
  optimizer: PlanInput['optimizer'],
  locate: Locate,
  problems: PlanProblem[],
): PlanOptimizer {
  const { name, ...given } = typeof optimizer === 'string' ? { name: optimizer } : optimizer
  const byDefault = optimizers
    .find((info) => info.name === name)!
    .settings.map((info) => [info.name, info.default])
  const settings = { ...Object.fromEntries(byDefault), ...given } as Record<string, number | boolean>
  try {
    makeOptimizer(name, settings)
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    problems.push({
      code: 'PLAN_VALUE',
      message: error.message,
      at: locate(['optimizer', ...(error.at?.path === undefined ? [] : [error.at.path])], 'value'),
      ...(error.hint === undefined ? {} : { hint: error.hint }),
    })
  }
  return { name, settings }
}

function fillLearningRate(learningRate: PlanInput['learningRate']): PlanLearningRate {
  const { kind, ...given } =
    typeof learningRate === 'number' ? { kind: 'cosine', peak: learningRate } : learningRate
  const byDefault = learningRates
    .find((info) => info.kind === kind)!
    .settings.map((info) => [info.name, info.default ?? null])
  return { kind, settings: { ...Object.fromEntries(byDefault), ...given } }
}

/** A document in the form that people write, keys in canonical order, what is not set left out. */
export function writeDocument(plan: PlanDocument): Record<string, unknown> {
  const given = (record: Readonly<Record<string, unknown>>): Record<string, unknown> =>
    Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null))
  const optional = (key: string, value: unknown): Record<string, unknown> =>
    value === null ? {} : { [key]: value }
  const data = given({ ...plan.data })
  const memory = plan.memory.deviceBytes
  return {
    meshwright: 1,
    ...optional('model', plan.model === null ? null : writeModel(plan.model)),
    ...(Object.keys(data).length === 0 ? {} : { data }),
    mesh: writeMesh(plan.mesh),
    ...optional('layout', writeLayout(plan.layout)),
    ...optional('stages', plan.stages),
    schedule:
      'name' in plan.schedule
        ? given({ name: plan.schedule.name, ...plan.schedule.parameters, costs: plan.schedule.costs })
        : { ...plan.schedule },
    batch: { samples: plan.batch.samples, microbatches: plan.batch.microbatches },
    ...optional('sequence', plan.sequence),
    dtype: plan.dtype,
    ...(plan.zero.stage === 0 ? {} : { zero: writeZero(plan.zero) }),
    ...(plan.recompute === 'none' ? {} : { recompute: plan.recompute }),
    optimizer: { name: plan.optimizer.name, ...plan.optimizer.settings },
    learningRate: given({ kind: plan.learningRate.kind, ...plan.learningRate.settings }),
    clip: plan.clip,
    reduction: { bucketBytes: formatSize(plan.reduction.bucketBytes) },
    ...(memory === null ? {} : { memory: { deviceBytes: formatSize(memory) } }),
    seed: plan.seed,
  }
}

/** Axes beyond pipeline and data only where there is something along them. */
function writeMesh({ pipeline, data, ...others }: PlanMesh): Record<string, unknown> {
  const used = Object.entries(others).filter(([, size]) => size !== 1)
  return { pipeline, data, ...Object.fromEntries(used) }
}

function writeModel(model: PlanModel): unknown {
  if (model.weights !== null) return { ...model }
  return 'name' in model ? model.name : { config: model.config }
}
