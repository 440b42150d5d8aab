import type { WantedValue } from '../partition/types.ts'
import { type Cuts, hasAxis } from './dims.ts'
import type { FactoredAxes } from './settings.ts'

/** Whether a parameter is of experts: one that has them and their width. A router, which scores all of them, has no width. */
export function isOfExperts(value: WantedValue): boolean {
  return hasAxis(value, 'experts') && hasAxis(value, 'expertMlp')
}

/** Weights of experts: each rank has some of them, or a part of each (GShard, Lepikhin et al. 2020, section 3.2). */
export function expertCuts({ parts }: FactoredAxes): Cuts {
  return { experts: parts['expert'] ?? [], expertMlp: parts['expertTensor'] ?? [] }
}

/** What is wanted of slots, and whether terms of them may be added up later, as tokens. */
export interface SlotCuts {
  readonly cuts: Cuts
  readonly keepsTerms: boolean
}

/**
 * What is sent to experts and comes back: slots of all experts of some samples where samples come first, as tokens lie, and
 * slots of some experts of all those samples where experts do. All-to-alls between the two follow, forward and backward.
 * What experts that are cut over ranks have made may go back as terms; what goes to them is whole. Undefined for every
 * other value.
 */
export function slotCuts(
  value: WantedValue,
  { parts, mesh }: FactoredAxes,
  stream: Cuts,
): SlotCuts | undefined {
  const { axes = [] } = value.type
  const experts = parts['expert'] ?? []
  const isSlots = hasAxis(value, 'experts') && hasAxis(value, 'batch') && axes.at(-1) === 'embed'
  if (experts.length === 0 || !isSlots) return undefined
  const batch = (stream['batch'] ?? []).filter((axis) => mesh.axes.some(({ name }) => name === axis))
  if (axes[0] !== 'experts') return { cuts: { batch }, keepsTerms: value.madeBy === 'transpose' }
  const samples = batch.filter((axis) => !experts.includes(axis))
  return { cuts: { batch: samples, experts }, keepsTerms: value.madeBy === 'reshape' }
}
