import { type ModelConfig, modelFromConfig, printShortName } from '../models/index.ts'
import { chainEdges, findGenerator } from '../schedule/index.ts'
import { leastCommonMultipleOf } from './divisibility.ts'
import { modelRanks, tensorAxes } from './factorRanks.ts'
import { sampleParts, sequenceUnit, vocabularyParts } from './layoutChecks.ts'
import { type ModelShape, modelShape } from './modelShape.ts'
import { PlanError } from './problems.ts'
import { shrinkRecompute } from './recompute.ts'
import { type ResolvedPlan, resolvePlan } from './resolve.ts'
import { type ShrunkParts, shrinkLayers, shrinkModel } from './shrink.ts'
import { type ShrunkMesh, shrinkMesh } from './shrinkMesh.ts'
import type { PlanDocument } from './types.ts'
import type { PlanZero } from './zero.ts'

/** A small plan that goes through the same motions as a large one. */
export interface Miniature {
  /** Its `model` is the short name of the config beside it. */
  readonly plan: PlanDocument
  readonly model: ModelConfig
  /** What was reduced and what can therefore go unnoticed, one sentence each. */
  readonly hides: readonly string[]
}

/** Ranks that a miniature has at most, where the shape of the plan allows. */
export const miniatureRanks = 16

/** Tokens of a miniature's sample. */
const miniatureSequence = 16
/** Small enough that a tiny stage still has several. */
const miniatureBucketBytes = 4096

/**
 * The miniature of a plan: as many actors and stages, the same schedule, the same pattern of layers (equal where they were equal,
 * more where they were more, one where it was one), of replicas (the same and which divides which, between actors that
 * exchange activations) and of samples (one on a replica, or several), at the smallest sizes. Everything is reduced
 * that can be, whatever the size of the plan; with more actors than `maximumRanks`, it has a rank for each.
 */
export function miniaturePlan(
  plan: ResolvedPlan,
  { config }: { readonly config: ModelConfig },
  options: { readonly maximumRanks?: number } = {},
): Miniature {
  const limit = options.maximumRanks ?? miniatureRanks
  const hides: string[] = []
  const { document } = plan
  const actors = plan.schedule.actors.length

  const before = plan.schedule.actors.map(
    (_, actor) => plan.stages.find((stage) => stage.actor === actor)!.replicas,
  )
  const zero = plan.zero
  const planned = modelFromConfig(config)
  const shape = modelShape(planned)
  const settings = plan.layout?.settings ?? null
  const shrunkMesh = shrinkMesh(
    {
      mesh: document.mesh,
      replicas: before,
      neighbours: neighbours(plan),
      shape,
      settings,
      isHybrid: zero !== null && zero.copies > 1,
    },
    limit,
  )
  const { mesh, replicas } = shrunkMesh
  hides.push(...shrunkMesh.hides)
  const isHybrid = zero !== null && zero.copies > 1 && replicas.every((count) => count === 4)
  const ranks = replicas.reduce((sum, count) => sum + count, 0) * modelRanks(mesh)
  if (replicas.some((count, actor) => count !== before[actor]))
    hides.push(
      replicas.every((count) => count === 1)
        ? `Replicas ${listed(before)} became 1, for ${actors} actors with replicas do not fit ${limit} ranks: the reduction over data and the slicing of micro-batches are not exercised.`
        : `Replicas ${listed(before)} became ${listed(replicas)}: a mistake that needs more of them does not show.`,
    )
  if (ranks > limit) hides.push(`Every actor needs a rank, so the miniature has ${ranks}.`)

  const isShared = replicas[0]! > 1
  if (zero !== null && !isShared) hides.push('With one replica nothing is shared out, so ZeRO is off.')
  else if (zero !== null && zero.copies > 1 && !isHybrid)
    hides.push(`${zero.copies} copies of ${zero.shards} shards became one of ${replicas[0]}.`)
  const microbatches = shrinkMicrobatches(plan)
  const size = shrinkSamples(plan, replicas, sampleParts(mesh.tensor))
  const samples = size * microbatches
  if (samples !== plan.samples || microbatches !== plan.microbatches)
    hides.push(
      `${count(plan.microbatches, 'micro-batch', 'es')} of ${count(plan.samplesPerMicrobatch, 'sample')} became ${microbatches} of ${size}: rounding that grows with the number of terms is smaller than in the plan.`,
    )

  const layersBefore = plan.stages.map(({ layers }) => layers)
  const layers = shrinkLayers(layersBefore)
  if (layers.some((own, stage) => own !== layersBefore[stage]))
    hides.push(`Layers ${listed(layersBefore)} of the stages became ${listed(layers)}.`)

  const unit = settings === null ? 1 : sequenceUnit(mesh, settings)
  const sequence = Math.ceil(Math.min(plan.sequence, miniatureSequence) / unit) * unit
  const context =
    plan.sequence === config.context ? sequence : Math.max(sequence, Math.min(config.context, 2 * sequence))
  const total = layers.reduce((sum, own) => sum + own, 0)
  const parts = shrunkParts(plan, shape, shrunkMesh)
  const shrunk = shrinkModel(config, { layers: total, context, parts })
  if (shrunk.hidden !== config.hidden || shrunk.vocab !== config.vocab || sequence !== plan.sequence)
    hides.push(
      `Hidden ${config.hidden}, vocabulary ${config.vocab} and sequence ${plan.sequence} became ${shrunk.hidden}, ${shrunk.vocab} and ${sequence}: memory, overflow of large sums and index ranges of large tensors are not exercised.`,
    )
  if (config.family === 'moe' && shrunk.family === 'moe' && shrunk.experts !== config.experts)
    hides.push(
      `${config.experts} experts, ${config.topk} of them for a token, became ${shrunk.experts} and ${shrunk.topk}.`,
    )
  if (plan.bucketBytes > miniatureBucketBytes)
    hides.push(
      `Reduction buckets of ${plan.bucketBytes} bytes became ${miniatureBucketBytes}, so that a stage has several.`,
    )
  if (plan.deviceBytes !== null)
    hides.push('The memory budget is not applied: bytes of a miniature say nothing about it.')
  if (document.model !== null && document.model.weights !== null)
    hides.push('Initial values come from the seed, not from the weights file, which has other shapes.')
  if (document.data.tokenizer !== null) hides.push('The text is read as bytes, not with the tokenizer.')

  const small: Miniature = {
    plan: {
      ...document,
      model: { name: printShortName(shrunk), weights: null },
      data: { ...document.data, tokenizer: null },
      mesh: { ...mesh, pipeline: actors },
      stages: layers,
      zero: shrinkZero(document.zero, isShared, isHybrid),
      recompute: shrinkRecompute(document.recompute, layersBefore, layers),
      batch: { samples, microbatches },
      sequence,
      reduction: { bucketBytes: Math.min(plan.bucketBytes, miniatureBucketBytes) },
      memory: { deviceBytes: null },
    },
    model: shrunk,
    hides,
  }
  return document.layout.rules.length === 0 ? small : withFittingRules(small)
}

/** Without the rules of the layout where they do not fit the small sizes. */
function withFittingRules(small: Miniature): Miniature {
  try {
    resolvePlan(small.plan, modelFromConfig(small.model))
    return small
  } catch (error) {
    if (!(error instanceof PlanError)) throw error
  }
  return {
    plan: { ...small.plan, layout: { ...small.plan.layout, rules: [] } },
    model: small.model,
    hides: [...small.hides, 'Rules of the layout do not fit the small sizes and are left out.'],
  }
}

/** Into how many parts the small mesh cuts what. */
function shrunkParts(
  { document, layout }: ResolvedPlan,
  shape: ModelShape,
  { mesh, heads }: ShrunkMesh,
): ShrunkParts {
  const edge = Object.values(tensorAxes(mesh.tensor))[0]!
  const rows = layout?.settings.vocabulary === true
  return {
    isCut: layout !== null,
    heads: heads.heads,
    kvHeads: heads.kvHeads,
    mlp:
      'x' in Object(mesh.tensor) ? edge * edge : document.layout.rules.length > 0 ? modelRanks(mesh) : edge,
    expertMlp: mesh.expertTensor,
    experts: mesh.expert,
    isOneExpert: shape.experts === document.mesh.expert,
    vocabulary: rows ? [vocabularyParts(document.mesh.tensor), vocabularyParts(mesh.tensor)] : [1, 1],
  }
}

function shrinkZero(zero: PlanZero, isShared: boolean, isHybrid: boolean): PlanZero {
  if (isShared) return isHybrid ? { ...zero, shards: 2 } : { ...zero, shards: null, replicas: 'plain' }
  return { ...zero, stage: 0, shards: null, gather: null, reduce: null }
}

/** Actors between which activations go, as pairs. */
function neighbours({ schedule: { placement } }: ResolvedPlan): [number, number][] {
  return placement.slice(1).map((actor, stage) => [placement[stage]!, actor])
}

/**
 * At most two for each stage, or as many more as the schedule takes, with the same remainder modulo the number of
 * stages, and more than stages where they were more. A schedule written in full has the number it has.
 */
function shrinkMicrobatches({
  document: { schedule },
  schedule: { stages, placement },
  microbatches,
}: ResolvedPlan): number {
  if (!('name' in schedule)) return microbatches
  const { refuse } = findGenerator(schedule.name)
  const edges = chainEdges(stages)
  const remainder = microbatches % stages
  for (let fewer = stages + (remainder === 0 ? stages : remainder); fewer < microbatches; fewer += stages)
    if (refuse?.({ stages, edges, placement, microbatches: fewer }, schedule.parameters) === undefined)
      return fewer
  return microbatches
}

/** Samples of a micro-batch: one on a replica where it was one, else several. */
function shrinkSamples(plan: ResolvedPlan, replicas: readonly number[], parts: number): number {
  const unit = leastCommonMultipleOf(replicas.map((count) => count * parts))
  const before = plan.layout?.sampleParts ?? 1
  const keepsClasses = (size: number): boolean =>
    plan.stages.every(
      ({ localSamples, actor }) => localSamples / before > 1 === size / replicas[actor]! / parts > 1,
    )
  return [unit, 2 * unit].find(keepsClasses) ?? 2 * unit
}

/** `8`, or `8, 8, 7, 7` where they differ. */
function listed(values: readonly number[]): string {
  return values.every((value) => value === values[0]) ? String(values[0]) : values.join(', ')
}

function count(number: number, noun: string, plural = 's'): string {
  return `${number} ${noun}${number === 1 ? '' : plural}`
}
