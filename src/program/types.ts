import type { DType, Graph } from '../graph/index.ts'
import type { Action } from '../schedule/index.ts'

/**
 * The compiled plan. A role is one instruction list shared by all ranks that do the same up to their coordinates. The
 * list's order is the sequential meaning of the role; streams say what may run at the same time, as far as the
 * buffers that instructions read and write allow.
 */
export interface Program {
  readonly work: Work
  readonly mesh: ProgramMesh
  readonly streams: readonly Stream[]
  readonly groups: readonly Group[]
  readonly tasks: readonly Task[]
  readonly roles: readonly Role[]
  /** Sends that may be outstanding on each channel (sender, receiver, stream) before the sender waits. */
  readonly channelSlots: number
}

/** Ranks are numbered pipeline coordinate by pipeline coordinate; inside, the last axis varies fastest. */
export interface ProgramMesh {
  /** One sub-mesh for each pipeline coordinate: stages may differ in replicas. */
  readonly submeshes: readonly (readonly MeshAxis[])[]
}

/** What a complete step has to do: every action of the method once, for each stage and micro-batch. */
export interface Work {
  /** One of the schedule room's methods: which phases make a step complete. */
  readonly method: 'gradient' | 'infer'
  readonly stages: number
  readonly microbatches: number
}

export interface MeshAxis {
  readonly name: string
  readonly size: number
}

export interface Stream {
  readonly name: string
  /** What the stream occupies: two streams on one resource take turns. */
  readonly resource: 'compute' | 'network' | 'host'
}

/** Ranks that agree on every axis but `axes`; with `pipeline` among them, only at the coordinates `pipelines` if given. */
export interface Group {
  readonly name: string
  readonly axes: readonly string[]
  readonly pipelines?: readonly number[]
}

// Tasks ---------------------------------------------------------------------------------------------------------

export interface GraphTask {
  readonly kind: 'graph'
  readonly name: string
  /** Canonical hash of the graph: equal tasks compile once. */
  readonly hash: string
  readonly graph: Graph
  readonly reads: readonly ReadPort[]
  readonly writes: readonly WritePort[]
}

/** A named host function. */
export interface KernelTask {
  readonly kind: 'kernel'
  readonly name: string
  readonly hash: string
  readonly kernel: KernelName
}

/**
 * - `sumSquares`: (x region, owner scalar) -> float64 scalar: owner * sum of squares, accumulated in float64 in order;
 *   mode `add` adds to what is there.
 */
export type KernelName = 'sumSquares'

export type Task = GraphTask | KernelTask

/** How one operand of a `run` feeds inputs of the task's graph (indices into `graph.inputs`). */
export type ReadPort =
  | { readonly kind: 'tensor'; readonly input: number }
  /** The operand is a flat pack; each input is a view of it at `offset` elements. */
  | {
      readonly kind: 'pack'
      readonly entries: readonly { readonly input: number; readonly offset: number }[]
    }
  /** Not an input of the graph: ids for a `rows` write. */
  | { readonly kind: 'ids' }

/** How outputs of the task's graph (indices into `graph.outputs`) go to one operand of a `run`. */
export type WritePort =
  | { readonly kind: 'tensor'; readonly output: number }
  | {
      readonly kind: 'pack'
      readonly entries: readonly { readonly output: number; readonly offset: number }[]
      /** Applied after `entries`: row i of `values` is added to row ids[i] of the table at `offset`. */
      readonly rows: readonly RowsEntry[]
    }

export interface RowsEntry {
  readonly values: number
  /** Ids come from a read operand of the run or from an output of the graph. */
  readonly ids: { readonly read: number } | { readonly output: number }
  readonly offset: number
  readonly rows: number
  readonly rowElements: number
  /** In mode `set` the table is zeroed first (nothing else of this write covers it). */
  readonly clears: boolean
}

// Roles ---------------------------------------------------------------------------------------------------------

export interface Role {
  readonly name: string
  readonly pipeline: number
  /** Only ranks whose coordinate on `axis` is `remainder` modulo `modulus`. */
  readonly where?: { readonly axis: string; readonly modulus: number; readonly remainder: number }
  readonly buffers: readonly BufferSpec[]
  /** Instances of buffers that instructions name. */
  readonly values: readonly ValueInstance[]
  readonly peers: readonly Peer[]
  readonly regions: readonly Region[]
  readonly actions: readonly Action[]
  readonly code: InstructionColumns
}

export type Tier = 'device' | 'host'

export interface BufferSpec {
  readonly name: string
  readonly dtype: DType
  /** On this rank. */
  readonly shape: readonly number[]
  readonly tier: Tier
  /** Instances that may be live at once; instance i of `values` lives at its `slot`. */
  readonly slots: number
  /** Lives from step to step. Its instance with step 0 is read, the one with step 1 is what the step leaves. */
  readonly state?: boolean
  /** What the regions of a flat buffer hold, in order. */
  readonly pack?: readonly PackEntry[]
  /**
   * Group over whose ranks the buffer's values are terms of one sum, until an all-reduce over it: nobody else may read
   * them before. Undefined where a rank's value is whole by itself.
   */
  readonly sumOver?: string
  /** Filled once for each rank: 1 where the coordinate of every axis is 0, else 0. */
  readonly constant?: { readonly isZero: readonly string[] }
}

export interface PackEntry {
  /** Full name of the parameter. */
  readonly name: string
  readonly shape: readonly number[]
  readonly offset: number
  /** This stage is the one that counts it (norms, checkpoints): the lowest that holds it. */
  readonly owned: boolean
  /** As for a buffer, of these elements alone. */
  readonly sumOver?: string
}

export interface ValueInstance {
  readonly buffer: number
  readonly microbatch?: number
  /** Offset from the current step, for state. */
  readonly step?: number
  readonly slot: number
}

/** Where the other end of a transfer is. `pipeline` is relative; other axes are `floor((scale * own + offset) / divisor)`. */
export interface Peer {
  readonly pipeline: number
  readonly axes: readonly {
    readonly name: string
    readonly scale: number
    readonly offset: number
    readonly divisor: number
  }[]
}

/** Half-open range of a buffer's first dim. */
export interface Region {
  readonly start: number
  readonly end: number
}

// Instructions --------------------------------------------------------------------------------------------------

/** Index into `Role.values`. */
export type ValueRef = number

/** A value, or a range of its first dim. */
export interface Operand {
  readonly value: ValueRef
  /** Index into `Role.regions`; undefined for the whole. */
  readonly region?: number
}

export interface Write extends Operand {
  readonly mode: 'set' | 'add'
}

export interface TransferPart extends Operand {
  readonly direction: 'send' | 'recv'
  /** Matches the two ends: equal on both, unique for a pair of ranks. */
  readonly transfer: number
  /** Index into `Role.peers`. */
  readonly peer: number
}

export type CollectiveOperation = 'allReduce'

/** How one reads the columns. */
export type Instruction =
  | {
      readonly kind: 'run'
      readonly stream: number
      readonly task: number
      readonly reads: readonly Operand[]
      readonly writes: readonly Write[]
      /** Index into `Role.actions`; undefined for what the schedule does not name. */
      readonly action?: number
    }
  | {
      /** A single send or receive is an exchange of one part. All parts are posted together. */
      readonly kind: 'exchange'
      readonly stream: number
      readonly parts: readonly TransferPart[]
    }
  | {
      /** In place. */
      readonly kind: 'collective'
      readonly stream: number
      readonly collective: number
      readonly operation: CollectiveOperation
      readonly reduce: 'sum' | 'max'
      readonly group: number
      readonly operand: Operand
    }
  | {
      /** Between the device and a port of the run (batch in, loss out, …). Ports hold the whole micro-batch's samples. */
      readonly kind: 'move'
      readonly stream: number
      readonly direction: 'in' | 'out'
      readonly port: PortName
      readonly value: ValueRef
    }
  | { readonly kind: 'free'; readonly values: readonly ValueRef[] }

/**
 * What a run gives for each step (`tokens`, `labels` by micro-batch; scalars) and takes (`loss`, `gradientNorm`,
 * `gradients`). `tokens` and `labels` are samples; a rank takes its share of the micro-batch by its `data` coordinate.
 */
export type PortName = string

export interface InstructionColumns {
  readonly length: number
  readonly kind: Int32Array
  readonly stream: Int32Array
  /** Task of a run, collective id of a collective, 0 otherwise. */
  readonly target: Int32Array
  /** Instruction i owns operands[start[i] .. start[i + 1]). */
  readonly start: Int32Array
  readonly operands: Int32Array
  /** Names that operands refer to (ports). */
  readonly names: readonly string[]
}
