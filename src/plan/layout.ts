import { MeshwrightError, nearestWorking } from '../base/index.ts'
import {
  type FactoredAxes,
  findRecipe,
  type LayoutSettings,
  type MeshAxis,
  type TensorRecipe,
} from '../layout/index.ts'
import { factorRanks, modelRanks, tensorSize } from './factorRanks.ts'
import {
  checkContext,
  checkTensor,
  headCut,
  sampleParts,
  vocabularyParts,
  wouldWork,
  writeTensor,
} from './layoutChecks.ts'
import { resolveRules } from './layoutRules.ts'
import { type ModelShape, modelShape, type PlannedModel } from './modelShape.ts'
import { checkOverlap } from './overlapCheck.ts'
import type { Report } from './resolve.ts'
import { maximumRanks } from './schema.ts'
import type { PlanDocument } from './types.ts'

/** How a plan lays its model out over the ranks of each actor. */
export interface ResolvedLayout {
  /** Axes over which the ranks of a replica share its work, outermost first, none of size 1; the same for every actor. */
  readonly axes: readonly MeshAxis[]
  /** By actor: all its ranks, experts' axes and data axes included. */
  readonly actors: readonly FactoredAxes[]
  readonly settings: LayoutSettings
  /** Rows that the model's tables are padded to, so that ranks have equal parts. */
  readonly paddedVocabulary: number
  /** Equal parts into which the samples of a replica are cut over `tensor`: 1, q on a square, q · q in a cube. */
  readonly sampleParts: number
}

/**
 * Null where each replica is one rank and there are no rules; undefined, and reported, where the model does not divide as the
 * plan has it.
 */
export function resolveLayout(
  plan: PlanDocument,
  model: PlannedModel,
  { replicas, sequence }: { readonly replicas: readonly number[]; readonly sequence: number },
  report: Report,
): ResolvedLayout | null | undefined {
  let isWrong = false
  const bad: Report = (...problem) => {
    isWrong = true
    return report(...problem)
  }
  const { mesh } = plan
  const shape = modelShape(model)
  if (shape.experts > sequence)
    bad(
      'PLAN_SEQUENCE',
      ['sequence'],
      `sequences of ${sequence} tokens for the ${shape.experts} experts of ${model.name}: some would get none of any`,
      `sequence is at least ${shape.experts}`,
    )
  const settings = resolveSettings(plan, shape, bad)
  if (!isWrong) {
    checkTensor(plan, model, shape, settings.tensor, bad)
    checkContext(plan, { model, shape, settings, sequence }, bad)
    const { samples, microbatches } = plan.batch
    for (const count of new Set(replicas)) {
      const own = samples / microbatches / count
      if (Number.isInteger(own)) checkOverlap(plan, settings, { samples: own, sequence }, bad)
    }
  }
  checkExperts(plan, model, shape, bad)
  if (isWrong) return undefined
  const heads = headCut(mesh, shape, settings)
  const actors = factorActors(plan, replicas, shape, (count) => factorRanks(mesh, count, heads), bad)
  if (actors === undefined) return undefined
  const isOverData = actors.some(({ mesh: own }) => own.axes.some(({ name }) => /^data($|\.)/.test(name)))
  if (isOverData && replicas.some((count) => count !== replicas[0]))
    return bad(
      'PLAN_MESH',
      ['mesh', 'data'],
      `experts are cut over data, and actors have ${replicas.join(', ')} replicas`,
      'give every actor as many replicas, or cut experts over context and tensor alone',
    )
  const rules = resolveRules(plan, { model, shape, sequence, actors }, report)
  if (rules === undefined) return undefined
  if (modelRanks(mesh) * mesh.expert * mesh.expertTensor === 1 && rules.length === 0) return null
  const rows = settings.vocabulary ? vocabularyParts(mesh.tensor) : 1
  return {
    axes: actors[0]!.mesh.axes.filter(({ name }) => !/^data($|\.)/.test(name)),
    actors,
    settings: { ...settings, rules },
    paddedVocabulary: Math.ceil(model.vocabulary / rows) * rows,
    sampleParts: sampleParts(mesh.tensor),
  }
}

const shapes: Readonly<Record<TensorRecipe, string>> = {
  megatron: 'ranks in one row: mesh.tensor is a number',
  optimus: 'a square: mesh.tensor is { row: q, column: q }',
  cube: 'a cube: mesh.tensor is { x: q, y: q, z: q }',
}

/** Recipes in use with their settings, rules left out. */
function resolveSettings(plan: PlanDocument, shape: ModelShape, bad: Report): LayoutSettings {
  const { mesh, layout } = plan
  const fitting: TensorRecipe =
    typeof mesh.tensor === 'number' ? 'megatron' : 'row' in mesh.tensor ? 'optimus' : 'cube'
  const tensor = tensorSize(mesh.tensor) === 1 ? null : fitting
  const context = mesh.context === 1 ? null : layout.context
  if (tensor !== null && layout.tensor !== null && layout.tensor !== tensor)
    bad(
      'PLAN_LAYOUT',
      ['layout', 'tensor'],
      `${layout.tensor} needs ${shapes[layout.tensor]}; here it is ${writeTensor(mesh.tensor)}`,
      `change mesh.tensor, or take ${tensor}`,
    )
  for (const [key, recipe] of [
    ['sequence', tensor],
    ['zigzag', context],
  ] as const)
    if (layout[key] === true && recipe !== null && findRecipe(recipe).parameters[key] === undefined)
      bad('PLAN_LAYOUT', ['layout', key], `${recipe} has no setting ${key}`, `leave layout.${key} out`)
  const recipes = [tensor, context].filter((recipe) => recipe !== null)
  const gathering = recipes.filter((recipe) => findRecipe(recipe).parameters['gathered'] !== undefined)
  if (layout.gathered && recipes.length > 0 && gathering.length === 0)
    bad(
      'PLAN_LAYOUT',
      ['layout', 'gathered'],
      `${recipes.join(' and ')} ${recipes.length === 1 ? 'has' : 'have'} no setting gathered`,
      'leave layout.gathered out',
    )
  const zigzag = context === null ? undefined : findRecipe(context).parameters['zigzag']
  return {
    tensor,
    sequence: tensor !== null && layout.sequence,
    vocabulary: tensor !== null && layout.vocabulary,
    context,
    zigzag: zigzag !== undefined && (layout.zigzag ?? (zigzag.default && shape.causal)),
    gathered: gathering.length > 0 && layout.gathered,
    overlap: layout.overlap,
    rules: [],
  }
}

function checkExperts(
  { mesh }: PlanDocument,
  model: PlannedModel,
  shape: ModelShape,
  bad: Report,
): undefined {
  const { expert, expertTensor } = mesh
  if (expert * expertTensor === 1) return undefined
  const key = expert > 1 ? 'expert' : 'expertTensor'
  if (shape.experts === 0)
    return bad('PLAN_MESH', ['mesh', key], `${model.name} has no experts`, `leave mesh.${key} out`)
  if (shape.experts % expert !== 0)
    bad(
      'PLAN_MESH',
      ['mesh', 'expert'],
      `the ${shape.experts} experts of ${model.name} do not divide over ${expert} ranks`,
      wouldWork(
        'mesh.expert',
        nearestWorking(expert, (count) => shape.experts % count === 0, Math.min(shape.experts, maximumRanks)),
      ),
    )
  for (const width of shape.expertMlp)
    if (width % expertTensor !== 0)
      return bad(
        'PLAN_MESH',
        ['mesh', 'expertTensor'],
        `the ${width} of mlp of an expert of ${model.name} do not divide over ${expertTensor} ranks`,
        wouldWork(
          'mesh.expertTensor',
          nearestWorking(expertTensor, (count) => width % count === 0, Math.min(width, maximumRanks)),
        ),
      )
  return undefined
}

/** Both factorisations of the ranks of every actor. */
function factorActors(
  { mesh }: PlanDocument,
  replicas: readonly number[],
  shape: ModelShape,
  factor: (replicas: number) => FactoredAxes,
  bad: Report,
): readonly FactoredAxes[] | undefined {
  const { expert, expertTensor } = mesh
  const own = modelRanks(mesh)
  const path = ['mesh', expert > 1 ? 'expert' : 'expertTensor']
  const counts = new Set(replicas)
  const most = Math.floor((Math.min(...counts) * own) / expertTensor)
  const hint = (): string | undefined => {
    const works = (count: number): boolean =>
      shape.experts % count === 0 &&
      [...counts].every((data) => {
        if ((data * own) % (count * expertTensor) !== 0) return false
        const cut = { ...mesh, expert: count }
        return attempt(() => factorRanks(cut, data, undefined)) !== undefined
      })
    return wouldWork('mesh.expert', nearestWorking(expert, works, most))
  }
  const actor = replicas.findIndex((count) => (count * own) % (expert * expertTensor) !== 0)
  if (actor >= 0) {
    const isEqual = replicas.every((count) => count === replicas[0])
    return bad(
      'PLAN_MESH',
      path,
      `${isEqual ? 'every actor' : `actor ${actor}`} has data ${replicas[actor]} x context ${mesh.context} x tensor ` +
        `${tensorSize(mesh.tensor)} = ${replicas[actor]! * own} ranks, no multiple of expert ${expert} x expertTensor ` +
        `${expertTensor} = ${expert * expertTensor}`,
      hint(),
    )
  }
  const made = new Map<number, FactoredAxes>()
  for (const count of counts) {
    const axes = attempt(
      () => factor(count),
      (error) => bad('PLAN_MESH', path, error.message, hint()),
    )
    if (axes === undefined) return undefined
    made.set(count, axes)
  }
  return replicas.map((count) => made.get(count)!)
}

/** Undefined where the factorisations do not nest. */
function attempt<T>(make: () => T, onError?: (error: MeshwrightError) => void): T | undefined {
  try {
    return make()
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    onError?.(error)
    return undefined
  }
}
