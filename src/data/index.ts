export { writeFileAtomic } from './atomicFile.ts'
export type { CheckpointDescription, JsonValue } from './checkpoint/description.ts'
export { listCheckpoints } from './checkpoint/folders.ts'
export { type MetricsFile, type MetricsRecord, openMetrics } from './checkpoint/metrics.ts'
export { type Checkpoint, readCheckpoint } from './checkpoint/read.ts'
export { type WrittenCheckpoint, writeCheckpoint } from './checkpoint/write.ts'
export {
  type Batch,
  type BatchArrays,
  createDataset,
  type DataPosition,
  type Dataset,
  type DatasetOptions,
} from './dataset.ts'
export { type DefaultText, findDefaultText } from './defaultText.ts'
export { readFailure, writeFailure } from './fileErrors.ts'
export { readWholeFile } from './files.ts'
export { makeFolder } from './makeFolder.ts'
export { type SafetensorsDType, storedDType } from './safetensors/dtypes.ts'
export { type RawTensor, readFloats, readRaw, requireTensor } from './safetensors/read.ts'
export { openSafetensors, type SafetensorsSource, type StoredTensor } from './safetensors/source.ts'
export { type TensorToWrite, writeSafetensors } from './safetensors/write.ts'
export { unigramEntropy } from './statistics.ts'
export { loadTokenizer } from './tokens/huggingFace.ts'
export { readText, type TextOptions, type TokenizedText, tokenizeText } from './tokens/text.ts'
export { byteTokenizer, type TokenArray, type Tokenizer } from './tokens/tokenizer.ts'
