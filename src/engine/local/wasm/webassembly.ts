/**
 * The few parts of the WebAssembly interface that this folder uses. The types come from no library: `lib.dom` would
 * bring a whole browser with it, and Node's own types leave them out.
 */
export interface WasmMemory {
  /** Replaced by a larger one when the memory grows. */
  readonly buffer: ArrayBuffer | SharedArrayBuffer
  grow(pages: number): number
}

export interface WasmModule {
  readonly [Symbol.toStringTag]: string
}

export type WasmFunction = (...operands: number[]) => number | undefined

interface WasmNamespace {
  readonly Memory: new (limits: { initial: number; maximum?: number; shared?: boolean }) => WasmMemory
  readonly Module: new (bytes: Uint8Array) => WasmModule
  readonly Instance: new (
    module: WasmModule,
    imports: { engine: { memory: WasmMemory } },
  ) => { readonly exports: Readonly<Record<string, WasmFunction>> }
}

const { Memory, Module, Instance } = (globalThis as unknown as { WebAssembly: WasmNamespace }).WebAssembly

export const pageBytes = 65_536

/** Pages that 32-bit offsets can reach: 4 GiB. */
export const maximumPages = 65_536

/**
 * A memory of at least `bytes` bytes, zeroed. A shared one never grows beyond what it begins with.
 *
 * @throws RangeError where the machine does not give that much.
 */
export function createMemory(bytes: number, options: { readonly shared?: boolean } = {}): WasmMemory {
  const pages = Math.ceil(bytes / pageBytes)
  if (options.shared === true) return new Memory({ initial: pages, maximum: pages, shared: true })
  return new Memory({ initial: pages })
}

export function isShared(memory: WasmMemory): boolean {
  return memory.buffer instanceof SharedArrayBuffer
}

export function compileModule(bytes: Uint8Array): WasmModule {
  return new Module(bytes)
}

/** The exported functions of `module` over `memory`. */
export function instantiateModule(
  module: WasmModule,
  memory: WasmMemory,
): Readonly<Record<string, WasmFunction>> {
  return new Instance(module, { engine: { memory } }).exports
}
