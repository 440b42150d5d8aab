import type { HostTensor, StateTensors } from '../../src/engine/types.ts'
import { type DType, type Graph, GraphBuilder } from '../../src/graph/index.ts'
import {
  type BufferSpec,
  encodeInstructions,
  type Group,
  type Instruction,
  type Peer,
  type Program,
  type Region,
  type Role,
  type SlotPool,
  type Task,
  type ValueInstance,
} from '../../src/program/index.ts'

/** Small Programs written by hand, without plan or lowering, that an engine runs. */

/** A buffer with a pool of its own. */
export type HandmadeBuffer = Omit<BufferSpec, 'pool'> & SlotPool

export interface HandmadeRole {
  readonly pipeline: number
  readonly where?: Role['where']
  readonly buffers: readonly HandmadeBuffer[]
  readonly values: readonly ValueInstance[]
  readonly peers?: readonly Peer[]
  readonly regions?: readonly Region[]
  readonly actions?: Role['actions']
  readonly code: readonly Instruction[]
}

export interface HandmadeProgram {
  /** Ranks on the data axis at each pipeline coordinate. */
  readonly replicas: readonly number[]
  readonly roles: readonly HandmadeRole[]
  readonly tasks?: readonly Task[]
  readonly groups?: readonly Group[]
  readonly channelSlots?: number
  readonly microbatches?: number
}

/** Streams of handmade programs, by index. */
export const stream = { compute: 0, forward: 1, backward: 2, reduce: 3, load: 4 } as const

export function handmade(parts: HandmadeProgram): Program {
  return {
    work: { method: 'gradient', stages: parts.replicas.length, microbatches: parts.microbatches ?? 1 },
    mesh: { submeshes: parts.replicas.map((size) => [{ name: 'data', size }]) },
    streams: [
      { name: 'compute', resource: 'compute' },
      { name: 'forward', resource: 'network' },
      { name: 'backward', resource: 'network' },
      { name: 'reduce', resource: 'network' },
      { name: 'load', resource: 'host' },
    ],
    groups: parts.groups ?? [],
    tasks: parts.tasks ?? [],
    channelSlots: parts.channelSlots ?? 2,
    roles: parts.roles.map(
      (role): Role => ({
        name: `pipeline=${role.pipeline}`,
        pipeline: role.pipeline,
        ...(role.where === undefined ? {} : { where: role.where }),
        buffers: role.buffers.map(({ slots: _, ...buffer }, pool) => ({ ...buffer, pool })),
        pools: role.buffers.map(({ slots }) => ({ slots })),
        values: role.values,
        peers: role.peers ?? [],
        regions: role.regions ?? [],
        actions: role.actions ?? [],
        code: encodeInstructions(role.code),
      }),
    ),
  }
}

export function peer(
  pipeline: number,
  axis: { scale?: number; offset?: number; divisor?: number } = {},
): Peer {
  const { scale = 1, offset = 0, divisor = 1 } = axis
  return { pipeline, axes: [{ name: 'data', scale, offset, divisor }] }
}

/** A state buffer of one slot and its instances before and after the step. */
export function stateBuffer(name: string, shape: readonly number[], dtype: DType = 'f32'): HandmadeBuffer {
  const offset = 0
  const pack = [{ name, shape, offset, owned: true }]
  return { name, dtype, shape, tier: 'device', slots: 1, state: true, pack }
}

export function plainBuffer(
  name: string,
  shape: readonly number[],
  dtype: DType = 'f32',
  slots = 1,
): HandmadeBuffer {
  return { name, dtype, shape, tier: 'device', slots }
}

/** A task whose operands are its graph's inputs and outputs one by one. */
export function graphTask(name: string, graph: Graph): Task {
  return {
    kind: 'graph',
    name,
    hash: name,
    graph,
    reads: graph.inputs.map((_, input) => ({ kind: 'tensor', input })),
    writes: graph.outputs.map((_, output) => ({ kind: 'tensor', output })),
  }
}

export function makeGraph(make: (builder: GraphBuilder) => void): Graph {
  const builder = new GraphBuilder()
  make(builder)
  return builder.build({ keepInputs: true })
}

/** y = factor * x, elementwise. */
export function scaleGraph(shape: readonly number[], factor: number, dtype: 'f32' | 'f64' = 'f32'): Graph {
  return makeGraph((builder) => {
    const x = builder.input('x', 'activation', { dtype, shape })
    const by = builder.one('fill', [], { shape: [], dtype, value: factor })
    builder.output('y', builder.one('mul', [x, by], {}))
  })
}

export function tensors(
  given: Readonly<Record<string, readonly number[]>>,
  dtype: 'f32' | 'f64' = 'f32',
): StateTensors {
  return new Map(
    Object.entries(given).map(([name, numbers]): [string, HostTensor] => [
      name,
      {
        dtype,
        shape: [numbers.length],
        data: dtype === 'f32' ? Float32Array.from(numbers) : Float64Array.from(numbers),
      },
    ]),
  )
}

export const noInput = { tensors: {}, scalars: {} } as const
