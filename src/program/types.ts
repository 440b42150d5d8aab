import type { DType, Graph, TensorType } from '../graph/index.ts'
import type { Action, Phase } from '../schedule/index.ts'

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
  /** Ranks that differ only in these axes share one device. Left out: every rank has a device of its own. */
  readonly sharedOver?: readonly string[]
}

/** What a complete step has to do: every action of the method once, for each stage and micro-batch. */
export interface Work {
  /** One of the schedule room's methods, which says which phases make a step complete; or the program says it itself. */
  readonly method: 'gradient' | 'infer' | 'declared'
  readonly stages: number
  readonly microbatches: number
  /** Of `declared`: what is done of every stage, micro-batch and slice; left out: nothing that a schedule would name. */
  readonly phases?: readonly Phase[]
  /** Of `declared`: parts of every micro-batch that go through the phases one by one; left out: it goes as a whole. */
  readonly slices?: number
  /** Of `declared`: a result of the step, which is repeated until that is not 0. */
  readonly until?: PortName
}

export interface MeshAxis {
  readonly name: string
  readonly size: number
}

export interface Stream {
  readonly name: string
  /**
   * What the stream occupies: two streams on one resource take turns. `host` is the way between device and host, `cpu`
   * the host's processors.
   */
  readonly resource: 'compute' | 'network' | 'host' | 'cpu'
  /**
   * `ready`: an engine may take the first instruction of the stream's list whose operands are there instead of the next.
   * What is proven of the list holds for all such orders: each waits for a part of what the list waits for, since values
   * have fixed places.
   */
  readonly order?: 'ready'
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
 * - `copy`: (x) -> as many elements of the same dtype, wherever they lie: between tiers, into a ring of slots.
 */
export type KernelName = 'sumSquares' | 'copy'

/** What a program says of a task that nothing here can run yet: enough to check, simulate and draw it. */
export interface MissingTask {
  readonly kind: 'missing'
  readonly name: string
  readonly hash: string
  /** What it would do, for a person. */
  readonly missing: string
  readonly reads: readonly TensorType[]
  readonly writes: readonly TensorType[]
  /** In units of one forward, for simulation. */
  readonly cost?: number
}

export type Task = GraphTask | KernelTask | MissingTask

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
      /**
       * Applied after `entries`: row i of `values` is added to row ids[i] of the table at `offset`. Where the id is below 0
       * it is passed over: it is of a part of the table that another rank has.
       */
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
  readonly pools: readonly SlotPool[]
  /** Instances of buffers that instructions name. */
  readonly values: readonly ValueInstance[]
  readonly peers: readonly Peer[]
  readonly regions: readonly Region[]
  readonly actions: readonly Action[]
  readonly code: InstructionColumns
}

/** Places that buffers of one dtype, element count and tier share. */
export interface SlotPool {
  /** Values that may be live at once. */
  readonly slots: number
}

export type Tier = 'device' | 'host'

export interface BufferSpec {
  readonly name: string
  readonly dtype: DType
  /** On this rank. */
  readonly shape: readonly number[]
  readonly tier: Tier
  /** Index into `Role.pools`: where its instances live. Those of state and constants are of no other buffer. */
  readonly pool: number
  /**
   * Lives from step to step. Its instance with step 0 is read, the one with step 1 is what the step leaves; those before 0
   * are what earlier steps left, as many as instructions name.
   */
  readonly state?: boolean
  /** State that the step leaves as it is: parameters that are not trained, data that stays. */
  readonly frozen?: true
  /**
   * Its values are made anew for each window of actions. Such buffers of a rank share one pool, whatever their sizes, so
   * that as many are there at once as windows overlap.
   */
  readonly windowed?: boolean
  /** What the regions of a flat buffer hold, in order. */
  readonly pack?: readonly PackEntry[]
  /** The rank holds its block of each segment of the pack, one after the other: see `heldBlocks`. */
  readonly shard?: Shard
  /**
   * Group over whose ranks the buffer's values are terms of one sum, until an all-reduce over it: nobody else may read
   * them before. Undefined where a rank's value is whole by itself.
   */
  readonly sumOver?: string
  /** A term may be read before the sum is made, on purpose: another computation, which no serial training equals. */
  readonly unsynced?: true
  /** Filled once for each rank, by its place. */
  readonly constant?: Constant
}

/**
 * - `isZero`: 1 where the coordinate of every axis is 0, else 0
 * - `start`: an i32 scalar: the rank's place along the axes, of which the first varies slowest, times `step`. Where its
 *   block of something begins.
 */
export type Constant =
  | { readonly isZero: readonly string[] }
  | { readonly start: { readonly axes: readonly string[]; readonly step: number } }

/** How a pack is dealt out: each segment in equal blocks to the ranks along `axes`, of which the first varies slowest. */
export interface Shard {
  readonly axes: readonly string[]
  /** Ranges of the whole pack's elements, padding included; together they are all of it. */
  readonly segments: readonly Region[]
}

export interface PackEntry {
  /** Full name of the parameter. */
  readonly name: string
  /** Of the whole tensor, also where the rank has but a block of it. */
  readonly shape: readonly number[]
  /**
   * In elements of the whole pack, also where the rank holds but a shard of it. A pack with blocks is one of what the
   * rank has before it is dealt out: a tensor takes as many elements as its block has.
   */
  readonly offset: number
  /** What the rank has of the tensor; left out: all of it. */
  readonly block?: PackBlock
  /** This stage is the one that counts it (norms, checkpoints): the lowest that holds it. */
  readonly owned: boolean
  /** As for a buffer, of these elements alone. */
  readonly sumOver?: string
}

/** A block of a tensor that ranks along some axes have the parts of, in row-major order. */
export interface PackBlock {
  /**
   * Dims that the tensor is seen with: the same elements in the same order. The first may be longer than the tensor
   * needs: rows of padding, which are zero and nobody's.
   */
  readonly shape: readonly number[]
  /** Of each dim, the axes that cut it into equal ranges; the first varies slowest. */
  readonly axes: readonly (readonly string[])[]
}

export interface ValueInstance {
  readonly buffer: number
  readonly microbatch?: number
  /** Offset from the current step, for state. */
  readonly step?: number
  /** Part of the micro-batch's sequence. */
  readonly slice?: number
  /** For what is made anew for each window of actions, such as gathered parameters. */
  readonly window?: number
  /** Where it lives in the pool of its buffer. */
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

/**
 * What members do, in rank order of the group; "block i" is the i-th of as many equal ranges of rows as there are members.
 *
 * - `allReduce`: every result is the reduction of all sources
 * - `reduceScatter`: the result of member i is the reduction of block i of all sources
 * - `allGather`: every result is all sources, one after the other
 * - `broadcast`: every result is the source of the root
 * - `reduce`: the result of the root is the reduction of all sources; that of the others is zero
 * - `gather`: as `allGather` at the root; that of the others is zero
 * - `scatter`: the result of member i is block i of the root's source
 * - `allToAll`: block j of the result of member i is block i of member j's source
 * - `permute`: the result of member i is the source of member i - shift, around the end
 */
export type CollectiveOperation =
  | 'allReduce'
  | 'reduceScatter'
  | 'allGather'
  | 'broadcast'
  | 'reduce'
  | 'gather'
  | 'scatter'
  | 'allToAll'
  | 'permute'

/** A collective works on one pair of operands or on several at once. In place where both are the same rows. */
export interface CollectivePart {
  readonly source: Operand
  readonly result: Write
}

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
      readonly kind: 'collective'
      readonly stream: number
      readonly collective: number
      readonly operation: CollectiveOperation
      /** Of operations that reduce. */
      readonly reduce?: 'sum' | 'max' | 'mean'
      readonly group: number
      readonly parts: readonly CollectivePart[]
      /** Place in the group, from 0, for operations that have a root. */
      readonly root?: number
      /** Of `permute`: how many members further a source goes. */
      readonly shift?: number
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
 * `gradients`). `tokens` and `labels` are samples; a rank takes its share of the micro-batch by
 * its place among the replicas of its stage (`replicaIndex`).
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
