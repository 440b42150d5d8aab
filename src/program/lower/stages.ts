import { internalError } from '../../base/index.ts'
import {
  differentiateStage,
  elementCount,
  type Graph,
  type StagePiece,
  type StageTasks,
  splitStages,
} from '../../graph/index.ts'
import type { Model } from '../../models/index.ts'
import type { ResolvedPlan } from '../../plan/index.ts'
import type { MeshAxis, PackEntry, Region } from '../types.ts'

/** Everything that lowering needs to know about one stage. */
export interface StageInfo {
  readonly stage: number
  readonly actor: number
  readonly replicas: number
  /** Axes over which its samples are split, of its actor's sub-mesh. */
  readonly axes: readonly MeshAxis[]
  readonly piece: StagePiece
  readonly tasks: StageTasks
  readonly pack: ParameterPack
}

/**
 * Parameters that a stage keeps, flat: those that decay, then those that do not, at the outer ends the tied ones. What
 * several stages of one actor use is kept by the lowest of them, their home: an actor has one copy.
 */
export interface ParameterPack {
  readonly entries: readonly PackEntry[]
  /** Padding included. */
  readonly elements: number
  /** Elements before this one take weight decay. */
  readonly decayEnd: number
  /** Shards into which each segment divides: 1 where every replica holds all of it. */
  readonly shards: number
  readonly segments: readonly PackSegment[]
  /** Names of parameters that stages of other actors keep too. */
  readonly tied: ReadonlySet<string>
  /** Names of parameters of the pack that other stages of the actor use. */
  readonly shared: ReadonlySet<string>
  /** Home of each parameter that the stage uses and another stage of its actor keeps. */
  readonly borrowed: ReadonlyMap<string, number>
}

/**
 * A range of a pack that is dealt out as a whole, padding at its end. A tied parameter is one by itself, so that ranks
 * that keep it have equal shards of it.
 */
export interface PackSegment extends Region {
  /** End of the last entry: what follows is padding. */
  readonly filled: number
  readonly decay: boolean
  /** This stage is the one that counts it. */
  readonly owned: boolean
  /** The tied parameter that it is. */
  readonly tied: string | undefined
  /** Other stages of the actor use it. */
  readonly shared: boolean
}

/** Builds and differentiates every stage at the sizes its replicas see. Stages of equal local batch share one model graph. */
export function stageInfos(plan: ResolvedPlan, model: Model): StageInfo[] {
  const pieces = new Map<number, readonly StagePiece[]>()
  const piecesFor = (batch: number): readonly StagePiece[] => {
    const known = pieces.get(batch)
    if (known !== undefined) return known
    const graph = model.build({ batch, sequence: plan.sequence, dtype: plan.dtype })
    const made = splitStages(graph, plan.stageOfBlock)
    pieces.set(batch, made)
    return made
  }
  const stagePieces = plan.stages.map((stage) => {
    const piece = piecesFor(plan.samplesPerMicrobatch / stage.replicas)[stage.index]
    if (piece === undefined) throw internalError(`stage ${stage.index} is empty`)
    return piece
  })
  const users = parameterUsers(stagePieces.map((piece) => piece.graph))
  const actorOf = plan.schedule.placement
  return plan.stages.map((stage) => {
    const piece = stagePieces[stage.index]!
    return {
      stage: stage.index,
      actor: actorOf[stage.index]!,
      replicas: stage.replicas,
      axes: dataAxes(plan, stage.replicas),
      piece,
      // What is gathered for a window is gone by the time of a W that was put off.
      tasks: differentiateStage(piece, {
        recomputation: plan.recompute,
        weightsTakeParameters: plan.zero === null || plan.zero.gather === 'step',
      }),
      pack: packParameters(stage.index, model, users, actorOf, shardsOf(plan)),
    }
  })
}

/** Stages that use each parameter, ascending. */
function parameterUsers(graphs: readonly Graph[]): Map<string, number[]> {
  const users = new Map<string, number[]>()
  graphs.forEach((graph, stage) => {
    for (const input of graph.inputs)
      if (input.kind === 'parameter') users.set(input.name, [...(users.get(input.name) ?? []), stage])
  })
  return users
}

function packParameters(
  stage: number,
  model: Model,
  users: ReadonlyMap<string, readonly number[]>,
  actorOf: readonly number[],
  shards: number,
): ParameterPack {
  const tied = new Set<string>()
  const shared = new Set<string>()
  const borrowed = new Map<string, number>()
  const kept = model.parameters.filter(({ name }) => {
    const stages = users.get(name) ?? []
    if (!stages.includes(stage)) return false
    const mates = stages.filter((other) => actorOf[other] === actorOf[stage])
    if (mates[0] !== stage) {
      borrowed.set(name, mates[0]!)
      return false
    }
    if (mates.length > 1) shared.add(name)
    if (mates.length < stages.length) tied.add(name)
    return true
  })
  // Those shared on the actor outermost, so that the rest is one range.
  const outer = (name: string): number => (shared.has(name) ? 2 : tied.has(name) ? 1 : 0)
  const order = ({ name, decay }: Model['parameters'][number]): number =>
    decay ? -1 - outer(name) : outer(name)
  const entries: PackEntry[] = []
  const segments: PackSegment[] = []
  for (const { name, shape, decay } of kept.toSorted((a, b) => order(a) - order(b))) {
    const owned = users.get(name)![0] === stage
    const known = segments.at(-1)
    const joins = known?.decay === decay && known.tied === undefined && !known.shared && outer(name) === 0
    const start = joins ? known.start : (known?.end ?? 0)
    const offset = joins ? known.filled : start
    const filled = offset + elementCount(shape)
    const segment = {
      start,
      filled,
      end: start + Math.ceil((filled - start) / shards) * shards,
      decay,
      owned,
      tied: tied.has(name) ? name : undefined,
      shared: shared.has(name),
    }
    if (joins) segments[segments.length - 1] = segment
    else segments.push(segment)
    entries.push({ name, shape, offset, owned })
  }
  const elements = segments.at(-1)?.end ?? 0
  const decayEnd = segments.findLast(({ decay }) => decay)?.end ?? 0
  return { entries, elements, decayEnd, shards, segments, tied, shared, borrowed }
}

/** Where a segment of the pack lies in the shard that a rank has of it. */
export function shardRegion({ shards }: ParameterPack, { start, end }: Region): Region {
  return { start: start / shards, end: end / shards }
}

/** Axes over which the samples of an actor with so many replicas are split, outermost first. */
export function dataAxes({ zero }: Pick<ResolvedPlan, 'zero'>, replicas: number): MeshAxis[] {
  if (zero === null || zero.copies === 1) return [{ name: 'data', size: replicas }]
  return [
    { name: 'data.replica', size: zero.copies },
    { name: 'data.shard', size: zero.shards },
  ]
}

function shardsOf({ zero }: ResolvedPlan): number {
  if (zero === null) return 1
  return zero.shardsCopies ? zero.shards * zero.copies : zero.shards
}
