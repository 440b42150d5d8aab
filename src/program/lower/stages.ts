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
import type { PackEntry } from '../types.ts'

/** Everything that lowering needs to know about one stage. */
export interface StageInfo {
  readonly stage: number
  readonly actor: number
  readonly replicas: number
  readonly piece: StagePiece
  readonly tasks: StageTasks
  readonly pack: ParameterPack
}

/** Parameters of a stage, flat: tied ones first, then those that decay, then those that do not. */
export interface ParameterPack {
  readonly entries: readonly PackEntry[]
  readonly elements: number
  /** Elements before this one take weight decay. */
  readonly decayEnd: number
  /** Names of parameters that other stages hold too. */
  readonly tied: ReadonlySet<string>
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
  const holders = parameterHolders(stagePieces.map((piece) => piece.graph))
  return plan.stages.map((stage) => {
    const piece = stagePieces[stage.index]!
    return {
      stage: stage.index,
      actor: plan.schedule.placement[stage.index]!,
      replicas: stage.replicas,
      piece,
      tasks: differentiateStage(piece),
      pack: packParameters(stage.index, piece.graph, model, holders),
    }
  })
}

/** Stages that hold each parameter, ascending. */
function parameterHolders(graphs: readonly Graph[]): Map<string, number[]> {
  const holders = new Map<string, number[]>()
  graphs.forEach((graph, stage) => {
    for (const input of graph.inputs)
      if (input.kind === 'parameter') holders.set(input.name, [...(holders.get(input.name) ?? []), stage])
  })
  return holders
}

function packParameters(
  stage: number,
  graph: Graph,
  model: Model,
  holders: ReadonlyMap<string, readonly number[]>,
): ParameterPack {
  const held = new Set(graph.inputs.flatMap((input) => (input.kind === 'parameter' ? [input.name] : [])))
  const isTied = (name: string): boolean => holders.get(name)!.length > 1
  const order = (name: string, decay: boolean): number => (decay ? 0 : 2) + (isTied(name) === decay ? 0 : 1)
  const specs = model.parameters
    .filter((parameter) => held.has(parameter.name))
    .sort((a, b) => order(a.name, a.decay) - order(b.name, b.decay))
  let offset = 0
  let decayEnd = 0
  const entries: PackEntry[] = []
  for (const { name, shape, decay } of specs) {
    entries.push({ name, shape, offset, owned: holders.get(name)![0] === stage })
    offset += elementCount(shape)
    if (decay) decayEnd = offset
  }
  return { entries, elements: offset, decayEnd, tied: new Set(specs.map((spec) => spec.name).filter(isTied)) }
}
