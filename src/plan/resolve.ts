import { internalError, MeshwrightError } from '../base/index.ts'
import type { FloatDType, RecomputeChoice } from '../graph/index.ts'
import { type LearningRateSpec, makeLearningRate } from '../optimizers/index.ts'
import type { Schedule } from '../schedule/index.ts'
import { type BlockCost, blockWeight, cutLayers } from './cut.ts'
import type { Path } from './describe.ts'
import { findDivisibility } from './divisibility.ts'
import { modelRanks, tensorSize } from './factorRanks.ts'
import { type ResolvedLayout, resolveLayout } from './layout.ts'
import type { PlannedModel } from './modelShape.ts'
import { resolvePlacement, resolveSchedule } from './placement.ts'
import { PlanError, type PlanProblem } from './problems.ts'
import { resolveRecompute } from './recompute.ts'
import { maximumRanks } from './schema.ts'
import { planPosition } from './source.ts'
import type { PlanDocument, PlanMesh, PlanOptimizer } from './types.ts'
import { type ResolvedZero, resolveZero } from './zero.ts'

export interface ResolvedStage {
  readonly index: number
  /** Coordinate on the pipeline axis; several stages may share it. */
  readonly actor: number
  /** Blocks firstBlock … endBlock - 1 of the model. */
  readonly firstBlock: number
  readonly endBlock: number
  readonly layers: number
  readonly replicas: number
  /** Those of its actor: consecutive, those of one replica together. */
  readonly ranks: readonly number[]
  /** Samples of a micro-batch on each replica. */
  readonly localSamples: number
}

export interface ResolvedRank {
  readonly rank: number
  /** Coordinate on the pipeline axis. */
  readonly pipeline: number
  /** Coordinates in the ranks of its actor: data x context x tensor, the last fastest. */
  readonly data: number
  readonly context: number
  readonly tensor: number
  /** The same ranks as experts have them: expertData x expert x expertTensor. */
  readonly expertData: number
  readonly expert: number
  readonly expertTensor: number
}

/** A plan that has met its model: everything that follows from the two. */
export interface ResolvedPlan {
  readonly document: PlanDocument
  /** Numbered actor by actor. */
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
  /** Null: every replica holds all of its stages. */
  readonly zero: ResolvedZero | null
  /** Null: one rank has all of a stage for its samples. */
  readonly layout: ResolvedLayout | null
  readonly recompute: RecomputeChoice
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
 * Works out what a plan means for a model. Ranks are numbered actor by actor: those of one are consecutive, `tensor` fastest,
 * then `context`, then `data`.
 *
 * @throws PlanError with all problems found (codes `PLAN_STAGES`, `PLAN_MESH`, `PLAN_LAYOUT`, `PLAN_BATCH`, `PLAN_SEQUENCE`,
 *   `PLAN_SCHEDULE`, `PLAN_ZERO`, `PLAN_RECOMPUTE`), at their place in the plan's text
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
  const placement = resolvePlacement(plan, report)
  const layers = replicas && placement && resolveCut(plan, model, { replicas, placement }, options, report)
  if (replicas !== undefined) findDivisibility(plan, replicas, report)
  const layout = replicas && resolveLayout(plan, model, { replicas, sequence }, report)
  const schedule = placement && resolveSchedule(plan, report)
  const zero = replicas && resolveZero(plan, { replicas, schedule, layout }, report)
  const recompute = resolveRecompute(plan, model, report)
  if (
    problems.length > 0 ||
    replicas === undefined ||
    layers === undefined ||
    schedule === undefined ||
    zero === undefined ||
    layout === undefined ||
    recompute === undefined
  )
    throw new PlanError(problems, planPosition(plan, []).file)

  const samplesPerMicrobatch = plan.batch.samples / plan.batch.microbatches
  const ranks: ResolvedRank[] = []
  const ranksOfActor = replicas.map((count, pipeline) =>
    Array.from({ length: count * modelRanks(plan.mesh) }, (_, place) => {
      const rank = ranks.length
      ranks.push({ rank, pipeline, ...placeOf(plan.mesh, place) })
      return rank
    }),
  )
  let block = 0
  const stages = layers.map((own, index): ResolvedStage => {
    const actor = schedule.placement[index]!
    const count = replicas[actor]!
    const firstBlock = block
    block += own + (index === 0 ? 1 : 0) + (index === layers.length - 1 ? 1 : 0)
    return {
      index,
      actor,
      firstBlock,
      endBlock: block,
      layers: own,
      replicas: count,
      ranks: ranksOfActor[actor]!,
      localSamples: samplesPerMicrobatch / count,
    }
  })
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
    zero,
    layout,
    recompute,
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
      `mesh.data lists ${data.length} actors, but mesh.pipeline is ${pipeline}`,
      'give one number for all actors, or one for each',
    )
  const replicas = typeof data === 'number' ? Array.from({ length: pipeline }, () => data) : data
  const ranks = replicas.reduce((sum, count) => sum + count, 0) * modelRanks(plan.mesh)
  if (ranks > maximumRanks)
    return report(
      'PLAN_MESH',
      ['mesh'],
      `the plan needs ${ranks} ranks`,
      `at most ${maximumRanks} are planned for`,
    )
  return replicas
}

/** Coordinates of the rank at a place among those of its actor. */
function placeOf(mesh: PlanMesh, place: number): Omit<ResolvedRank, 'rank' | 'pipeline'> {
  const tensor = tensorSize(mesh.tensor)
  const { context, expert, expertTensor } = mesh
  return {
    data: Math.floor(place / (tensor * context)),
    context: Math.floor(place / tensor) % context,
    tensor: place % tensor,
    expertData: Math.floor(place / (expert * expertTensor)),
    expert: Math.floor(place / expertTensor) % expert,
    expertTensor: place % expertTensor,
  }
}

/** Layers of each stage, as listed or cut by cost. */
function resolveCut(
  plan: PlanDocument,
  model: PlannedModel,
  { replicas, placement }: { readonly replicas: readonly number[]; readonly placement: readonly number[] },
  { blockCosts }: ResolveOptions,
  report: Report,
): readonly number[] | undefined {
  const layers = model.blocks.length - 2
  const stages = placement.length
  const actors = replicas.length
  const made = stages === actors ? '' : ` (on ${actors} ${actors === 1 ? 'actor' : 'actors'})`
  if (layers < 1) throw internalError(`${model.name} has ${model.blocks.length} blocks`)
  if (blockCosts !== undefined && blockCosts.length !== model.blocks.length)
    throw internalError(`${blockCosts.length} costs for ${model.blocks.length} blocks`)
  const listed = plan.stages
  if (listed !== null && listed.length !== stages)
    return report(
      'PLAN_STAGES',
      ['stages'],
      stages === actors
        ? `stages lists ${listed.length} stages, but mesh.pipeline is ${stages}`
        : `stages lists ${listed.length} stages, but the schedule has ${stages}${made}`,
      'give the layers of each stage',
    )
  if (stages > layers)
    return report(
      'PLAN_STAGES',
      ['mesh', 'pipeline'],
      `${stages} stages${made} for the ${layers} layers of ${model.name}`,
      stages === actors
        ? `every stage needs a layer: mesh.pipeline is at most ${layers}`
        : 'every stage needs a layer: use fewer actors, or fewer stages on each',
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
      replicas: placement.map((actor) => replicas[actor]!),
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
