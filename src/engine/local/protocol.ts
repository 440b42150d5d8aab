import type { ExitCode } from '../../base/index.ts'
import type { Program, Role, Task } from '../../program/index.ts'
import type { HostLayout } from './hostLayout.ts'
import type { SpinTimes } from './signals.ts'
import type { WasmMemory } from './wasm/index.ts'

/** For tests: what goes wrong, in the middle of the step of that number (from 0). */
export interface Fault {
  readonly rank: number
  readonly step: number
  readonly kind: 'throw' | 'exit' | 'hang'
}

/** What a worker is started with. */
export interface WorkerSetup {
  readonly rank: number
  readonly program: Pick<Program, 'mesh' | 'groups'>
  readonly role: Role
  /** The tasks of the role, by their index in the program. */
  readonly tasks: ReadonlyMap<number, Task>
  /** ONNX models, by hash of their graph; the graphs that have none become loops. */
  readonly models: ReadonlyMap<string, Uint8Array>
  readonly probe: Uint8Array
  readonly host: WasmMemory
  readonly layout: HostLayout
  readonly checkFinite: boolean
  readonly spin: SpinTimes
  readonly noise: boolean
  readonly fault: Fault | undefined
}

/** Words for `globalWords.command`. */
export const commands = { step: 1, message: 2, stop: 3 } as const

/** What goes with the command `message`: copies between state buffers and shared buffers. */
export interface StateRequest {
  readonly direction: 'read' | 'write'
  readonly pieces: readonly StatePiece[]
}

export interface StatePiece {
  /** Index of a state buffer of the role, and a byte of it. */
  readonly buffer: number
  readonly at: number
  /** The other end, from a byte of it. */
  readonly shared: SharedArrayBuffer
  readonly from: number
  readonly bytes: number
}

export interface FailureReport {
  /** Undefined for a failure outside any instruction. */
  readonly instruction: number | undefined
  readonly code: string
  readonly message: string
  readonly hint: string | undefined
  readonly exitCode: ExitCode | undefined
  readonly stack: string | undefined
}

export type WorkerReply =
  | { readonly kind: 'ready'; readonly workspaceBytes: number }
  | { readonly kind: 'refused'; readonly report: FailureReport }
  | { readonly kind: 'failed'; readonly report: FailureReport }
  /** The last rank has left the step. */
  | { readonly kind: 'left' }
