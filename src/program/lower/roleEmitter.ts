import { internalError } from '../../base/index.ts'
import type { Action } from '../../schedule/index.ts'
import { inPlace } from '../accesses.ts'
import { columnAccess } from '../columnAccesses.ts'
import { InstructionEncoder } from '../columns.ts'
import { assignCodeSlots, assignPools } from '../slots.ts'
import { Table } from '../table.ts'
import type {
  CollectivePart,
  Group,
  Operand,
  Peer,
  Region,
  Role,
  Stream,
  Task,
  ValueInstance,
} from '../types.ts'
import type { AccessTable } from './accesses.ts'
import type { CollectiveNode, Dag, DagNode, TransferNode } from './dag.ts'
import { splitPieces } from './replicas.ts'

export interface RoleContext {
  readonly dag: Dag
  readonly actor: number
  /** Of the role's ranks, of their `data` coordinate. */
  readonly remainder: number
  /** See `lastUses`. */
  readonly lastUse: Int32Array
  readonly taskId: (task: Task) => number
  /** Of each actor. */
  readonly replicas: readonly number[]
  readonly streams: readonly Stream[]
  readonly groups: readonly Group[]
}

/** Of the access table, which is complete. */
type AccessColumns = Pick<AccessTable, 'first' | 'value' | 'kind' | 'actor' | 'buffer'>

/** Turns the nodes of one actor, in order, into the instructions of one of its roles. */
export class RoleEmitter {
  private readonly context: RoleContext
  private readonly streams: ReadonlyMap<string, number>
  private readonly buffers: ReadonlyMap<string, number>
  private readonly values: (Omit<ValueInstance, 'slot'> & { slot: number })[] = []
  /** Index into `buffers`, by number in the access table; -1 before the first use. */
  private readonly bufferIds: Int32Array
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
  private readonly columns: AccessColumns
  /** By buffer of the access table, then by the other actor. */
  private readonly pieces = new Map<number, Map<number, readonly TransferPiece[]>>()

  constructor(context: RoleContext) {
    this.context = context
    const { first, value, kind, actor, buffer } = context.dag.accesses
    this.columns = { first, value, kind, actor, buffer }
    this.bufferIds = new Int32Array(context.dag.accesses.buffers.length).fill(-1)
    this.valueIds = new Int32Array(context.dag.accesses.values).fill(-1)
    this.streams = new Map(context.streams.map(({ name }, index) => [name, index]))
    const names = context.dag.buffers[context.actor]!.keys()
    this.buffers = new Map([...names].map((name, index) => [name, index]))
  }

  emit(node: DagNode): void {
    const { lastUse, actor } = this.context
    this.instruction(node)
    const { value, first, actor: actorOf } = this.columns
    let frees = false
    for (let access = first[node.id]!; access < first[node.id + 1]!; access++) {
      const number = value[access]!
      if (lastUse[number] !== access || actorOf[number] !== actor) continue
      if (!frees) this.encoder.open('free', -1, 0)
      frees = true
      this.encoder.push(this.value(number))
    }
  }

  finish(modulus: number): Role {
    const { dag, actor, remainder } = this.context
    const buffers = [...dag.buffers[actor]!.values()]
    const code = this.encoder.finish()
    const pool = assignPools(buffers)
    const pooled = buffers.map((buffer, index) => ({ ...buffer, pool: pool[index]! }))
    const { slots, pools } = assignCodeSlots(pooled, this.values, code)
    for (const [index, value] of this.values.entries()) value.slot = slots[index]!
    const suffix = modulus === 1 ? '' : ` data%${modulus}=${remainder}`
    return {
      name: `pipeline=${actor}${suffix}`,
      pipeline: actor,
      ...(modulus === 1 ? {} : { where: { axis: 'data', modulus, remainder } }),
      buffers: pooled,
      pools,
      values: this.values,
      peers: this.peers.items,
      regions: this.regions.items,
      actions: this.actions,
      code,
    }
  }

  private instruction(node: DagNode): void {
    const { taskId, groups } = this.context
    const { first: firsts, kind } = this.columns
    const first = firsts[node.id]!
    const stream = this.streams.get(node.stream)
    if (stream === undefined) throw internalError(`no stream ${node.stream}`)
    const { encoder } = this
    switch (node.kind) {
      case 'run': {
        encoder.open('run', stream, taskId(node.task))
        encoder.push(node.action === undefined ? 0 : this.actions.push(node.action))
        encoder.push(node.reads)
        const writes = first + node.reads
        for (let access = first; access < writes; access++) this.pushOperand(access)
        for (let access = writes; access < firsts[node.id + 1]!; access++) {
          this.pushOperand(access)
          encoder.push(kind[access] === columnAccess.update ? 1 : 0)
        }
        return
      }
      case 'transfer':
        encoder.open('exchange', stream, 0)
        this.pushParts(node, first)
        return
      case 'collective':
        encoder.add({
          kind: 'collective',
          stream,
          collective: node.id,
          operation: node.operation,
          ...(node.reduce === undefined ? {} : { reduce: node.reduce }),
          group: groups.findIndex((group) => group.name === node.group),
          ...(node.root === undefined ? {} : { root: node.root }),
          ...(node.shift === undefined ? {} : { shift: node.shift }),
          parts: this.collectiveParts(node, first),
        })
        return
      case 'move':
        encoder.add({
          kind: 'move',
          stream,
          direction: node.direction,
          port: node.port,
          value: this.valueAt(first),
        })
        return
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
            : { source, result: { ...this.operand(access++), mode: result.mode } }
        })
      access += parts.reduce((sum, { result }) => sum + (result === undefined ? 1 : 2), 0)
    }
    throw internalError(`actor ${this.context.actor} is no member`)
  }

  private pushParts(node: TransferNode, first: number): void {
    const { actor } = this.context
    const sends = node.from === actor
    const { buffer, value } = this.columns
    // Micro-batches are split alike.
    const key = buffer[value[sends ? first : first + 1]!]!
    const byOther = this.pieces.get(key) ?? new Map<number, readonly TransferPiece[]>()
    this.pieces.set(key, byOther)
    const other = sends ? node.to : node.from
    const own = this.valueAt(sends ? first : first + 1)
    const pieces = byOther.get(other) ?? this.piecesOf(node, first)
    byOther.set(other, pieces)
    for (const { region, peer } of pieces) {
      this.encoder.push(sends ? 0 : 1)
      this.encoder.push(node.id)
      this.encoder.push(own)
      this.encoder.push(region + 1)
      this.encoder.push(peer)
    }
  }

  private piecesOf(node: TransferNode, first: number): TransferPiece[] {
    const { actor, remainder, replicas, dag } = this.context
    const { value } = this.columns
    const sends = node.from === actor
    const [mine, theirs] = [first, first + 1].map((access) => dag.accesses.valueOf(value[access]!).buffer)
    const other = sends ? node.to : node.from
    return splitPieces(
      {
        own: replicas[actor]!,
        other: replicas[other]!,
        ownRows: this.rows(actor, (sends ? mine : theirs)!),
        otherRows: this.rows(other, (sends ? theirs : mine)!),
        pipeline: other - actor,
      },
      remainder,
    ).map((piece) => ({
      region: piece.region === undefined ? -1 : this.regions.id(piece.region),
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
    const region = this.context.dag.accesses.region(access)
    return region === undefined ? { value } : { value, region: this.regions.id(region) }
  }

  private pushOperand(access: number): void {
    this.encoder.push(this.valueAt(access))
    const region = this.context.dag.accesses.region(access)
    this.encoder.push(region === undefined ? 0 : this.regions.id(region) + 1)
  }

  private valueAt(access: number): number {
    return this.value(this.columns.value[access]!)
  }

  /** Index of a buffer of the access table among those of the role. */
  private bufferOf(number: number): number {
    const known = this.bufferIds[number]!
    if (known >= 0) return known
    const { name } = this.context.dag.accesses.buffers[number]!
    const buffer = this.buffers.get(name)
    if (buffer === undefined) throw internalError(`no buffer ${name} on actor ${this.context.actor}`)
    this.bufferIds[number] = buffer
    return buffer
  }

  /** Index of a value of the access table among those of the role. */
  private value(number: number): number {
    const known = this.valueIds[number]!
    if (known >= 0) return known
    const { accesses } = this.context.dag
    const buffer = this.bufferOf(this.columns.buffer[number]!)
    this.valueIds[number] = this.values.length
    // Slots follow when all instructions are there.
    const only = accesses.microbatchOf(number)
    if (only >= 0) return this.values.push({ buffer, microbatch: only, slot: 0 }) - 1
    const { microbatch, step, window } = accesses.valueOf(number)
    return (
      this.values.push({
        buffer,
        ...(microbatch === undefined ? {} : { microbatch }),
        ...(step === undefined ? {} : { step }),
        ...(window === undefined ? {} : { window }),
        slot: 0,
      }) - 1
    )
  }
}

/** Indices of a part's region, -1 for the whole, and peer. */
interface TransferPiece {
  readonly region: number
  readonly peer: number
}
