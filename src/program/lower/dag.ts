import type { DType } from '../../graph/index.ts'
import type { Action } from '../../schedule/index.ts'
import type { BufferSpec, CollectiveOperation, PackEntry, Shard, Task } from '../types.ts'
import { AccessTable } from './accesses.ts'

/**
 * What the lowering passes build: nodes over named values, on actors (one coordinate of the pipeline axis). Passes
 * only add; dependences follow from what nodes read and write, and one final pass orders everything.
 */

/** One instance of a buffer on an actor. */
export interface DagValue {
  readonly buffer: string
  readonly microbatch?: number
  /** Offset from the current step, for state. */
  readonly step?: number
  /** Instead of a micro-batch: for what is made anew for each window of actions. */
  readonly window?: number
}

export interface DagOperand extends DagValue {
  readonly region?: { readonly start: number; readonly end: number }
}

export interface DagWrite extends DagOperand {
  readonly mode: 'set' | 'add'
}

interface NodeCommon {
  /** Order of insertion: the meaning of accumulators, and the last tie-break of ordering. */
  readonly id: number
  /** In units of the schedule's latencies. */
  readonly latency: number
  /** Nodes it comes after, whatever it reads and writes. */
  readonly after: readonly number[] | undefined
}

export interface RunNode extends NodeCommon {
  readonly kind: 'run'
  readonly actor: number
  readonly stream: string
  readonly task: Task
  /** How many of its accesses are reads. */
  readonly reads: number
  readonly action: Action | undefined
}

/** One value, from all replicas of an actor to all replicas of another, re-split over `data` where their counts differ. */
export interface TransferNode extends NodeCommon {
  readonly kind: 'transfer'
  readonly stream: string
  readonly from: number
  readonly to: number
}

export interface CollectiveNode extends NodeCommon {
  readonly kind: 'collective'
  readonly stream: string
  readonly operation: CollectiveOperation
  readonly reduce: 'sum' | 'max' | 'mean' | undefined
  /** Name of a group of the program. */
  readonly group: string
  /** Place in the group, of operations that have a root; how far, of a permute. */
  readonly root: number | undefined
  readonly shift: number | undefined
  readonly members: readonly { readonly actor: number; readonly parts: readonly DagPart[] }[]
}

/** Without `result` it is in place. */
export interface DagPart {
  readonly source: DagOperand
  readonly result?: DagWrite
}

export interface MoveNode extends NodeCommon {
  readonly kind: 'move'
  readonly stream: string
  readonly actor: number
  readonly direction: 'in' | 'out'
  readonly port: string
}

export type DagNode = RunNode | TransferNode | CollectiveNode | MoveNode

/** What passes add: with operands, of which the DAG keeps but the accesses (see `AccessTable`). */
export type NewNode = { readonly after?: readonly number[] } & (
  | (Omit<RunNode, 'id' | 'after' | 'reads' | 'action'> & {
      readonly reads: readonly DagOperand[]
      readonly writes: readonly DagWrite[]
      readonly action?: Action
    })
  | (Omit<TransferNode, 'id' | 'after'> & { readonly source: DagValue; readonly destination: DagValue })
  | (Omit<CollectiveNode, 'id' | 'after' | 'reduce' | 'root' | 'shift'> & {
      readonly reduce?: 'sum' | 'max' | 'mean' | undefined
      readonly root?: number | undefined
      readonly shift?: number | undefined
    })
  | (Omit<MoveNode, 'id' | 'after'> & { readonly value: DagValue })
)

/** A buffer before slots are counted. */
export type DagBuffer = Omit<BufferSpec, 'pool'>

export class Dag {
  readonly nodes: DagNode[] = []
  /** By actor, then by name. */
  readonly buffers: Map<string, DagBuffer>[]
  readonly actors: number
  readonly accesses: AccessTable

  constructor(actors: number) {
    this.actors = actors
    this.buffers = Array.from({ length: actors }, () => new Map<string, DagBuffer>())
    this.accesses = new AccessTable(actors)
  }

  add(node: NewNode): number {
    const id = this.nodes.length
    this.accesses.add(node)
    this.nodes.push(kept(node, id))
    return id
  }

  /** Declares a buffer on an actor; declaring it again is the same buffer. */
  buffer(
    actor: number,
    name: string,
    type: { readonly dtype: DType; readonly shape: readonly number[] },
    extra: {
      readonly state?: boolean
      readonly pack?: readonly PackEntry[]
      readonly constant?: DagBuffer['constant']
      readonly shard?: Shard | undefined
      readonly windowed?: boolean
      readonly sumOver?: string | undefined
    } = {},
  ): void {
    const known = this.buffers[actor]!
    if (known.has(name)) return
    known.set(name, {
      name,
      dtype: type.dtype,
      shape: type.shape,
      tier: 'device',
      ...(extra.state === undefined ? {} : { state: extra.state }),
      ...(extra.pack === undefined ? {} : { pack: extra.pack }),
      ...(extra.constant === undefined ? {} : { constant: extra.constant }),
      ...(extra.windowed === undefined ? {} : { windowed: extra.windowed }),
      ...(extra.shard === undefined ? {} : { shard: extra.shard }),
      ...(extra.sumOver === undefined ? {} : { sumOver: extra.sumOver }),
    })
  }
}

/** The node without its operands. All nodes of a kind have one shape: what walks them stays fast. */
function kept(node: NewNode, id: number): DagNode {
  const { stream, latency, after } = node
  switch (node.kind) {
    case 'run': {
      const { kind, actor, task, action } = node
      return { kind, id, stream, latency, after, actor, task, reads: node.reads.length, action }
    }
    case 'transfer': {
      const { kind, from, to } = node
      return { kind, id, stream, latency, after, from, to }
    }
    case 'move': {
      const { kind, actor, direction, port } = node
      return { kind, id, stream, latency, after, actor, direction, port }
    }
    case 'collective': {
      const { kind, operation, reduce, group, root, shift, members } = node
      return { kind, id, stream, latency, after, operation, reduce, group, root, shift, members }
    }
  }
}

/** Actors that execute the node. */
export function participants(node: DagNode): number[] {
  switch (node.kind) {
    case 'run':
    case 'move':
      return [node.actor]
    case 'transfer':
      return [node.from, node.to]
    case 'collective':
      return node.members.map((member) => member.actor)
  }
}
