import { type DType, type Graph, GraphBuilder } from '../../graph/index.ts'
import {
  type BufferSpec,
  encodeInstructions,
  type Instruction,
  type Program,
  type Role,
  type Task,
  type ValueRef,
} from '../../program/index.ts'

/** Streams of these programs, by index. */
export const streams = { compute: 0, transfer: 1, reduce: 2, move: 3 } as const

/** The list of one rank in the making. Every buffer has one value and a place of its own. */
export class RankList {
  readonly code: Instruction[] = []
  private readonly buffers: BufferSpec[] = []

  buffer(elements: number | null, dtype: DType): ValueRef {
    const pool = this.buffers.length
    const shape = elements === null ? [] : [elements]
    this.buffers.push({ name: `b${pool}`, dtype, shape, tier: 'device', pool })
    return pool
  }

  matrix(rows: number): ValueRef {
    const pool = this.buffers.length
    this.buffers.push({ name: `b${pool}`, dtype: 'f32', shape: [rows, rows], tier: 'device', pool })
    return pool
  }

  /** The list so many times, one behind the other; collectives get numbers of their own. */
  repeat(times: number): void {
    const once = [...this.code]
    for (let turn = 1; turn < times; turn++)
      this.code.push(
        ...once.map((one) =>
          one.kind === 'collective' ? { ...one, collective: one.collective + turn * once.length } : one,
        ),
      )
  }

  role(rank: number, ranks: number): Role {
    return {
      name: `rank${rank}`,
      pipeline: rank,
      buffers: this.buffers,
      pools: this.buffers.map(() => ({ slots: 1 })),
      values: this.buffers.map((_, buffer) => ({ buffer, slot: 0 })),
      // Peer i is rank i.
      peers: Array.from({ length: ranks }, (_, other) => ({ pipeline: other - rank, axes: [] })),
      regions: [],
      actions: [],
      code: encodeInstructions(this.code),
    }
  }
}

/** One rank for each list; group 0 is all of them. */
export function handmadeProgram(
  lists: readonly RankList[],
  tasks: readonly Task[],
  channelSlots: number,
): Program {
  return {
    work: { method: 'declared', stages: lists.length, microbatches: 1 },
    mesh: { submeshes: lists.map(() => []) },
    streams: [
      { name: 'compute', resource: 'compute' },
      { name: 'transfer', resource: 'network' },
      { name: 'reduce', resource: 'network' },
      { name: 'move', resource: 'host' },
    ],
    groups: [{ name: 'all', axes: ['pipeline'] }],
    tasks,
    roles: lists.map((list, rank) => list.role(rank, lists.length)),
    channelSlots,
  }
}

/** Something to do for a while: a product of two square matrices. */
export function productTask(rows: number): Task {
  const builder = new GraphBuilder()
  const type = { dtype: 'f32' as const, shape: [rows, rows] }
  const [a, b] = [builder.input('a', 'activation', type), builder.input('b', 'activation', type)]
  builder.output('c', builder.one('matmul', [a, b], { transposeA: false, transposeB: false, scale: 1 }))
  const graph: Graph = builder.build({ keepInputs: true })
  return {
    kind: 'graph',
    name: 'product',
    hash: `product of ${rows}`,
    graph,
    reads: [
      { kind: 'tensor', input: 0 },
      { kind: 'tensor', input: 1 },
    ],
    writes: [{ kind: 'tensor', output: 0 }],
  }
}
