import { type Graph, GraphBuilder, type TensorType, type ValueId } from '../../src/graph/index.ts'
import {
  type BufferSpec,
  encodeInstructions,
  type GraphTask,
  type Group,
  type Instruction,
  inPlace,
  type MeshAxis,
  type Peer,
  type Program,
  type Region,
  type Role,
  type SlotPool,
  type Task,
  type TransferPart,
  type ValueInstance,
} from '../../src/program/index.ts'

/** Small programs by hand, for tests of what reads programs. */

export const streamIds = { compute: 0, forward: 1, backward: 2, reduce: 3, load: 4, store: 5 } as const

interface RoleOptions {
  readonly buffers: readonly (Partial<Omit<BufferSpec, 'pool'> & SlotPool> &
    Pick<BufferSpec, 'name' | 'shape'>)[]
  /** `buffer`, `buffer[2]` for micro-batch 2, `buffer[t]` and `buffer[t+1]` for state, then `@slot` if not 0. */
  readonly values: readonly string[]
  readonly regions?: readonly Region[]
  readonly peers?: readonly Peer[]
  readonly where?: Role['where']
  readonly code: (value: (name: string) => number) => readonly Instruction[]
}

export function makeRole(pipeline: number, options: RoleOptions): Role {
  const buffers = options.buffers.map(
    ({ slots: _, ...buffer }, pool): BufferSpec => ({ dtype: 'f64', tier: 'device', ...buffer, pool }),
  )
  const values = options.values.map((text): ValueInstance => {
    const [, name, index, slot] = /^([^[@]+)(?:\[([^\]]+)\])?(?:@(\d+))?$/.exec(text)!
    const steps: Readonly<Record<string, number>> = { t: 0, 't+1': 1 }
    const step = index === undefined ? undefined : steps[index]
    return {
      buffer: buffers.findIndex((buffer) => buffer.name === name),
      slot: Number(slot ?? 0),
      ...(step === undefined ? {} : { step }),
      ...(index === undefined || step !== undefined ? {} : { microbatch: Number(index) }),
    }
  })
  const find = (name: string): number => options.values.findIndex((text) => text.split('@')[0] === name)
  return {
    name: `pipeline=${pipeline}`,
    pipeline,
    ...(options.where === undefined ? {} : { where: options.where }),
    buffers,
    pools: options.buffers.map(({ slots = 1 }) => ({ slots })),
    values,
    peers: options.peers ?? [],
    regions: options.regions ?? [],
    actions: [],
    code: encodeInstructions(options.code(find)),
  }
}

export function makeProgram(options: {
  readonly submeshes: readonly (readonly MeshAxis[])[]
  readonly roles: readonly Role[]
  readonly tasks?: readonly Task[]
  readonly groups?: readonly Group[]
  readonly microbatches?: number
  readonly channelSlots?: number
}): Program {
  return {
    work: { method: 'gradient', stages: options.submeshes.length, microbatches: options.microbatches ?? 1 },
    mesh: { submeshes: options.submeshes },
    streams: [
      { name: 'compute', resource: 'compute' },
      { name: 'forward', resource: 'network' },
      { name: 'backward', resource: 'network' },
      { name: 'reduce', resource: 'network' },
      { name: 'load', resource: 'host' },
      { name: 'store', resource: 'host' },
    ],
    groups: options.groups ?? [],
    tasks: options.tasks ?? [],
    roles: options.roles,
    channelSlots: options.channelSlots ?? 2,
  }
}

export function makeGraph(
  inputs: Readonly<Record<string, TensorType>>,
  build: (
    builder: GraphBuilder,
    inputs: Readonly<Record<string, ValueId>>,
  ) => Readonly<Record<string, ValueId>>,
): Graph {
  const builder = new GraphBuilder()
  const ids = Object.fromEntries(
    Object.entries(inputs).map(([name, type]) => [name, builder.input(name, 'activation', type)]),
  )
  for (const [name, value] of Object.entries(build(builder, ids))) builder.output(name, value)
  return builder.build({ keepInputs: true })
}

/** A task with one operand for each input and output, unless ports are given. */
export function makeTask(
  name: string,
  graph: Graph,
  ports: Partial<Pick<GraphTask, 'reads' | 'writes'>> = {},
): GraphTask {
  return {
    kind: 'graph',
    name,
    hash: name,
    graph,
    reads: ports.reads ?? graph.inputs.map((_, input) => ({ kind: 'tensor', input })),
    writes: ports.writes ?? graph.outputs.map((_, output) => ({ kind: 'tensor', output })),
  }
}

export function vectorType(...shape: number[]): TensorType {
  return { dtype: 'f64', shape }
}

export function run(
  task: number,
  reads: readonly (number | readonly [value: number, region: number])[],
  writes: readonly (number | readonly [value: number, region: number])[],
  mode: 'set' | 'add' = 'set',
): Instruction {
  const operand = (given: number | readonly [number, number]): { value: number; region?: number } =>
    typeof given === 'number' ? { value: given } : { value: given[0], region: given[1] }
  return {
    kind: 'run',
    stream: streamIds.compute,
    task,
    reads: reads.map(operand),
    writes: writes.map((write) => ({ ...operand(write), mode })),
  }
}

export function exchange(...parts: readonly TransferPart[]): Instruction {
  return { kind: 'exchange', stream: streamIds.forward, parts }
}

export function send(transfer: number, value: number, peer = 0, region?: number): TransferPart {
  return { direction: 'send', transfer, value, peer, ...(region === undefined ? {} : { region }) }
}

export function recv(transfer: number, value: number, peer = 0, region?: number): TransferPart {
  return { direction: 'recv', transfer, value, peer, ...(region === undefined ? {} : { region }) }
}

export function allReduce(
  collective: number,
  value: number,
  options: { group?: number; region?: number; reduce?: 'sum' | 'max' } = {},
): Instruction {
  const { group = 0, region, reduce = 'sum' } = options
  return {
    kind: 'collective',
    stream: streamIds.reduce,
    collective,
    operation: 'allReduce',
    reduce,
    group,
    parts: [inPlace({ value, ...(region === undefined ? {} : { region }) })],
  }
}

export function moveIn(port: string, value: number): Instruction {
  return { kind: 'move', stream: streamIds.load, direction: 'in', port, value }
}

export function moveOut(port: string, value: number): Instruction {
  return { kind: 'move', stream: streamIds.store, direction: 'out', port, value }
}

export function free(...values: number[]): Instruction {
  return { kind: 'free', values }
}

/** The rank `pipeline` further on, at the same other coordinates. */
export function pipelinePeer(pipeline: number): Peer {
  return { pipeline, axes: [] }
}
