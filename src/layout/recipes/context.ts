import type { WantedValue } from '../partition/types.ts'
import { type Cuts, hasAxis } from './dims.ts'
import type { FactoredAxes, LayoutSettings } from './settings.ts'

/** Axes over which the heads are cut of what attention takes: kv heads, and the query heads of each of them. */
export interface HeadAxes {
  readonly kv: readonly string[]
  readonly group: readonly string[]
}

/** Heads cut as these axes have them, in models whose query heads share kv heads and in those where each has its own. */
export function headCuts({ kv, group }: HeadAxes): Cuts {
  return { kvHeads: kv, 'heads.1': group, heads: [...kv, ...group] }
}

/**
 * What attention takes and gives under DeepSpeed-Ulysses (Jacobs et al. 2023): all tokens of some heads, and elsewhere, as
 * `cuts` has it, all of those heads of some tokens. The all-to-alls between the two follow, forward and backward.
 * Undefined for every other value, and for the other ways to share a context, which say nothing of attention's operands.
 */
export function attentionCuts(
  value: WantedValue,
  heads: HeadAxes,
  cuts: Cuts,
  { context }: LayoutSettings,
  { parts }: FactoredAxes,
): Cuts | undefined {
  const { madeBy, usedBy = [] } = value
  const isWide = hasAxis(value, 'headDim')
  if (context !== 'ulysses' || !(isWide || isOfPairs(value))) return undefined
  const kv = [...heads.kv, ...(parts['context.kv'] ?? parts['context'] ?? [])]
  const group = [...heads.group, ...(parts['context.group'] ?? [])]
  const batch = cuts['batch'] ?? []
  if (usedBy.includes('attention') || !isWide) return { ...headCuts({ kv, group }), batch }
  if (madeBy !== 'attention') return undefined
  return { ...headCuts(heads), batch, sequence: parts['context'] ?? [] }
}

/** A number for each query and key of each head, as the backward has them: [batch, heads, queries, keys]. */
function isOfPairs(value: WantedValue): boolean {
  const isOfHeads = hasAxis(value, 'heads') || hasAxis(value, 'kvHeads')
  return value.madeBy === 'matmul' && value.factors.length === 4 && isOfHeads && hasAxis(value, 'sequence')
}
