/** small plans whose replicas are several ranks, over everything that a layout can meet. */
import { MeshwrightError } from '../../src/base/index.ts'
import { placeStages, scheduleChain, scheduleGenerators } from '../../src/schedule/index.ts'
import { type Factors, pairwiseSubset } from './pairwise.ts'

type Tensor =
  | '1'
  | '2'
  | '2 sequence'
  | '3'
  | '3 sequence'
  | '4'
  | '4 sequence'
  | '2x2'
  | '2x2x2'
  | '2x2x2 gathered'
type Context = 'none' | `${'ring' | 'zig-zag' | 'gather' | 'gather zig-zag' | 'ulysses'} ${2 | 3 | 4}`

/** What a layout is of, and what stands beside it. */
export interface LayoutCase {
  readonly model: 'gpt' | 'llama' | 'mixtral' | 'deepseek'
  readonly tensor: Tensor
  readonly context: Context
  /** Ranks along expert, along expertTensor. */
  readonly experts: '1 1' | '1 2' | '2 1' | '2 2' | '4 1' | '4 2'
  /** Replicas of each actor. */
  readonly replicas: '1' | '2' | '4' | '1 1' | '2 2' | '2 1' | '4 4'
  /** As a plan says it, as JSON. */
  readonly zero: string
  readonly recompute: 'none' | 'attention' | 'full'
}

/** A case with what every case has one of, in turn. */
export interface ScheduledLayoutCase extends LayoutCase {
  readonly schedule: string
  readonly overlap: number
}

const sequence = 24
const mostRanks = 16

const meshes: Readonly<Record<string, unknown>> = {
  '2x2': { row: 2, column: 2 },
  '2x2x2': { x: 2, y: 2, z: 2 },
}

function tensorOf({ tensor }: LayoutCase): {
  readonly form: string
  readonly ranks: number
  readonly samples: number
  readonly sequence: boolean
} {
  const [form = '', option] = tensor.split(' ')
  return {
    form,
    ranks: form.split('x').reduce((product, size) => product * Number(size), 1),
    samples: form === '2x2' ? 2 : form === '2x2x2' ? 4 : 1,
    sequence: option === 'sequence',
  }
}

function contextOf({ context }: LayoutCase): { readonly ranks: number; readonly recipe: string } {
  const ranks = Number(/\d/.exec(context)?.[0] ?? 1)
  return { ranks, recipe: context.replace(/ \d/, '') }
}

function replicasOf({ replicas }: LayoutCase): number[] {
  return replicas.split(' ').map(Number)
}

/** The sizes that layouts of ranks have, from the innermost axis: those of one kind of axes end where those of the other do. */
function nests(dense: readonly number[], experts: readonly number[]): boolean {
  const ends = (sizes: readonly number[]): number[] =>
    sizes.map((_, at) => sizes.slice(0, at + 1).reduce((a, b) => a * b, 1))
  const all = [...ends(dense), ...ends(experts)].toSorted((a, b) => a - b)
  return all.every((end, at) => at === 0 || end % all[at - 1]! === 0)
}

/** Whether it is a plan, and small enough. */
export function isLayoutCase(one: LayoutCase): boolean {
  const [tensor, context, replicas] = [tensorOf(one), contextOf(one), replicasOf(one)]
  const [expert = 1, expertTensor = 1] = one.experts.split(' ').map(Number)
  const ranks = replicas.reduce((sum, count) => sum + count * context.ranks * tensor.ranks, 0)
  if (ranks > mostRanks) return false
  const runs = context.recipe.endsWith('zig-zag') ? 2 : 1
  const parts = tensor.sequence ? tensor.ranks : 1
  if (sequence % (context.ranks * (runs === parts ? parts : runs * parts)) !== 0) return false
  const isMoe = one.model === 'mixtral' || one.model === 'deepseek'
  if (!isMoe && one.experts !== '1 1') return false
  if (tensor.ranks * context.ranks * expert * expertTensor === 1) return false
  if (context.recipe === 'ulysses' && (12 / Number(tensor.form[0])) % context.ranks !== 0) return false
  const edges = tensor.form.split('x').map(Number).toReversed()
  for (const count of replicas) {
    const all = count * context.ranks * tensor.ranks
    if (all % (expert * expertTensor) !== 0) return false
    if (!nests([...edges, context.ranks, count], [expertTensor, expert, all / (expert * expertTensor)]))
      return false
  }
  const [first = 1] = replicas
  if (one.zero === '0') return first < 4
  if (first === 1 || replicas.some((count) => count !== first)) return false
  if (!one.zero.includes('shards')) return true
  return first === 4 && (context.ranks * tensor.ranks) % (expert * expertTensor) === 0
}

/** Heads of keys and values: fewer than ranks where the ranks are many, and no others than may be. */
function keyHeads(one: LayoutCase): number {
  const { form } = tensorOf(one)
  const { ranks, recipe } = contextOf(one)
  if (form === '3') return recipe === 'ulysses' && ranks !== 3 ? 12 : 3
  return recipe === 'ulysses' && ranks === 3 ? (form === '1' ? 3 : 12) : 2
}

function modelOf(one: LayoutCase, layers: number): string {
  const sizes = `layers=${layers},hidden=24,heads=12,context=${sequence}`
  const keys = `kvHeads=${keyHeads(one)}`
  const experts = 'experts=4,topk=2,expertMlp=6,balanceWeight=0.05'
  switch (one.model) {
    case 'gpt':
      return `gpt:${sizes},mlp=12,vocab=30`
    case 'llama':
      return `llama:${sizes},${keys},mlp=12,vocab=33,tied=false`
    case 'mixtral':
      return `moe:${sizes},${keys},mlp=12,vocab=33,${experts}`
    default:
      return (
        `moe:${sizes},mlp=12,vocab=31,${experts},headDim=2,kvLoraRank=6,qLoraRank=5,ropeHeadDim=2,valueHeadDim=4,capacityFactor=1,` +
        'denseLayers=1,sharedExperts=2,scoring=sigmoid,routerBias=true,groups=2,groupsPerToken=1,balance=sequence'
      )
  }
}

export function layoutPlan(one: ScheduledLayoutCase): Record<string, unknown> {
  const [tensor, context, replicas] = [tensorOf(one), contextOf(one), replicasOf(one)]
  const [expert, expertTensor] = one.experts.split(' ').map(Number)
  const actors = replicas.length
  const microbatches = microbatchesOf(actors)
  const stages = placeStages(one.schedule, actors).length
  return {
    meshwright: 1,
    model: modelOf(one, stages + 1),
    mesh: {
      pipeline: actors,
      data: replicas,
      context: context.ranks,
      tensor: meshes[tensor.form] ?? tensor.ranks,
      expert,
      expertTensor,
    },
    layout: {
      sequence: tensor.sequence,
      gathered: one.tensor.endsWith('gathered'),
      overlap: one.overlap,
      ...(context.ranks === 1
        ? {}
        : context.recipe === 'zig-zag'
          ? { context: 'ring', zigzag: true }
          : context.recipe === 'gather zig-zag'
            ? { context: 'gather', zigzag: true }
            : { context: context.recipe, zigzag: false }),
    },
    // One has more layers than the others.
    stages: Array.from({ length: stages }, (_, stage) => (stage === (stages > 2 ? 1 : 0) ? 2 : 1)),
    schedule: one.schedule,
    zero: JSON.parse(one.zero),
    recompute: one.recompute,
    batch: { samples: microbatches * Math.max(2, Math.max(...replicas) * tensor.samples), microbatches },
    dtype: 'f64',
    optimizer: { name: 'adamw', weightDecay: 0.1 },
    learningRate: { kind: 'constant', peak: 0.01 },
    // Far below the norm of a new model's gradients.
    clip: 0.05,
    reduction: { bucketBytes: 2048 },
  }
}

function microbatchesOf(actors: number): number {
  return actors === 1 ? 2 : 4
}

export function layoutCaseName(one: ScheduledLayoutCase): string {
  const { model, tensor, context, experts, replicas, zero, recompute, schedule, overlap } = one
  return `${model}, tensor ${tensor}, context ${context}, experts ${experts}, data ${replicas}, zero ${zero}, recompute ${recompute}, ${schedule}, overlap ${overlap}`
}

export function layoutFactors(full: boolean): Factors<LayoutCase> {
  return {
    model: ['gpt', 'llama', 'mixtral', 'deepseek'],
    tensor: [
      ...(['1', '2', '3', '4 sequence', '2x2', '2x2x2'] as const),
      ...(full ? (['2 sequence', '3 sequence', '4', '2x2x2 gathered'] as const) : []),
    ],
    context: [
      ...(['none', 'ring 2', 'zig-zag 3', 'gather 3', 'ulysses 2'] as const),
      ...(full
        ? ([
            'zig-zag 2',
            'zig-zag 4',
            'ring 3',
            'ring 4',
            'gather zig-zag 2',
            'gather 4',
            'ulysses 3',
            'ulysses 4',
          ] as const)
        : []),
    ],
    experts: full ? ['1 1', '1 2', '2 1', '2 2', '4 1', '4 2'] : ['1 1', '2 1', '2 2', '4 1'],
    replicas: ['1', '2', '4', '1 1', '2 2', '2 1', ...(full ? (['4 4'] as const) : [])],
    zero: [
      ...['0', '1', '3', '{"stage":3,"shards":2,"replicas":"sharded"}'],
      ...(full ? ['2', '{"stage":2,"shards":2}'] : []),
    ],
    recompute: ['none', 'attention', 'full'],
  }
}

/** Gives cases a schedule each, in turn those that have been given to fewest, and overlap where there are products to cut. */
export function scheduled(
  cases: readonly LayoutCase[],
  names: readonly string[] = [...scheduleGenerators.keys()],
): ScheduledLayoutCase[] {
  const uses = new Map(names.map((name) => [name, 0]))
  return cases.map((one, index) => {
    const actors = replicasOf(one).length
    const able = names.filter((name) => canSchedule(name, actors))
    const schedule = able.toSorted((a, b) => uses.get(a)! - uses.get(b)!)[0]!
    uses.set(schedule, uses.get(schedule)! + 1)
    return { ...one, schedule, overlap: index % 3 === 1 && mayOverlap(one) ? 2 : 1 }
  })
}

/** Panels are cut as they are; of a cut stream each rank must have an even number of tokens. */
function mayOverlap(one: LayoutCase): boolean {
  const [tensor, context] = [tensorOf(one), contextOf(one)]
  if (tensor.ranks === 1 || tensor.form === '2x2') return false
  const runs = context.recipe.endsWith('zig-zag') ? 2 : 1
  return !tensor.sequence || (sequence / tensor.ranks / context.ranks / runs) % 2 === 0
}

function canSchedule(name: string, actors: number): boolean {
  try {
    scheduleChain(name, { actors, microbatches: microbatchesOf(actors) })
    return true
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    return false
  }
}

export function layoutCases(full: boolean): ScheduledLayoutCase[] {
  return scheduled(pairwiseSubset(layoutFactors(full), isLayoutCase))
}
