import type { GraphBuilder, RewriteContext, ValueId } from '../../graph/index.ts'
import { inOrder } from './zigzag.ts'

/** i32 [sequence] */
type Positions = (builder: GraphBuilder) => ValueId

/**
 * What stands in for a node that uses the first rows of a learned table of positions, or (`tables`) makes rotary tables:
 * the rows of `positions`. Undefined for other nodes.
 */
export function positionRows(
  { builder, node, operands, name }: RewriteContext,
  positions: Positions,
  tables: boolean,
): readonly ValueId[] | undefined {
  if (node.op === 'rotaryTable' && tables)
    return [inOrder(builder, builder.one('rotaryTable', [], node.attributes), 0, positions(builder))]
  const isTable = (value: ValueId): boolean =>
    builder.producer(value) === undefined && builder.type(value).axes?.[0] === 'position'
  if (!operands.some(isTable)) return undefined
  const rows = (value: ValueId): ValueId =>
    isTable(value) ? builder.one('gather', [value, positions(builder)], {}) : value
  // The rows of a shorter sequence, or the table itself.
  if (node.op === 'slice') return [rows(operands[0]!)]
  return builder.op(node.op, operands.map(rows), node.attributes, name)
}
