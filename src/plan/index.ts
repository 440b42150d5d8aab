export type { Locate } from './check.ts'
export { type BlockCost, blockWeight, cutLayers } from './cut.ts'
export type { ResolvedLayout } from './layout.ts'
export type { PlanLayout, PlanLayoutRule } from './layoutSection.ts'
export { type Miniature, miniaturePlan, miniatureRanks } from './miniature.ts'
export type { PlannedModel } from './modelShape.ts'
export { parsePlan } from './parse.ts'
export { withScheduleText } from './placement.ts'
export { printPlan } from './print.ts'
export { formatProblem, PlanError, type PlanProblem } from './problems.ts'
export type { PlanRecompute } from './recompute.ts'
export {
  type ResolvedPlan,
  type ResolvedRank,
  type ResolvedStage,
  type ResolveOptions,
  resolveLearningRate,
  resolvePlan,
} from './resolve.ts'
export { planJsonSchema } from './schema.ts'
export { setPlan } from './set.ts'
export { formatSize, parseSize } from './sizes.ts'
export { planPosition } from './source.ts'
export type * from './types.ts'
export type { PlanZero, ResolvedZero } from './zero.ts'
