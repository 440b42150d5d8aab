import { internalError } from '../../base/index.ts'
import type { Action } from '../../schedule/index.ts'
import { encodeInstructions } from '../columns.ts'
import { leastCommonMultiple } from '../integers.ts'
import { assignSlots } from '../slots.ts'
import { Table } from '../table.ts'
import type {
  Group,
  Instruction,
  Operand,
  Peer,
  Program,
  Region,
  Role,
  Stream,
  Task,
  TransferPart,
  ValueInstance,
  Work,
} from '../types.ts'
import { type Dag, type DagNode, type DagOperand, type DagValue, participants } from './dag.ts'
import { lastUses } from './lifetimes.ts'
import { splitModulus, splitPieces } from './replicas.ts'

/** Turns the ordered DAG into roles: one for each actor, or several where replicas of it do different things. */
export function emitProgram(
  dag: Dag,
  ordered: readonly DagNode[],
  options: {
    readonly replicas: readonly number[]
    readonly streams: readonly Stream[]
    readonly groups: readonly Group[]
    readonly channelSlots: number
    readonly work: Work
  },
): Program {
  const tasks = new Table<Task>(
    (task) =>
      `${task.hash} ${task.kind === 'graph' ? JSON.stringify([task.reads, task.writes]) : task.kernel}`,
  )
  const roles: Role[] = []
  for (let actor = 0; actor < dag.actors; actor++) {
    const frees = lastUses(actor, ordered, (name) => {
      const buffer = dag.buffers[actor]!.get(name)
      return buffer?.state === true || buffer?.constant !== undefined
    })
    const modulus = roleModulus(dag, actor, options.replicas)
    for (let remainder = 0; remainder < modulus; remainder++) {
      const emitter = new RoleEmitter(dag, actor, remainder, frees, tasks, options)
      for (const node of ordered) if (participants(node).includes(actor)) emitter.emit(node)
      roles.push(emitter.finish(modulus))
    }
  }
  return {
    work: options.work,
    mesh: { submeshes: options.replicas.map((size) => [{ name: 'data', size }]) },
    streams: options.streams,
    groups: options.groups,
    tasks: distinctlyNamed(tasks.items),
    roles,
    channelSlots: options.channelSlots,
  }
}

/** Tasks are told apart by name in the text form: a second `sum` is `sum.2`. */
function distinctlyNamed(tasks: readonly Task[]): Task[] {
  const names = new Set<string>()
  return tasks.map((task) => {
    let name = task.name
    for (let count = 2; names.has(name); count++) name = `${task.name}.${count}`
    names.add(name)
    return name === task.name ? task : { ...task, name }
  })
}

/** How many different roles the replicas of an actor have. */
function roleModulus(dag: Dag, actor: number, replicas: readonly number[]): number {
  let modulus = 1
  for (const node of dag.nodes) {
    if (node.kind !== 'transfer' || (node.from !== actor && node.to !== actor)) continue
    const other = node.from === actor ? node.to : node.from
    modulus = leastCommonMultiple(modulus, splitModulus(replicas[actor]!, replicas[other]!))
  }
  return modulus
}

class RoleEmitter {
  private readonly dag: Dag
  private readonly actor: number
  private readonly remainder: number
  private readonly frees: ReadonlyMap<number, readonly DagValue[]>
  private readonly tasks: Table<Task>
  private readonly replicas: readonly number[]
  private readonly streams: readonly Stream[]
  private readonly groups: readonly Group[]
  private readonly buffers: ReadonlyMap<string, number>
  private readonly values = new Table<Omit<ValueInstance, 'slot'>>((value) => JSON.stringify(value))
  private readonly peers = new Table<Peer>((peer) => JSON.stringify(peer))
  private readonly regions = new Table<Region>((region) => `${region.start}:${region.end}`)
  private readonly actions: Action[] = []
  private readonly instructions: Instruction[] = []

  constructor(
    dag: Dag,
    actor: number,
    remainder: number,
    frees: ReadonlyMap<number, readonly DagValue[]>,
    tasks: Table<Task>,
    options: {
      readonly replicas: readonly number[]
      readonly streams: readonly Stream[]
      readonly groups: readonly Group[]
    },
  ) {
    this.dag = dag
    this.actor = actor
    this.remainder = remainder
    this.frees = frees
    this.tasks = tasks
    this.replicas = options.replicas
    this.streams = options.streams
    this.groups = options.groups
    this.buffers = new Map([...dag.buffers[actor]!.keys()].map((name, index) => [name, index]))
  }

  emit(node: DagNode): void {
    this.instructions.push(this.instruction(node))
    const freed = this.frees.get(node.id)
    if (freed !== undefined)
      this.instructions.push({ kind: 'free', values: freed.map((value) => this.value(value)) })
  }

  finish(modulus: number): Role {
    const { actor, remainder } = this
    const buffers = [...this.buffers.keys()].map((name) => this.dag.buffers[actor]!.get(name)!)
    const { slots, counts } = assignSlots(buffers, this.values.items, this.instructions)
    const suffix = modulus === 1 ? '' : ` data%${modulus}=${remainder}`
    return {
      name: `pipeline=${actor}${suffix}`,
      pipeline: actor,
      ...(modulus === 1 ? {} : { where: { axis: 'data', modulus, remainder } }),
      buffers: buffers.map((buffer, index) => ({ ...buffer, slots: counts[index]! })),
      values: this.values.items.map((value, index) => ({ ...value, slot: slots[index]! })),
      peers: this.peers.items,
      regions: this.regions.items,
      actions: this.actions,
      code: encodeInstructions(this.instructions),
    }
  }

  private instruction(node: DagNode): Instruction {
    const stream = this.streams.findIndex((candidate) => candidate.name === node.stream)
    if (stream < 0) throw internalError(`no stream ${node.stream}`)
    switch (node.kind) {
      case 'run': {
        const action = node.action === undefined ? {} : { action: this.actions.push(node.action) - 1 }
        return {
          kind: 'run',
          stream,
          task: this.tasks.id(node.task),
          reads: node.reads.map((read) => this.operand(read)),
          writes: node.writes.map((write) => ({ ...this.operand(write), mode: write.mode })),
          ...action,
        }
      }
      case 'transfer':
        return { kind: 'exchange', stream, parts: this.parts(node) }
      case 'collective': {
        const member = node.members.find((candidate) => candidate.actor === this.actor)!
        return {
          kind: 'collective',
          stream,
          collective: node.id,
          operation: node.operation,
          reduce: node.reduce,
          group: this.groups.findIndex((group) => group.name === node.group),
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

  private parts(node: Extract<DagNode, { kind: 'transfer' }>): TransferPart[] {
    const sends = node.from === this.actor
    const [mine, theirs] = sends ? [node.source, node.destination] : [node.destination, node.source]
    const other = sends ? node.to : node.from
    const pieces = splitPieces(
      {
        own: this.replicas[this.actor]!,
        other: this.replicas[other]!,
        ownRows: this.rows(this.actor, mine.buffer),
        otherRows: this.rows(other, theirs.buffer),
        pipeline: other - this.actor,
      },
      this.remainder,
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
    const shape = this.dag.buffers[actor]!.get(buffer)?.shape
    if (shape === undefined) throw internalError(`no buffer ${buffer} on actor ${actor}`)
    return shape[0] ?? 1
  }

  private operand(operand: DagOperand): Operand {
    const value = this.value(operand)
    return operand.region === undefined ? { value } : { value, region: this.regions.id(operand.region) }
  }

  private value(value: DagValue): number {
    const buffer = this.buffers.get(value.buffer)
    if (buffer === undefined) throw internalError(`no buffer ${value.buffer} on actor ${this.actor}`)
    return this.values.id({
      buffer,
      ...(value.microbatch === undefined ? {} : { microbatch: value.microbatch }),
      ...(value.step === undefined ? {} : { step: value.step }),
    })
  }
}
