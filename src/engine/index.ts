export { type CalibrateOptions, calibrate } from './calibrate/index.ts'
export { createEmulator, type EmulatorOptions } from './emulate/index.ts'
export { memoryWarning, roomProblem } from './local/capacity.ts'
export { loadFailure, noRuntimeError } from './local/session.ts'
export { createLocalEngine, type LocalEngineOptions } from './local/start.ts'
export { checkpointTensors } from './training/checkpointTensors.ts'
export { compareTensors, type TensorDifference } from './training/compare.ts'
export { checkEquality, type EqualityOptions, type KindDifference } from './training/equality.ts'
export {
  initialState,
  type StateOptions,
  stateFromCheckpoint,
  stateFromWeights,
} from './training/initialState.ts'
export { evaluationInput, stepInput } from './training/step.ts'
export { defaultValidationBatches, type StepEvent, type TrainOptions, train } from './training/train.ts'
export type * from './types.ts'
