export { type AdamwSettings, adamw } from './adamw.ts'
export { buildClipFactor } from './clip.ts'
export {
  type LearningRateInfo,
  type LearningRateSpec,
  learningRateAt,
  learningRates,
  makeLearningRate,
} from './learningRate.ts'
export { makeOptimizer, type OptimizerInfo, optimizers } from './registry.ts'
export type { SettingInfo } from './settings.ts'
export { type SgdSettings, sgd } from './sgd.ts'
export type { Optimizer, OptimizerBuildOptions, OptimizerSettings, OptimizerState } from './types.ts'
