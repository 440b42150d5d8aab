import type { Program } from '../program/index.ts'

/** A tensor outside any arena. */
export interface HostTensor {
  readonly dtype: 'f32' | 'f64' | 'i32'
  readonly shape: readonly number[]
  readonly data: Float32Array | Float64Array | Int32Array
}

/** Whole tensors by full name: parameters (`transformer.wte.weight`) and optimizer states (`adam.m.transformer.wte.weight`). */
export type StateTensors = ReadonlyMap<string, HostTensor>

export interface StepInput {
  /** `tokens`, `labels`: [samples, sequence] of the whole global batch. Everything else: scalars by port name. */
  readonly tensors: Readonly<Record<string, Int32Array>>
  readonly scalars: Readonly<Record<string, number>>
}

/** What a rank did in one step. Counts are exact. */
export interface RankCounters {
  readonly rank: number
  readonly sends: { readonly calls: number; readonly bytes: number }
  /**
   * By operation. `payloadBytes`: of what the collective is about, whole. `wireBytes`: what each rank puts on the wire
   * where it runs around a ring (see `collectiveWireBytes`), though ranks that share a memory need no ring.
   */
  readonly collectives: Readonly<
    Record<string, { readonly calls: number; readonly payloadBytes: number; readonly wireBytes: number }>
  >
  readonly seconds: {
    readonly compute: number
    readonly transfer: number
    readonly wait: number
    readonly total: number
  }
}

export interface StepResult {
  /** Out ports that are scalars (`loss`, `gradientNorm`). */
  readonly scalars: Readonly<Record<string, number>>
  /** Out ports that are packs, by tensor name (`gradients`), whole and from the owner. */
  readonly tensors: Readonly<Record<string, StateTensors>>
  readonly ranks: readonly RankCounters[]
  /** When tracing: for each rank [instruction, start, end] triples, seconds since the step began. */
  readonly trace?: readonly Float64Array[]
}

/** Something that executes a Program: local worker threads, or the emulator. */
export interface Engine {
  readonly program: Program
  /** Replaces state; every state tensor of the program must be given. */
  writeState(state: StateTensors): Promise<void>
  /** Whole tensors, each from its owner. */
  readState(): Promise<StateTensors>
  /** One run of the program. Rejects with MeshwrightError (exit code 5) that names rank, instruction and cause. */
  step(input: StepInput): Promise<StepResult>
  /** Bytes: the static arena, and the peak of memory resident beyond it where it is known. */
  memory(): Promise<
    readonly { readonly rank: number; readonly arenaBytes: number; readonly workspaceBytes: number }[]
  >
  /** Drains and ends; safe to call twice and after a failure. */
  stop(): Promise<void>
}
