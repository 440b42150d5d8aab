import { leastCommonMultiple } from '../../base/index.ts'
import type { Graph } from '../../graph/index.ts'
import { Table } from '../table.ts'
import type { Group, MeshAxis, Program, Role, Stream, Task, Work } from '../types.ts'
import { type Dag, type DagNode, participants } from './dag.ts'
import { lastUses } from './lifetimes.ts'
import { splitModulus } from './replicas.ts'
import { RoleEmitter } from './roleEmitter.ts'

/** Turns the ordered DAG into roles: one for each actor, or several where replicas of it do different things. */
export function emitProgram(
  dag: Dag,
  ordered: readonly DagNode[],
  options: {
    /** By actor: how many replicas share its samples, and all axes of its ranks. */
    readonly replicas: readonly number[]
    readonly meshes: readonly (readonly MeshAxis[])[]
    readonly streams: readonly Stream[]
    readonly groups: readonly Group[]
    readonly channelSlots: number
    readonly work: Work
  },
): Program {
  const { replicas } = options
  const tasks = new TaskTable()
  const nodesOf: DagNode[][] = Array.from({ length: dag.actors }, () => [])
  for (const node of ordered)
    if (node.kind === 'run' || node.kind === 'move') nodesOf[node.actor]!.push(node)
    else for (const actor of participants(node)) nodesOf[actor]!.push(node)
  const lastUse = lastUses(dag, ordered)
  const roles: Role[] = []
  nodesOf.forEach((nodes, actor) => {
    const modulus = roleModulus(nodes, actor, replicas)
    for (let remainder = 0; remainder < modulus; remainder++) {
      const emitter = new RoleEmitter({
        ...options,
        dag,
        actor,
        remainder,
        lastUse,
        taskId: (task) => tasks.id(task),
      })
      for (const node of nodes) emitter.emit(node)
      roles.push(emitter.finish(modulus))
    }
  })
  return {
    work: options.work,
    mesh: { submeshes: options.meshes },
    streams: options.streams,
    groups: options.groups,
    tasks: distinctlyNamed(tasks.items),
    roles,
    channelSlots: options.channelSlots,
  }
}

/** Tasks by what they do. Passes use each task object for all micro-batches, so most are known as they are. */
class TaskTable {
  private readonly known = new Map<Task, number>()
  private readonly table = new Table<Task>((task) =>
    task.kind === 'graph'
      ? `${task.hash} ${JSON.stringify([task.reads, task.writes, localNames(task.graph)])}`
      : task.hash,
  )

  get items(): readonly Task[] {
    return this.table.items
  }

  id(task: Task): number {
    const id = this.known.get(task) ?? this.table.id(task)
    this.known.set(task, id)
    return id
  }
}

/** Residuals and the like: a part of one stage's work may equal a part of another's that numbers them otherwise. */
function localNames({ inputs, outputs }: Graph): string[] {
  return [...inputs, ...outputs].map(({ name }) => name).filter((name) => /^[hrkt]\d+$/.test(name))
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
function roleModulus(nodes: readonly DagNode[], actor: number, replicas: readonly number[]): number {
  const isOther = replicas.map(() => false)
  for (const node of nodes)
    if (node.kind === 'transfer') isOther[node.from === actor ? node.to : node.from] = true
  return replicas.reduce(
    (modulus, count, other) =>
      isOther[other] === true ? leastCommonMultiple(modulus, splitModulus(replicas[actor]!, count)) : modulus,
    1,
  )
}
