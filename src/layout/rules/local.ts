import type { GraphBuilder, ValueId } from '../../graph/index.ts'
import { heldBlock } from '../blocks.ts'
import type { Block, Coordinates, Mesh } from '../types.ts'
import { type Assignment, inputLayouts, outputLayouts } from './assignment.ts'
import type { CuttableOp } from './cuttable.ts'

/** Where a rank's part of an index begins, as a value of its graph. */
export type StartValue = (index: string, first: number) => ValueId

/**
 * Adds to `builder` what the rank at `own` computes of an op that is cut by an assignment, from its blocks of the
 * operands; returns its blocks of the results. Blocks of different sizes make different graphs; where a block begins
 * comes as a value from `startValue`.
 */
export function addLocalOp(
  builder: GraphBuilder,
  op: CuttableOp,
  operands: readonly ValueId[],
  mesh: Mesh,
  assignment: Assignment,
  own: Coordinates,
  startValue: StartValue,
): readonly ValueId[] {
  const { signature } = op
  const blocksOf = (
    layouts: ReturnType<typeof inputLayouts>,
    types: CuttableOp['inputs'],
  ): readonly Block[] => layouts.map((layout, at) => heldBlock(layout, types[at]!.shape, mesh, own))
  const inputBlocks = blocksOf(inputLayouts(signature, assignment), op.inputs)
  const outputBlocks = blocksOf(outputLayouts(signature, assignment), op.outputs)
  const start = (index: string): ValueId | undefined => {
    if ((assignment.indices[index] ?? []).length === 0) return undefined
    for (const [names, blocks] of [
      [signature.inputs, inputBlocks],
      [signature.outputs, outputBlocks],
    ] as const)
      for (const [at, dims] of names.entries()) {
        const dim = dims.indexOf(index)
        if (dim >= 0) return startValue(index, blocks[at]!.starts[dim]!)
      }
    return undefined
  }
  return op.local({ builder, operands, inputBlocks, outputBlocks, start })
}
