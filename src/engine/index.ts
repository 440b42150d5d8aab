export { allReduceAlgorithm, allReduceWireBytes } from './counters.ts'
export { createEmulator, type EmulatorOptions } from './emulate/index.ts'
export { createLocalEngine, type LocalEngineOptions } from './local/start.ts'
export type * from './types.ts'
