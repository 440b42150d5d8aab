import { describe, expect, it } from 'vitest'
import {
  graphTask,
  type HandmadeBuffer,
  handmade,
  makeGraph,
  plainBuffer,
  scaleGraph,
  stateBuffer,
} from '../../../test/support/enginePrograms.ts'
import type { Graph } from '../../graph/index.ts'
import type { Program } from '../../program/index.ts'
import { memoryWarning, roomProblem } from './capacity.ts'
import { createLocalEngine } from './start.ts'
import { workingBytes } from './workingMemory.ts'

/** `ranks` replicas with these buffers that all run the graph, which is not said to read or write them. */
function replicas(
  ranks: number,
  buffers: readonly HandmadeBuffer[],
  graph: Graph = scaleGraph([2], 2),
): Program {
  return handmade({
    replicas: [ranks],
    tasks: [graphTask('F', graph)],
    roles: [
      {
        pipeline: 0,
        buffers,
        values: [],
        code: [{ kind: 'run', stream: 0, task: 0, reads: [], writes: [] }],
      },
    ],
  })
}

/** float32 elements of a gibibyte. */
const gibibyte = 2 ** 28

describe('what is certain not to fit', () => {
  it.each([
    ['4 GiB and more on a rank', replicas(1, [plainBuffer('x', [gibibyte + 1], 'f32', 4)])],
    ['a state too large', replicas(1, [stateBuffer('w', [5 * gibibyte])])],
  ])('is %s', (_, program) => {
    expect(roomProblem([program])).toMatchObject({
      code: 'ENGINE_ARENA_TOO_LARGE',
      message: expect.stringMatching(/^rank 0 needs [45]\.00 GiB of tensors/),
      hint: expect.any(String),
      exitCode: 3,
    })
  })

  it('is more than the machine has, on all ranks or in several programs together', () => {
    const expected = { code: 'ENGINE_NO_MEMORY', hint: expect.any(String), exitCode: 3 }
    const program = replicas(4096, [plainBuffer('x', [3 * gibibyte]), stateBuffer('w', [gibibyte / 4])])
    expect(roomProblem([program])).toMatchObject({
      ...expected,
      // 4096 times 3.25 GiB, and the state once.
      message: expect.stringMatching(
        /^the buffers of all ranks take 13312\.00 GiB and the state .* 0\.25 GiB, /,
      ),
    })
    const one = replicas(1, [plainBuffer('x', [gibibyte / 8])])
    expect(roomProblem([one])).toBeUndefined()
    expect(roomProblem(Array.from({ length: 2 ** 15 }, () => one))).toMatchObject(expected)
  })

  it('is refused by the engine before it starts a worker', async () => {
    const program = replicas(4096, [plainBuffer('x', [3 * gibibyte])])
    await expect(createLocalEngine(program)).rejects.toMatchObject({ code: 'ENGINE_NO_MEMORY', exitCode: 3 })
  })
})

describe('the bytes inside a task', () => {
  const type = { dtype: 'f32', shape: [4] } as const

  it('are those of values that are made and still to be read', () => {
    const graph = makeGraph((builder) => {
      const a = builder.one('neg', [builder.input('x', 'activation', type)], {})
      const b = builder.one('exp', [a], {})
      // Of 16 bytes each: a and b, then c beside them; then c alone, then d beside it.
      const c = builder.one('add', [a, b], {})
      const d = builder.one('tanh', [c], {})
      builder.output('y', builder.one('mul', [c, d], {}))
    })
    expect(workingBytes(graph)).toBe(48)
  })

  it('count no reshape, no input and no output', () => {
    const graph = makeGraph((builder) => {
      const x = builder.input('x', 'activation', type)
      const wide = builder.one('reshape', [builder.one('exp', [x], {})], { shape: [2, 2] })
      const flat = builder.one('reshape', [builder.one('tanh', [wide], {})], { shape: [4] })
      builder.output('y', builder.one('add', [flat, x], {}))
    })
    // exp and tanh.
    expect(workingBytes(graph)).toBe(32)
    expect(workingBytes(scaleGraph([4], 2))).toBeLessThanOrEqual(4)
  })

  it('are warned of where they may be more than there is', () => {
    const sum = (elements: number) =>
      makeGraph((builder) => {
        const x = builder.input('x', 'activation', { dtype: 'f32', shape: [1] })
        const many = builder.one('exp', [builder.one('broadcast', [x], { shape: [elements] })], {})
        builder.output('y', builder.one('reduceSum', [many], { dims: [0], keepDims: true }))
      })
    // Two tensors of 8 TiB on each of 2 ranks, in arenas that grow by doubling.
    expect(memoryWarning([replicas(2, [], sum(2 ** 41))])).toMatch(
      /about 65536\.00 GiB of memory, 65536\.00 GiB of it inside tasks, and this machine has /,
    )
    expect(memoryWarning([replicas(2, [], sum(2 ** 10))])).toBeUndefined()
    // A loop over elements has none inside.
    expect(memoryWarning([replicas(1, [], scaleGraph([2 ** 41], 2))])).toBeUndefined()
  })
})
