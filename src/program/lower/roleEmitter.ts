import { internalError } from '../../base/index.ts'
import type { Action } from '../../schedule/index.ts'
import { inPlace } from '../accesses.ts'
import { eachInstruction, InstructionEncoder } from '../columns.ts'
import { assignPools, assignSlots } from '../slots.ts'
import { Table } from '../table.ts'
import type {
  CollectivePart,
  Group,
  Instruction,
  Operand,
  Peer,
  Region,
  Role,
  Stream,
  Task,
  TransferPart,
  ValueInstance,
  Write,
} from '../types.ts'
import type { CollectiveNode, Dag, DagNode, TransferNode } from './dag.ts'
import { splitPieces } from './replicas.ts'

export interface RoleContext {
  readonly dag: Dag
  readonly actor: number
  /** Of the role's ranks, of their `data` coordinate. */
  readonly remainder: number
  /** Values that each node is the last to use, by their numbers in the access table. */
  readonly frees: ReadonlyMap<number, readonly number[]>
  readonly taskId: (task: Task) => number
  /** Of each actor. */
  readonly replicas: readonly number[]
  readonly streams: readonly Stream[]
  readonly groups: readonly Group[]
}

/** Turns the nodes of one actor, in order, into the instructions of one of its roles. */
export class RoleEmitter {
  private readonly context: RoleContext
  private readonly streams: ReadonlyMap<string, number>
  private readonly buffers: ReadonlyMap<string, number>
  private readonly values: Omit<ValueInstance, 'slot'>[] = []
  /** Index into `values`, by number in the access table; -1 before the first use. */
  private readonly valueIds: Int32Array
  private readonly peers = new Table<Peer>(({ pipeline, axes }) =>
    axes.reduce(
      (key, { name, scale, offset, divisor }) => `${key} ${name} ${scale} ${offset} ${divisor}`,
      String(pipeline),
    ),
  )
  private readonly regions = new Table<Region>((region) => `${region.start}:${region.end}`)
  private readonly actions: Action[] = []
  private readonly encoder = new InstructionEncoder()

  constructor(context: RoleContext) {
    this.context = context
    this.valueIds = new Int32Array(context.dag.accesses.values.length).fill(-1)
    this.streams = new Map(context.streams.map(({ name }, index) => [name, index]))
    const names = context.dag.buffers[context.actor]!.keys()
    this.buffers = new Map([...names].map((name, index) => [name, index]))
  }

  emit(node: DagNode): void {
    this.encoder.add(this.instruction(node))
    const freed = this.context.frees.get(node.id)
    if (freed !== undefined)
      this.encoder.add({ kind: 'free', values: freed.map((value) => this.value(value)) })
  }

  finish(modulus: number): Role {
    const { dag, actor, remainder } = this.context
    const buffers = [...dag.buffers[actor]!.values()]
    const code = this.encoder.finish()
    const pool = assignPools(buffers)
    const pooled = buffers.map((buffer, index) => ({ ...buffer, pool: pool[index]! }))
    const { slots, pools } = assignSlots(pooled, this.values, eachInstruction(code))
    const suffix = modulus === 1 ? '' : ` data%${modulus}=${remainder}`
    return {
      name: `pipeline=${actor}${suffix}`,
      pipeline: actor,
      ...(modulus === 1 ? {} : { where: { axis: 'data', modulus, remainder } }),
      buffers: pooled,
      pools,
      values: this.values.map((value, index) => ({ ...value, slot: slots[index]! })),
      peers: this.peers.items,
      regions: this.regions.items,
      actions: this.actions,
      code,
    }
  }

  private instruction(node: DagNode): Instruction {
    const { dag, taskId, groups } = this.context
    const first = dag.accesses.first[node.id]!
    const stream = this.streams.get(node.stream)
    if (stream === undefined) throw internalError(`no stream ${node.stream}`)
    switch (node.kind) {
      case 'run': {
        const action = node.action === undefined ? {} : { action: this.actions.push(node.action) - 1 }
        return {
          kind: 'run',
          stream,
          task: taskId(node.task),
          reads: node.reads.map((_, index) => this.operand(first + index)),
          writes: node.writes.map(({ mode }, index) => this.write(first + node.reads.length + index, mode)),
          ...action,
        }
      }
      case 'transfer':
        return { kind: 'exchange', stream, parts: this.parts(node, first) }
      case 'collective':
        return {
          kind: 'collective',
          stream,
          collective: node.id,
          operation: node.operation,
          ...(node.reduce === undefined ? {} : { reduce: node.reduce }),
          group: groups.findIndex((group) => group.name === node.group),
          parts: this.collectiveParts(node, first),
        }
      case 'move':
        return {
          kind: 'move',
          stream,
          direction: node.direction,
          port: node.port,
          value: this.valueAt(first),
        }
    }
  }

  private collectiveParts({ members }: CollectiveNode, first: number): CollectivePart[] {
    let access = first
    for (const { actor, parts } of members) {
      if (actor === this.context.actor)
        return parts.map(({ result }) => {
          const source = this.operand(access++)
          return result === undefined
            ? inPlace(source)
            : { source, result: this.write(access++, result.mode) }
        })
      access += parts.reduce((sum, { result }) => sum + (result === undefined ? 1 : 2), 0)
    }
    throw internalError(`actor ${this.context.actor} is no member`)
  }

  private parts(node: TransferNode, first: number): TransferPart[] {
    const { actor, remainder, replicas } = this.context
    const sends = node.from === actor
    const [mine, theirs] = sends ? [node.source, node.destination] : [node.destination, node.source]
    const other = sends ? node.to : node.from
    const pieces = splitPieces(
      {
        own: replicas[actor]!,
        other: replicas[other]!,
        ownRows: this.rows(actor, mine.buffer),
        otherRows: this.rows(other, theirs.buffer),
        pipeline: other - actor,
      },
      remainder,
    )
    const value = this.valueAt(sends ? first : first + 1)
    return pieces.map((piece) => ({
      direction: sends ? 'send' : 'recv',
      transfer: node.id,
      value,
      ...(piece.region === undefined ? {} : { region: this.regions.id(piece.region) }),
      peer: this.peers.id(piece.peer),
    }))
  }

  private rows(actor: number, buffer: string): number {
    const shape = this.context.dag.buffers[actor]!.get(buffer)?.shape
    if (shape === undefined) throw internalError(`no buffer ${buffer} on actor ${actor}`)
    return shape[0] ?? 1
  }

  /** Operand of an access. */
  private operand(access: number): Operand {
    const value = this.valueAt(access)
    const region = this.context.dag.accesses.region[access]
    return region === undefined ? { value } : { value, region: this.regions.id(region) }
  }

  private write(access: number, mode: Write['mode']): Write {
    const value = this.valueAt(access)
    const region = this.context.dag.accesses.region[access]
    return region === undefined ? { value, mode } : { value, region: this.regions.id(region), mode }
  }

  private valueAt(access: number): number {
    return this.value(this.context.dag.accesses.value[access]!)
  }

  /** Index of a value of the access table among those of the role. */
  private value(number: number): number {
    const known = this.valueIds[number]!
    if (known >= 0) return known
    const { buffer: name, microbatch, step, window } = this.context.dag.accesses.values[number]!.value
    const buffer = this.buffers.get(name)
    if (buffer === undefined) throw internalError(`no buffer ${name} on actor ${this.context.actor}`)
    this.valueIds[number] = this.values.length
    return (
      this.values.push({
        buffer,
        ...(microbatch === undefined ? {} : { microbatch }),
        ...(step === undefined ? {} : { step }),
        ...(window === undefined ? {} : { window }),
      }) - 1
    )
  }
}
