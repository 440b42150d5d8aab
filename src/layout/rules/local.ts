import type { GraphBuilder, ValueId } from '../../graph/index.ts'
import { axesSize } from '../mesh.ts'
import type { Block, Layout, Mesh } from '../types.ts'
import { type Assignment, inputLayouts, outputLayouts } from './assignment.ts'
import type { CuttableOp } from './cuttable.ts'

/** Where a rank's part begins: its place along `axes`, the first slowest, times `step`; as a value of its graph. */
export type StartValue = (axes: readonly string[], step: number) => ValueId

/**
 * Adds to `builder` what a rank computes of an op that is cut by an assignment, evenly, from its blocks of the operands;
 * returns its blocks of the results. All ranks add the same: where a block begins comes as a value from `startValue`.
 */
export function addLocalOp(
  builder: GraphBuilder,
  op: CuttableOp,
  operands: readonly ValueId[],
  mesh: Mesh,
  assignment: Assignment,
  startValue: StartValue,
): readonly ValueId[] {
  const { signature, factors } = op
  const blocksOf = (
    layouts: readonly Layout[],
    types: CuttableOp['inputs'],
    counts: CuttableOp['factors']['inputs'],
  ): Block[] =>
    layouts.map((layout, at) => mergedBlock(localShape(layout, types[at]!.shape, mesh), counts[at]!))
  const inputBlocks = blocksOf(inputLayouts(signature, assignment), op.inputs, factors.inputs)
  const outputBlocks = blocksOf(outputLayouts(signature, assignment), op.outputs, factors.outputs)
  const axesOf = (index: string): readonly string[] => assignment.indices[index] ?? []
  const start = (index: string): ValueId | undefined => {
    const axes = axesOf(index)
    if (axes.length === 0) return undefined
    const { size, inner } = dimOf(op, index)!
    return startValue(axes, (size / axesSize(mesh, axes)) * inner)
  }
  return op.local({ builder, operands, inputBlocks, outputBlocks, start, axes: axesOf })
}

/** Sizes of a rank's block where all cuts are even. */
export function localShape(layout: Pick<Layout, 'dims'>, shape: readonly number[], mesh: Mesh): number[] {
  return shape.map((size, dim) => size / axesSize(mesh, layout.dims[dim]!))
}

/** Sizes of dims of which each is so many factors. */
export function mergedShape(factors: readonly number[], counts: readonly number[]): number[] {
  let at = 0
  return counts.map((count) => {
    const parts = factors.slice(at, at + count)
    at += count
    return parts.reduce((product, size) => product * size, 1)
  })
}

function mergedBlock(factors: readonly number[], counts: readonly number[]): Block {
  const ends = mergedShape(factors, counts)
  return { starts: ends.map(() => 0), ends }
}

/** Size of the factor that an index runs along, and how many elements of its dim lie in one step of it. */
function dimOf(
  { signature, inputs, outputs, factors }: CuttableOp,
  index: string,
): { readonly size: number; readonly inner: number } | undefined {
  const names = [...signature.inputs, ...signature.outputs]
  const types = [...inputs, ...outputs]
  const counts = [...factors.inputs, ...factors.outputs]
  for (const [at, own] of names.entries()) {
    const factor = own.indexOf(index)
    if (factor < 0) continue
    const { shape } = types[at]!
    let end = 0
    for (const count of counts[at]!) {
      end += count
      if (factor < end) break
    }
    const inner = shape.slice(factor + 1, end).reduce((product, size) => product * size, 1)
    return { size: shape[factor]!, inner }
  }
  return undefined
}
