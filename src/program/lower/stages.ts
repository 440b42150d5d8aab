import { internalError } from '../../base/index.ts'
import {
  differentiatePiece,
  elementCount,
  type Graph,
  type StagePiece,
  sliceGraph,
  splitStages,
  stageTasks,
} from '../../graph/index.ts'
import type { LocalDerivative } from '../../layout/index.ts'
import type { Model } from '../../models/index.ts'
import type { ResolvedPlan } from '../../plan/index.ts'
import { isReplicaAxis, replicaCount } from '../mesh.ts'
import type { Constant, MeshAxis, PackBlock } from '../types.ts'
import { communicates } from './flow.ts'
import type { StageLayouts } from './layouts.ts'
import { type PlacedParameter, packParameters, type StageInfo } from './packs.ts'

/** Builds and differentiates every stage at the sizes its ranks see. Stages of equal local batch share one model graph. */
export function stageInfos(plan: ResolvedPlan, model: Model, layouts: StageLayouts | null): StageInfo[] {
  const pieces = new Map<number, readonly StagePiece[]>()
  const piecesFor = (batch: number): readonly StagePiece[] => {
    const known = pieces.get(batch)
    if (known !== undefined) return known
    const graph = layouts?.build(batch) ?? model.build({ batch, sequence: plan.sequence, dtype: plan.dtype })
    const made = splitStages(graph, plan.stageOfBlock)
    pieces.set(batch, made)
    return made
  }
  const actorOf = plan.schedule.placement
  const stagePieces = plan.stages.map(({ index, replicas }) => {
    // Data axes inside the mesh of layouts cut the samples that the graph is of.
    const inside = replicaCount(layouts?.actors[actorOf[index]!]?.mesh.axes ?? [])
    const piece = piecesFor((plan.samplesPerMicrobatch / replicas) * inside)[index]
    if (piece === undefined) throw internalError(`stage ${index} is empty`)
    return piece
  })
  const users = parameterUsers(stagePieces.map((piece) => piece.graph))
  const locals = layouts === null ? undefined : localDerivatives(stagePieces, actorOf, users, layouts)
  return plan.stages.map(({ index, replicas }) => {
    const piece = stagePieces[index]!
    const actor = actorOf[index]!
    const local = locals?.[index]
    const axes = axesOf(plan, replicas, actor, layouts)
    // What is gathered for a window is gone by the time of a W that was put off.
    const options = {
      recomputation: plan.recompute,
      weightsTakeParameters: plan.zero === null || plan.zero.gather === 'step',
      holdGathered: layouts?.holdGathered ?? false,
      kept: local?.kept ?? [],
    }
    const tasks = stageTasks(piece, local ?? differentiatePiece(piece), options)
    return {
      stage: index,
      actor,
      replicas,
      dataAxes: axes.data,
      mesh: axes.mesh,
      piece,
      forward: local === undefined ? piece.graph : forwardOf(local),
      tasks,
      holdsAsOne: tasks.R !== undefined && communicates(tasks.FB),
      constants: local === undefined ? new Map() : constantsOf(local),
      lossSums: axes.inMeshOrder([...axes.outer, ...(local?.lossTerms ?? [])]),
      ...packParameters({
        stage: index,
        parameters: model.parameters,
        users,
        actorOf,
        mesh: axes.mesh,
        zero: axes.zero,
        placed: (name) => placedParameter(piece.graph, local, name, axes),
      }),
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

/** What ranks do of each stage. Stages that use one parameter have terms of its gradient along the same axes. */
function localDerivatives(
  pieces: readonly StagePiece[],
  actorOf: readonly number[],
  users: ReadonlyMap<string, readonly number[]>,
  { derive, checkRules }: StageLayouts,
): LocalDerivative[] {
  const derivatives = pieces.map(differentiatePiece)
  let terms: ReadonlyMap<string, readonly string[]> = new Map()
  for (;;) {
    const found = derivatives.map((derivative, stage) => needed(derive(derivative, actorOf[stage]!, terms)))
    const wanted = new Map(terms)
    let agree = true
    for (const [name, stages] of users) {
      if (stages.length === 1) continue
      const own = stages.map((stage) => found[stage]!.terms.get(name) ?? [])
      const union = [...new Set(own.flat())].sort()
      if (own.every((axes) => axes.length === union.length)) continue
      if (union.length === (terms.get(name)?.length ?? 0))
        throw internalError(`gradients of ${name} are not terms along ${union.join(', ')} on all stages`)
      agree = false
      wanted.set(name, union)
    }
    if (agree) {
      checkRules()
      return found
    }
    terms = wanted
  }
}

/** Without outputs that are no gradients, such as ids that a rank has its own of. */
function needed(local: LocalDerivative): LocalDerivative {
  const used = new Set(
    local.gradients.flatMap((gradient) => {
      if (gradient.kind === 'dense') return [gradient.output]
      return [gradient.values, ...('output' in gradient.ids ? [gradient.ids.output] : [])]
    }),
  )
  return { ...local, gradientOutputs: local.gradientOutputs.filter(({ name }) => used.has(name)) }
}

function forwardOf({ joint, forwardOutputs }: LocalDerivative): Graph {
  return sliceGraph(joint, joint.inputs, forwardOutputs)
}

function constantsOf({ scalars }: LocalDerivative): Map<string, Constant> {
  return new Map(
    scalars.map((scalar) => [
      scalar.name,
      scalar.kind === 'start' ? { start: { axes: scalar.axes, step: scalar.step } } : { isZero: scalar.axes },
    ]),
  )
}

function placedParameter(
  graph: Graph,
  local: LocalDerivative | undefined,
  name: string,
  axes: StageAxes,
): PlacedParameter {
  const { value } = graph.inputs.find((input) => input.name === name)!
  const { shape } = graph.values[value]!.type
  const elements = elementCount(shape)
  const placed = local?.placed.get(name)
  if (local === undefined || placed === undefined) return { elements, sums: axes.inMeshOrder(axes.outer) }
  const { type, layout } = placed
  const cut = layout.dims.flat()
  const parts = axes.mesh.reduce((count, axis) => (cut.includes(axis.name) ? count * axis.size : count), 1)
  const block: PackBlock = { shape: type.shape, axes: layout.dims }
  return {
    block,
    elements: elements / parts,
    sums: axes.inMeshOrder([...axes.outer, ...(local.terms.get(name) ?? [])]),
  }
}

interface StageAxes {
  /** Outermost first. */
  readonly data: readonly MeshAxis[]
  readonly mesh: readonly MeshAxis[]
  /** Data axes that layouts do not know: everything is summed over them. */
  readonly outer: readonly string[]
  readonly zero: { readonly gathered: readonly string[]; readonly copies: readonly string[] }
  readonly inMeshOrder: (names: readonly string[]) => string[]
}

function axesOf(
  { zero }: ResolvedPlan,
  replicas: number,
  actor: number,
  layouts: StageLayouts | null,
): StageAxes {
  const own = layouts?.actors[actor]
  const inner = own?.mesh.axes ?? []
  const given = own?.replicas ?? [{ name: 'data', size: replicas }]
  // Where there is one replica, that is said.
  const isOne = given.length === 0 && !inner.some(({ name }) => isReplicaAxis(name))
  const split = withCopies(isOne ? [{ name: 'data', size: 1 }] : given, zero)
  const mesh = [...split.axes, ...inner]
  const data = mesh.filter(({ name }) => isReplicaAxis(name))
  const names = data.map(({ name }) => name)
  return {
    data,
    mesh,
    outer: split.axes.map(({ name }) => name),
    zero: {
      gathered: zero === null ? [] : names.filter((name) => name !== split.copies),
      copies: zero?.shardsCopies === true && split.copies !== undefined ? [split.copies] : [],
    },
    inMeshOrder: (wanted) => mesh.flatMap(({ name }) => (wanted.includes(name) ? [name] : [])),
  }
}

/** Copies that ZeRO deals out within are ranks along an axis of their own, the outermost. */
function withCopies(
  given: readonly MeshAxis[],
  zero: ResolvedPlan['zero'],
): { readonly axes: readonly MeshAxis[]; readonly copies: string | undefined } {
  if (zero === null || zero.copies === 1) return { axes: given, copies: undefined }
  const [first, ...rest] = given
  if (first === undefined || first.size % zero.copies !== 0)
    throw internalError(
      `${zero.copies} copies of ${given.map(({ name, size }) => `${name}=${size}`).join(', ')}`,
    )
  const copies = { name: 'data.replica', size: zero.copies }
  const shard = { name: first.name === 'data' ? 'data.shard' : first.name, size: first.size / zero.copies }
  return {
    axes: [copies, ...(shard.size === 1 && rest.length > 0 ? [] : [shard]), ...rest],
    copies: copies.name,
  }
}
