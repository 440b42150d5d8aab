export { isRedundantTensor, type StoredParameter, storedParameters } from './checkpointNames.ts'
export { countParameters } from './checks.ts'
export { gptModel } from './gpt.ts'
export { modelFromHuggingFaceConfig } from './huggingFace.ts'
export { initializeParameter } from './initialize.ts'
export { llamaModel } from './llama.ts'
export { moeModel } from './moe.ts'
export { type PublicModel, publicModels } from './publicModels.ts'
export {
  type KeyInfo,
  type KeyKind,
  type KeyValue,
  type KeyValues,
  type ModelFamily,
  modelFamilies,
  modelFromConfig,
} from './registry.ts'
export { isModelName, modelFromShortName, printShortName } from './shortName.ts'
export type {
  BuildOptions,
  GptConfig,
  InitialValue,
  LlamaConfig,
  Model,
  ModelConfig,
  MoeConfig,
  ParameterSpec,
  RopeScaling,
} from './types.ts'
export { causalKeys, keysOfDocument, visibleKeys } from './visibility.ts'
export { huggingFaceConfigOf } from './writeHuggingFace.ts'
