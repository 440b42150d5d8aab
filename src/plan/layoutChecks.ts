import { nearestWorking } from '../base/index.ts'
import type { LayoutSettings, TensorRecipe } from '../layout/index.ts'
import { type HeadCut, headParts, tensorAxes, tensorSize } from './factorRanks.ts'
import type { ModelShape, PlannedModel } from './modelShape.ts'
import type { Report } from './resolve.ts'
import { maximumRanks } from './schema.ts'
import type { PlanDocument, PlanMesh, PlanTensor } from './types.ts'

/** Something that a number of ranks must do to a size of the model. */
interface Rule {
  readonly holds: (ranks: number) => boolean
  /** How it fails. */
  readonly says: (ranks: number) => string
}

function divides(size: number, what: string, divisor = (ranks: number): number => ranks): Rule {
  return {
    holds: (ranks) => size % divisor(ranks) === 0,
    says: (ranks) => `the ${size} ${what} do not divide by ${divisor(ranks)}`,
  }
}

/** One divides the other: ranks have heads of their own, or groups of ranks have the same head. */
function nestsWith(heads: number, what: string): Rule {
  return {
    holds: (ranks) => heads % ranks === 0 || ranks % heads === 0,
    says: (ranks) => `the ${heads} ${what} neither divide by ${ranks} nor divide it`,
  }
}

/**
 * What each recipe needs of an axis of so many ranks: of one row (Shoeybi et al. 2019), of the edge of a square (Xu et al. 2021), of
 * the edge of a cube (Bian et al. 2021: of every weight the rows are cut in q · q parts and the columns in q).
 */
function tensorRules(recipe: TensorRecipe, { name }: PlannedModel, shape: ModelShape): readonly Rule[] {
  const heads = divides(shape.heads, `heads of ${name}`)
  const ownKeys = divides(shape.kvHeads, `key-value heads of ${name}`)
  const square = (edge: number): number => edge * edge
  switch (recipe) {
    case 'megatron':
      return [
        heads,
        nestsWith(shape.kvHeads, `key-value heads of ${name}`),
        ...shape.mlp.map((size) => divides(size, `of mlp of ${name}`)),
      ]
    case 'optimus':
      return [
        heads,
        ownKeys,
        divides(shape.hidden, `of hidden of ${name}`),
        ...shape.mlp.map((size) => divides(size, `of mlp of ${name}`)),
      ]
    case 'cube':
      return [
        heads,
        ownKeys,
        divides(shape.hidden, `of hidden of ${name}`, square),
        ...shape.headsWidths.map((size) => divides(size, `elements of all heads of ${name}`, square)),
        ...shape.mlp.map((size) => divides(size, `of mlp of ${name}`, square)),
      ]
  }
}

/** The form of the mesh, and what `tensor` must divide. */
export function checkTensor(
  { mesh: { tensor } }: PlanDocument,
  model: PlannedModel,
  shape: ModelShape,
  recipe: TensorRecipe | null,
  bad: Report,
): undefined {
  if (recipe === null) return undefined
  const path = ['mesh', 'tensor']
  const edges = Object.values(tensorAxes(tensor))
  const edge = edges[0]!
  const written = (count: number): string => writeTensor(sameEdges(tensor, count))
  if (edges.some((other) => other !== edge)) {
    const [low, high] = [Math.min(...edges), Math.max(...edges)]
    return bad(
      'PLAN_MESH',
      path,
      `${recipe} needs a ${recipe === 'optimus' ? 'square' : 'cube'}, but mesh.tensor is ${writeTensor(tensor)}`,
      wouldWork('mesh.tensor', [low, high].map(written)),
    )
  }
  const rules = tensorRules(recipe, model, shape)
  const works = nearestWorking(
    edge,
    (count) => rules.every(({ holds }) => holds(count)),
    Math.min(shape.heads, maximumRanks),
  )
  for (const { holds, says } of rules)
    if (!holds(edge)) bad('PLAN_MESH', path, says(edge), wouldWork('mesh.tensor', works.map(written)))
  return undefined
}

function sameEdges(tensor: PlanTensor, edge: number): PlanTensor {
  if (typeof tensor === 'number') return edge
  return 'row' in tensor ? { row: edge, column: edge } : { x: edge, y: edge, z: edge }
}

/**
 * Equal runs of tokens that a sample must divide into. Of the two runs of a zig-zag two ranks along `tensor` take one each; more ranks
 * take a part of either.
 */
export function sequenceUnit({ context, tensor }: PlanMesh, { sequence, zigzag }: LayoutSettings): number {
  const runs = (zigzag && context > 1 ? 2 : 1) * context
  const ranks = sequence ? tensorSize(tensor) : 1
  return runs === 2 * context && ranks === 2 ? runs : runs * ranks
}

/** Parts of the heads over `tensor`. */
function headRanks(tensor: PlanTensor): number {
  return Object.values(tensorAxes(tensor))[0]!
}

/** Heads of keys and values of each rank along `tensor`. */
function localKeys(mesh: PlanMesh, { kvHeads }: ModelShape): number {
  return kvHeads / headParts(kvHeads, headRanks(mesh.tensor)).kv
}

/** How heads are cut where sizes have been checked. */
export function headCut(mesh: PlanMesh, shape: ModelShape, { context }: LayoutSettings): HeadCut {
  const tensor = headParts(shape.kvHeads, headRanks(mesh.tensor))
  return context === 'ulysses'
    ? { tensor, context: headParts(localKeys(mesh, shape), mesh.context) }
    : { tensor }
}

/** What the axes that cut the sequence must divide: tokens, and with ulysses the heads that `tensor` leaves. */
export function checkContext(
  plan: PlanDocument,
  {
    model: { name, context: longest },
    shape,
    settings,
    sequence,
  }: {
    readonly model: PlannedModel
    readonly shape: ModelShape
    readonly settings: LayoutSettings
    readonly sequence: number
  },
  bad: Report,
): void {
  const { mesh } = plan
  const unitOf = (context: number): number => sequenceUnit({ ...mesh, context }, settings)
  const rules: Rule[] = []
  if (settings.context === 'ulysses') {
    const tensor = headRanks(mesh.tensor)
    const each = tensor === 1 ? '' : ` on a rank along tensor`
    rules.push(divides(shape.heads / tensor, `heads of ${name}${each}`))
    rules.push(nestsWith(localKeys(mesh, shape), `key-value heads of ${name}${each}`))
  }
  const divided: Rule = {
    holds: (ranks) => sequence % unitOf(ranks) === 0,
    says: (ranks) =>
      `sequences of ${sequence} tokens do not divide into ${unitOf(ranks)} equal runs: ${runsInWords(mesh, settings)}`,
  }
  const works = nearestWorking(
    mesh.context,
    (count) => [...rules, divided].every(({ holds }) => holds(count)),
    settings.context === null ? 1 : Math.min(sequence, maximumRanks),
  )
  const path = ['mesh', settings.context === null ? 'tensor' : 'context']
  for (const { holds, says } of rules)
    if (!holds(mesh.context)) bad('PLAN_MESH', path, says(mesh.context), wouldWork('mesh.context', works))
  if (divided.holds(mesh.context)) return
  const unit = unitOf(mesh.context)
  const sequences = nearestWorking(sequence, (count) => count % unit === 0, longest)
  const ways = [
    wouldWork('mesh.context', settings.context === null ? [] : works),
    wouldWork('sequence', sequences),
  ].filter((way) => way !== undefined)
  bad('PLAN_MESH', path, divided.says(mesh.context), ways.join('; or ') || undefined)
}

function runsInWords({ context, tensor }: PlanMesh, { zigzag, sequence }: LayoutSettings): string {
  const ways = [
    ...(context === 1 ? [] : [`${zigzag ? 'two for each of ' : ''}${context} along context`]),
    ...(sequence ? [`${tensorSize(tensor)} along tensor (layout.sequence)`] : []),
  ]
  return ways.join(', ')
}

/** As a plan has it. */
export function writeTensor(tensor: PlanTensor): string {
  if (typeof tensor === 'number') return String(tensor)
  return `{ ${Object.entries(tensor)
    .map(([part, size]) => `${part}: ${size}`)
    .join(', ')} }`
}

/** `mesh.expert 2 or 4 would work`; undefined where none does. */
export function wouldWork(path: string, values: readonly (number | string)[]): string | undefined {
  return values.length === 0 ? undefined : `${path} ${[...new Set(values)].join(' or ')} would work`
}

/** Equal parts of the samples of a replica. */
export function sampleParts(tensor: PlanTensor): number {
  if (typeof tensor === 'number') return 1
  return 'row' in tensor ? tensor.row : tensor.x * tensor.y
}

/** Equal parts of the rows of a vocabulary table that is cut. */
export function vocabularyParts(tensor: PlanTensor): number {
  return typeof tensor === 'number' ? tensor : sampleParts(tensor)
}
