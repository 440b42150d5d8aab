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
  if (context !== 'ulysses' || !hasAxis(value, 'headDim')) return undefined
  const kv = [...heads.kv, ...(parts['context.kv'] ?? parts['context'] ?? [])]
  const group = [...heads.group, ...(parts['context.group'] ?? [])]
  const batch = cuts['batch'] ?? []
  if (usedBy.includes('attention')) return { ...headCuts({ kv, group }), batch }
  if (madeBy !== 'attention') return undefined
  return { ...headCuts(heads), batch, sequence: parts['context'] ?? [] }
}
