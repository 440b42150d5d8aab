import { assertNever, internalError } from '../../base/index.ts'
import { type GraphBuilder, isFloat, type OpAttributes, type ValueId } from '../../graph/index.ts'
import { inMeshOrder } from '../candidates.ts'
import { axesSize, axisSize } from '../mesh.ts'
import { localShape, mergedShape } from '../rules/local.ts'
import type { Step } from '../steps.ts'
import type { Layout, Mesh, PartialReduction } from '../types.ts'
import type { RankScalars } from './rankScalars.ts'

interface StepContext {
  readonly builder: GraphBuilder
  readonly scalars: RankScalars
  readonly mesh: Mesh
  /** Of the whole value, every factor a dim. */
  readonly shape: readonly number[]
  /** How many factors each dim of the value has. */
  readonly factors: readonly number[]
}

/**
 * Adds one step of a redistribution to the graph that all ranks run. A collective takes and gives the blocks of its members
 * one after the other, in rank order: what makes a run of each member's block, and what puts blocks into their place, are
 * ordinary ops around it.
 */
export function addStep(context: StepContext, step: Step, value: ValueId): ValueId {
  const { builder, scalars } = context
  switch (step.kind) {
    case 'vary':
      return value
    case 'slice':
      return sliced(context, step, value)
    case 'keepOne': {
      // Of a maximum, and of a mean, all may keep the whole.
      if (step.reduce !== 'sum') return value
      const { dtype } = builder.type(value)
      if (!isFloat(dtype)) throw internalError(`a value of dtype ${dtype} becomes terms of a sum`)
      return builder.one('mul', [value, scalars.isZero(step.axes, dtype as 'f32' | 'f64')], {})
    }
    case 'allReduce':
      return communicate(context, 'allReduce', step.axes, value, step.reduce)
    case 'allGather':
      return gathered(context, step.before, step.dim, step.axes, value)
    case 'reduceScatter': {
      const apart = splitOff(context, step.before, step.dim, step.axes, value)
      const own = communicate(context, 'reduceScatter', step.axes, apart, step.reduce)
      return merged(context, step.after, own)
    }
    case 'allToAll': {
      const { fromDim, toDim, axes } = step
      const apart = splitOff(context, step.before, toDim, axes, value)
      const exchanged = communicate(context, 'allToAll', axes, apart)
      // What member i sent is its part of the dim that was cut.
      const between = local(context, { dims: step.before.dims })
      between[toDim] = between[toDim]! / axesSize(context.mesh, axes)
      return merged(context, step.after, joined(context, between, fromDim, axes, exchanged))
    }
    case 'permute':
    case 'exchange':
      throw internalError(`a ${step.kind} is not among the steps that all ranks do alike`)
    default:
      return assertNever(step)
  }
}

function communicate(
  { builder, mesh }: StepContext,
  operation: OpAttributes['communicate']['operation'],
  axes: readonly string[],
  value: ValueId,
  reduce: PartialReduction | null = null,
): ValueId {
  const members = axesSize(mesh, axes)
  const ordered = inMeshOrder(axes, mesh)
  return builder.one('communicate', [value], { operation, reduce, axes: ordered, members, root: 0, shift: 0 })
}

function local({ shape, mesh }: StepContext, layout: Pick<Layout, 'dims'>): number[] {
  return localShape(layout, shape, mesh)
}

function reshaped({ builder }: StepContext, value: ValueId, shape: readonly number[]): ValueId {
  return `${builder.type(value).shape}` === `${shape}` ? value : builder.one('reshape', [value], { shape })
}

/** Dims as the value has them, from one for each factor. */
function merged(context: StepContext, layout: Layout, value: ValueId): ValueId {
  return reshaped(context, value, mergedShape(local(context, layout), context.factors))
}

/** Each dim that is cut further, from where the rank's part of it begins. */
function sliced(context: StepContext, { before, after }: Step, value: ValueId): ValueId {
  const { builder, scalars } = context
  const sizes = local(context, after)
  const isCut = (dim: number): boolean => after.dims[dim]!.length > before.dims[dim]!.length
  // Dims of the value where each is one factor or its outermost is the one that is cut, else the factors.
  let part = reshaped(context, value, local(context, before))
  sizes.forEach((size, dim) => {
    if (!isCut(dim)) return
    const axes = after.dims[dim]!.slice(before.dims[dim]!.length)
    part = builder.one('dynamicSlice', [part, scalars.start(axes, size)], { dim, size })
  })
  return merged(context, after, part)
}

/** [members, …]: for each member, by rank, its part of a dim of the block that is cut further by the axes. */
function splitOff(
  context: StepContext,
  before: Layout,
  dim: number,
  axes: readonly string[],
  value: ValueId,
): ValueId {
  const { builder, mesh } = context
  const sizes = local(context, before)
  const members = axesSize(mesh, axes)
  const ordered = inMeshOrder(axes, mesh)
  const [outer, inner] = around(sizes, dim)
  const part = sizes[dim]! / members
  // In the order of the cut, its first axis slowest.
  const apart = reshaped(context, value, [outer, ...axes.map((axis) => axisSize(mesh, axis)), part * inner])
  const order = [...ordered.map((axis) => 1 + axes.indexOf(axis)), 0, axes.length + 1]
  const own = [...sizes]
  own[dim] = part
  return reshaped(context, transposed(builder, apart, order), [members * own[0]!, ...own.slice(1)])
}

function gathered(
  context: StepContext,
  before: Layout,
  dim: number,
  axes: readonly string[],
  value: ValueId,
): ValueId {
  const sizes = local(context, before)
  const all = communicate(context, 'allGather', axes, reshaped(context, value, sizes))
  const after: Layout = {
    ...before,
    dims: before.dims.map((own, at) => (at === dim ? own.slice(0, -axes.length) : own)),
  }
  return merged(context, after, joined(context, sizes, dim, axes, all))
}

/** From the blocks of all members, by rank, of these sizes: one block, of which they are parts of a dim. */
function joined(
  context: StepContext,
  sizes: readonly number[],
  dim: number,
  axes: readonly string[],
  value: ValueId,
): ValueId {
  const { builder, mesh } = context
  const ordered = inMeshOrder(axes, mesh)
  const [outer, inner] = around(sizes, dim)
  const apart = reshaped(context, value, [
    ...ordered.map((axis) => axisSize(mesh, axis)),
    outer,
    sizes[dim]! * inner,
  ])
  const order = [axes.length, ...axes.map((axis) => ordered.indexOf(axis)), axes.length + 1]
  return transposed(builder, apart, order)
}

function transposed(builder: GraphBuilder, value: ValueId, permutation: readonly number[]): ValueId {
  const { shape } = builder.type(value)
  // Dims of size 1 may stand anywhere: only the order of the others moves elements.
  const moving = permutation.filter((dim) => shape[dim] !== 1)
  if (moving.every((dim, at) => at === 0 || moving[at - 1]! < dim))
    return builder.one('reshape', [value], { shape: permutation.map((dim) => shape[dim]!) })
  return builder.one('transpose', [value], { permutation })
}

/** How many elements dims before and after one have. */
function around(sizes: readonly number[], dim: number): [number, number] {
  const product = (own: readonly number[]): number => own.reduce((all, size) => all * size, 1)
  return [product(sizes.slice(0, dim)), product(sizes.slice(dim + 1))]
}
