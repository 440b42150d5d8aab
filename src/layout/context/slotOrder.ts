import type { RewriteContext, ValueId } from '../../graph/index.ts'
import { inOrder, zigzagPlaces, zigzagPositions } from './zigzag.ts'

/**
 * What stands in for `assignSlots` where tokens are in zig-zag order: which choices find no slot follows from the order of
 * the sequence, so slots are assigned in that, and then told by the places where tokens are. Undefined for other nodes, and
 * where every choice finds a slot, whatever the order.
 */
export function slotsInOrder(
  { builder, node, operands }: RewriteContext,
  parts: number,
): readonly ValueId[] | undefined {
  if (node.op !== 'assignSlots') return undefined
  const [, sequence, k] = builder.type(operands[0]!).shape as [number, number, number]
  if (node.attributes.capacity >= sequence) return undefined
  const places = zigzagPlaces(builder, sequence, parts)
  const choices = inOrder(builder, operands[0]!, 1, places)
  const [slots, occupants, tokens] = builder.op('assignSlots', [choices], node.attributes) as [
    ValueId,
    ValueId,
    ValueId,
  ]
  const constant = (value: number): ValueId => builder.one('fill', [], { shape: [], dtype: 'i32', value })
  const isEmpty = builder.one('less', [tokens, constant(0)], {})
  const orEmpty = (value: ValueId): ValueId => builder.one('where', [isEmpty, constant(-1), value], {})
  const valid = builder.one('where', [isEmpty, constant(0), tokens], {})
  const moved = builder.one('gather', [places, valid], {})
  const further = builder.one('mul', [builder.one('sub', [moved, tokens], {}), constant(k)], {})
  return [
    inOrder(builder, slots, 1, zigzagPositions(builder, sequence, parts)),
    orEmpty(builder.one('add', [occupants, further], {})),
    orEmpty(moved),
  ]
}
