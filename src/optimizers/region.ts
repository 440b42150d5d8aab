import { internalError } from '../base/index.ts'
import { GraphBuilder, type ValueId } from '../graph/index.ts'
import type { OptimizerBuildOptions } from './types.ts'

type ElementwiseOp = 'add' | 'sub' | 'mul' | 'div'

/** Shorthands for writing an update over a flat region. */
export interface RegionBuilder {
  readonly builder: GraphBuilder
  readonly w: ValueId
  /** The gradient, clipped. */
  readonly g: ValueId
  readonly learningRate: ValueId
  readonly state: (name: string) => ValueId
  readonly scalar: (name: string) => ValueId
  readonly constant: (value: number) => ValueId
  readonly op: (op: ElementwiseOp, a: ValueId, b: ValueId) => ValueId
}

export function startRegion(options: OptimizerBuildOptions): RegionBuilder {
  const { elements, dtype } = options
  const builder = new GraphBuilder()
  const region = { dtype, shape: [elements] }
  const scalar = (name: string): ValueId => builder.input(name, 'scalar', { dtype, shape: [] })
  const op = (name: ElementwiseOp, a: ValueId, b: ValueId): ValueId => builder.one(name, [a, b], {})
  const w = builder.input('w', 'parameter', region)
  const g = builder.input('g', 'cotangent', region)
  const learningRate = scalar('learningRate')
  return {
    builder,
    w,
    g: op('mul', g, scalar('clipFactor')),
    learningRate,
    state: (name) => builder.input(name, 'state', region),
    scalar,
    constant: (value) => builder.one('fill', [], { shape: [], dtype, value }),
    op,
  }
}

/** Steps count from 1, as in the papers; a step 0 would divide by zero in Adam. */
export function checkStep(step: number): void {
  if (!Number.isInteger(step) || step < 1) throw internalError(`optimizer step ${step}: steps count from 1`)
}
