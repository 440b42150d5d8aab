import { internalError, MeshwrightError } from '../base/index.ts'
import type { FloatDType } from '../graph/index.ts'
import { type LearningRateSpec, makeLearningRate } from '../optimizers/index.ts'
import {
  chainStages,
  entryActions,
  formatAction,
  generateSchedule,
  parseSchedule,
  type Schedule,
  validateSchedule,
} from '../schedule/index.ts'
import { type BlockCost, blockWeight, cutLayers } from './cut.ts'
import type { Path } from './describe.ts'
import { findDivisibility } from './divisibility.ts'
import { PlanError, type PlanProblem } from './problems.ts'
import { maximumRanks } from './schema.ts'
import { planPosition } from './source.ts'
import type { PlanDocument, PlanOptimizer } from './types.ts'

/** What a plan must know of a model. */
export interface PlannedModel {
  readonly name: string
  /** First the embedding, then one for each layer, last the head. */
  readonly blocks: readonly string[]
  /** The longest sequence. */
  readonly context: number
  readonly vocabulary: number
}

export interface ResolvedStage {
  readonly index: number
  /** Coordinate on the pipeline axis. */
  readonly actor: number
  /** Blocks firstBlock … endBlock - 1 of the model. */
  readonly firstBlock: number
  readonly endBlock: number
  readonly layers: number
  readonly replicas: number
  /** Consecutive, one for each replica. */
  readonly ranks: readonly number[]
  /** Samples of a micro-batch on each replica. */
  readonly localSamples: number
}

export interface ResolvedRank {
  readonly rank: number
  /** Coordinate on the pipeline axis. */
  readonly pipeline: number
  /** Coordinate on the data axis of its stage. */
  readonly data: number
}

/** A plan that has met its model: everything that follows from the two. */
export interface ResolvedPlan {
  readonly document: PlanDocument
  /** Numbered stage by stage. */
  readonly ranks: readonly ResolvedRank[]
  readonly stages: readonly ResolvedStage[]
  /** Stage of each block of the model. */
  readonly stageOfBlock: readonly number[]
  readonly schedule: Schedule
  readonly microbatches: number
  /** Samples of a step. */
  readonly samples: number
  readonly samplesPerMicrobatch: number
  /** Tokens of a sample. */
  readonly sequence: number
  readonly dtype: FloatDType
  readonly optimizer: PlanOptimizer
  readonly clip: number | null
  readonly bucketBytes: number
  /** Budget of a rank in bytes. */
  readonly deviceBytes: number | null
  readonly seed: number
}

export interface ResolveOptions {
  /** By block, for the automatic cut. Left out, layers weigh the same and embedding and head nothing. */
  readonly blockCosts?: readonly BlockCost[]
}

/**
 * Works out what a plan means for a model. Ranks are numbered stage by stage: those of stage s are consecutive.
 *
 * @throws PlanError with all problems found (codes `PLAN_STAGES`, `PLAN_MESH`, `PLAN_BATCH`, `PLAN_SEQUENCE`,
 *   `PLAN_SCHEDULE`), at their place in the plan's text
 */
export function resolvePlan(
  plan: PlanDocument,
  model: PlannedModel,
  options: ResolveOptions = {},
): ResolvedPlan {
  const problems: PlanProblem[] = []
  const report = (code: string, path: Path, message: string, hint?: string): undefined => {
    problems.push({
      code,
      message,
      at: planPosition(plan, path),
      ...(hint === undefined ? {} : { hint }),
    })
  }
  const replicas = resolveReplicas(plan, report)
  const sequence = plan.sequence ?? model.context
  if (sequence > model.context)
    report(
      'PLAN_SEQUENCE',
      ['sequence'],
      `sequences of ${sequence} tokens do not fit ${model.name}, whose context is ${model.context}`,
      `sequence is at most ${model.context}`,
    )
  const layers = replicas && resolveCut(plan, model, replicas, options, report)
  if (replicas !== undefined) findDivisibility(plan, replicas, report)
  const schedule = resolveSchedule(plan, report)
  if (problems.length > 0 || replicas === undefined || layers === undefined || schedule === undefined)
    throw new PlanError(problems, planPosition(plan, []).file)

  const samplesPerMicrobatch = plan.batch.samples / plan.batch.microbatches
  const stages: ResolvedStage[] = []
  const ranks: ResolvedRank[] = []
  let block = 0
  for (const [index, stageLayers] of layers.entries()) {
    const count = replicas[index]!
    const own = Array.from({ length: count }, (_, data) => ({
      rank: ranks.length + data,
      pipeline: index,
      data,
    }))
    ranks.push(...own)
    const extra = (index === 0 ? 1 : 0) + (index === layers.length - 1 ? 1 : 0)
    stages.push({
      index,
      actor: schedule.placement[index]!,
      firstBlock: block,
      endBlock: block + stageLayers + extra,
      layers: stageLayers,
      replicas: count,
      ranks: own.map(({ rank }) => rank),
      localSamples: samplesPerMicrobatch / count,
    })
    block += stageLayers + extra
  }
  return {
    document: plan,
    ranks,
    stages,
    stageOfBlock: stages.flatMap(({ index, firstBlock, endBlock }) =>
      Array.from({ length: endBlock - firstBlock }, () => index),
    ),
    schedule,
    microbatches: plan.batch.microbatches,
    samples: plan.batch.samples,
    samplesPerMicrobatch,
    sequence,
    dtype: plan.dtype,
    optimizer: plan.optimizer,
    clip: plan.clip,
    bucketBytes: plan.reduction.bucketBytes,
    deviceBytes: plan.memory.deviceBytes,
    seed: plan.seed,
  }
}

/** The plan's learning rate in a run of that many steps. @throws PlanError */
export function resolveLearningRate(plan: PlanDocument, steps: number): LearningRateSpec {
  const { kind, settings } = plan.learningRate
  const given =
    'totalSteps' in settings ? { ...settings, totalSteps: settings['totalSteps'] ?? steps } : settings
  try {
    return makeLearningRate(kind, given)
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    const path = ['learningRate', ...(error.at?.path === undefined ? [] : [error.at.path])]
    throw new PlanError([
      {
        code: 'PLAN_LEARNING_RATE',
        message: error.message,
        at: planPosition(plan, path),
        ...(error.hint === undefined ? {} : { hint: error.hint }),
      },
    ])
  }
}

export type Report = (code: string, path: Path, message: string, hint?: string) => undefined

function resolveReplicas(plan: PlanDocument, report: Report): readonly number[] | undefined {
  const { pipeline, data } = plan.mesh
  if (typeof data !== 'number' && data.length !== pipeline)
    return report(
      'PLAN_MESH',
      ['mesh', 'data'],
      `mesh.data lists ${data.length} stages, but mesh.pipeline is ${pipeline}`,
      'give one number for all stages, or one for each',
    )
  const replicas = typeof data === 'number' ? Array.from({ length: pipeline }, () => data) : data
  const ranks = replicas.reduce((sum, count) => sum + count, 0)
  if (ranks > maximumRanks)
    return report(
      'PLAN_MESH',
      ['mesh'],
      `the plan needs ${ranks} ranks`,
      `at most ${maximumRanks} are planned for`,
    )
  return replicas
}

/** Layers of each stage, as listed or cut by cost. */
function resolveCut(
  plan: PlanDocument,
  model: PlannedModel,
  replicas: readonly number[],
  { blockCosts }: ResolveOptions,
  report: Report,
): readonly number[] | undefined {
  const layers = model.blocks.length - 2
  const stages = replicas.length
  if (layers < 1) throw internalError(`${model.name} has ${model.blocks.length} blocks`)
  if (blockCosts !== undefined && blockCosts.length !== model.blocks.length)
    throw internalError(`${blockCosts.length} costs for ${model.blocks.length} blocks`)
  const listed = plan.stages
  if (listed !== null && listed.length !== stages)
    return report(
      'PLAN_STAGES',
      ['stages'],
      `stages lists ${listed.length} stages, but mesh.pipeline is ${stages}`,
      'give the layers of each stage',
    )
  if (stages > layers)
    return report(
      'PLAN_STAGES',
      ['mesh', 'pipeline'],
      `${stages} stages for the ${layers} layers of ${model.name}`,
      `every stage needs a layer: mesh.pipeline is at most ${layers}`,
    )
  if (listed === null) {
    const weights = model.blocks.map((_, block) => {
      const cost = blockCosts?.[block]
      if (cost !== undefined) return blockWeight(cost)
      return block === 0 || block === layers + 1 ? 0 : 1
    })
    return cutLayers({
      layers: weights.slice(1, -1),
      before: weights[0]!,
      after: weights.at(-1)!,
      replicas,
    })
  }
  const sum = listed.reduce((total, count) => total + count, 0)
  if (sum !== layers)
    return report(
      'PLAN_STAGES',
      ['stages'],
      `stages ${listed.join(' + ')} make ${sum} layers, but ${model.name} has ${layers}`,
      'leave stages out to cut by modelled cost',
    )
  return listed
}

/** Generated or read, then checked; one stage on each pipeline coordinate. */
function resolveSchedule(plan: PlanDocument, report: Report): Schedule | undefined {
  const { pipeline } = plan.mesh
  const { microbatches } = plan.batch
  const chosen = plan.schedule
  if (!('text' in chosen)) {
    try {
      const made = generateSchedule(chosen.name, chainStages(pipeline, microbatches), chosen.parameters)
      const [finding] = validateSchedule(made, { limit: 1 })
      if (finding !== undefined) throw internalError(`schedule ${chosen.name}: ${finding.message}`)
      return made
    } catch (error) {
      if (!(error instanceof MeshwrightError)) throw error
      return report('PLAN_SCHEDULE', ['schedule'], error.message, error.hint)
    }
  }
  const path = ['schedule', 'text']
  const schedule = parseSchedule(chosen.text)
  if (schedule.stages !== pipeline)
    return report(
      'PLAN_SCHEDULE',
      path,
      `the schedule has ${schedule.stages} stages, but mesh.pipeline is ${pipeline}`,
      `set mesh.pipeline to ${schedule.stages}, or write the schedule for ${pipeline}`,
    )
  if (schedule.microbatches !== microbatches)
    return report(
      'PLAN_SCHEDULE',
      path,
      `the schedule has ${schedule.microbatches} micro-batches, but batch.microbatches is ${microbatches}`,
      `set batch.microbatches to ${schedule.microbatches}, or write the schedule for ${microbatches}`,
    )
  const misplaced = schedule.placement.findIndex((actor, stage) => actor !== stage)
  if (misplaced >= 0 || schedule.actors.length !== pipeline)
    return report(
      'PLAN_SCHEDULE',
      path,
      misplaced >= 0
        ? `the schedule places stage ${misplaced} on actor ${schedule.placement[misplaced]}`
        : `the schedule has ${schedule.actors.length} actors for ${pipeline} stages`,
      'a plan has one stage on each pipeline coordinate: stage s on actor s',
    )
  const part = schedule.actors
    .flat()
    .flatMap(entryActions)
    .find(({ slice, unit }) => slice !== undefined || unit !== undefined)
  if (part !== undefined)
    return report(
      'PLAN_SCHEDULE',
      path,
      `${formatAction(part)} names a ${part.slice === undefined ? 'unit' : 'slice'}, which a plan cannot run yet`,
      'write one action for each stage and micro-batch, as 0F1',
    )
  const findings = validateSchedule(schedule, { limit: 10 })
  for (const finding of findings)
    report('PLAN_SCHEDULE', path, [finding.message, ...(finding.grid ?? [])].join('\n'), finding.hint)
  return findings.length === 0 ? schedule : undefined
}
