export { canFuse, compileElementwise, type FusedLoop, type FusedPort, type FusedRun } from './elementwise.ts'
export { type HostKernels, hostKernels } from './kernels.ts'
export {
  createMemory,
  isShared,
  maximumPages,
  pageBytes,
  type WasmMemory,
  type WasmModule,
} from './webassembly.ts'
