import type { GraphBuilder, ValueId } from '../graph/index.ts'

/** Whether a query sees a key at its own position or before it, positions counted from the last key: bool [queries, keys]. */
export function causalKeys(builder: GraphBuilder, queries: number, keys: number): ValueId {
  const positions = builder.one('iota', [], { shape: [queries, 1], dtype: 'i32', dim: 0 })
  const beyond = builder.one('fill', [], { shape: [], dtype: 'i32', value: keys - queries + 1 })
  const first = builder.one('add', [positions, beyond], {})
  const counted = builder.one('iota', [], { shape: [1, keys], dtype: 'i32', dim: 1 })
  return builder.one('less', [counted, first], {})
}

/** Whether query and key are of one document, by ids [..., queries] and [..., keys]: bool [..., queries, keys]. */
export function keysOfDocument(builder: GraphBuilder, ofQueries: ValueId, ofKeys: ValueId): ValueId {
  const queries = builder.type(ofQueries).shape
  const keys = builder.type(ofKeys).shape
  const rows = builder.one('reshape', [ofQueries], { shape: [...queries, 1] })
  const columns = builder.one('reshape', [ofKeys], { shape: keys.toSpliced(-1, 0, 1) })
  return builder.one('equal', [rows, columns], {})
}

/**
 * The keys that a position of packed sequences sees: those of its own document, with `causal` up to itself.
 * `documents` i32 [..., sequence] -> bool [..., sequence, sequence].
 */
export function visibleKeys(builder: GraphBuilder, documents: ValueId, causal: boolean): ValueId {
  const own = keysOfDocument(builder, documents, documents)
  if (!causal) return own
  const sequence = builder.type(documents).shape.at(-1)!
  return builder.one('and', [own, causalKeys(builder, sequence, sequence)], {})
}
