import { internalError } from '../../base/index.ts'
import type { Action } from '../../schedule/index.ts'
import { encodeInstructions } from '../columns.ts'
import { assignSlots } from '../slots.ts'
import { Table } from '../table.ts'
import type {
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
} from '../types.ts'
import type { Dag, DagNode, DagOperand, DagValue, TransferNode } from './dag.ts'
import { splitPieces } from './replicas.ts'

export interface RoleContext {
  readonly dag: Dag
  readonly actor: number
  /** Of the role's ranks, of their `data` coordinate. */
  readonly remainder: number
  /** What each node is the last to use. */
  readonly frees: ReadonlyMap<number, readonly DagValue[]>
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
  /** Index into `values`, by the DAG's number of the value. */
  private readonly valueIds = new Map<number, number>()
  private readonly peers = new Table<Peer>(({ pipeline, axes }) =>
    axes.reduce(
      (key, { name, scale, offset, divisor }) => `${key} ${name} ${scale} ${offset} ${divisor}`,
      String(pipeline),
    ),
  )
  private readonly regions = new Table<Region>((region) => `${region.start}:${region.end}`)
  private readonly actions: Action[] = []
  private readonly instructions: Instruction[] = []

  constructor(context: RoleContext) {
    this.context = context
    this.streams = new Map(context.streams.map(({ name }, index) => [name, index]))
    const names = context.dag.buffers[context.actor]!.keys()
    this.buffers = new Map([...names].map((name, index) => [name, index]))
  }

  emit(node: DagNode): void {
    this.instructions.push(this.instruction(node))
    const freed = this.context.frees.get(node.id)
    if (freed !== undefined)
      this.instructions.push({ kind: 'free', values: freed.map((value) => this.value(value)) })
  }

  finish(modulus: number): Role {
    const { dag, actor, remainder } = this.context
    const buffers = [...dag.buffers[actor]!.values()]
    const { slots, counts } = assignSlots(buffers, this.values, this.instructions)
    const suffix = modulus === 1 ? '' : ` data%${modulus}=${remainder}`
    return {
      name: `pipeline=${actor}${suffix}`,
      pipeline: actor,
      ...(modulus === 1 ? {} : { where: { axis: 'data', modulus, remainder } }),
      buffers: buffers.map((buffer, index) => ({ ...buffer, slots: counts[index]! })),
      values: this.values.map((value, index) => ({ ...value, slot: slots[index]! })),
      peers: this.peers.items,
      regions: this.regions.items,
      actions: this.actions,
      code: encodeInstructions(this.instructions),
    }
  }

  private instruction(node: DagNode): Instruction {
    const { actor, taskId, groups } = this.context
    const stream = this.streams.get(node.stream)
    if (stream === undefined) throw internalError(`no stream ${node.stream}`)
    switch (node.kind) {
      case 'run': {
        const action = node.action === undefined ? {} : { action: this.actions.push(node.action) - 1 }
        return {
          kind: 'run',
          stream,
          task: taskId(node.task),
          reads: node.reads.map((read) => this.operand(read)),
          writes: node.writes.map((write) => ({ ...this.operand(write), mode: write.mode })),
          ...action,
        }
      }
      case 'transfer':
        return { kind: 'exchange', stream, parts: this.parts(node) }
      case 'collective': {
        const member = node.members.find((candidate) => candidate.actor === actor)!
        return {
          kind: 'collective',
          stream,
          collective: node.id,
          operation: node.operation,
          reduce: node.reduce,
          group: groups.findIndex((group) => group.name === node.group),
          operand: this.operand(member.operand),
        }
      }
      case 'move':
        return {
          kind: 'move',
          stream,
          direction: node.direction,
          port: node.port,
          value: this.value(node.value),
        }
    }
  }

  private parts(node: TransferNode): TransferPart[] {
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
    return pieces.map((piece) => ({
      direction: sends ? 'send' : 'recv',
      transfer: node.id,
      value: this.value(mine),
      ...(piece.region === undefined ? {} : { region: this.regions.id(piece.region) }),
      peer: this.peers.id(piece.peer),
    }))
  }

  private rows(actor: number, buffer: string): number {
    const shape = this.context.dag.buffers[actor]!.get(buffer)?.shape
    if (shape === undefined) throw internalError(`no buffer ${buffer} on actor ${actor}`)
    return shape[0] ?? 1
  }

  private operand(operand: DagOperand): Operand {
    const value = this.value(operand)
    return operand.region === undefined ? { value } : { value, region: this.regions.id(operand.region) }
  }

  private value(value: DagValue): number {
    const { dag, actor } = this.context
    const number = dag.valueNumber(actor, value)
    const known = this.valueIds.get(number)
    if (known !== undefined) return known
    const buffer = this.buffers.get(value.buffer)
    if (buffer === undefined) throw internalError(`no buffer ${value.buffer} on actor ${actor}`)
    this.valueIds.set(number, this.values.length)
    return (
      this.values.push({
        buffer,
        ...(value.microbatch === undefined ? {} : { microbatch: value.microbatch }),
        ...(value.step === undefined ? {} : { step: value.step }),
      }) - 1
    )
  }
}
