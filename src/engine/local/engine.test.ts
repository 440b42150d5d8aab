import { afterEach, describe, expect, it } from 'vitest'
import {
  graphTask,
  handmade,
  makeGraph,
  plainBuffer,
  stateBuffer,
  stream,
  tensors,
} from '../../../test/support/enginePrograms.ts'
import { inPlace, type Task } from '../../program/index.ts'
import type { Engine, HostTensor } from '../types.ts'
import { createLocalEngine } from './start.ts'

const engines: Engine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop()
})

async function start(program: Parameters<typeof createLocalEngine>[0]): Promise<Engine> {
  const engine = await createLocalEngine(program)
  engines.push(engine)
  return engine
}

/** Two replicas, two micro-batches: rows of an embedding, their squared norm as loss, its gradient into a pack. */
function embeddingProgram() {
  const [samples, sequence, rows, width] = [2, 3, 5, 4]
  const table = { dtype: 'f32', shape: [rows, width] } as const
  const graph = makeGraph((builder) => {
    const tokens = builder.input('tokens', 'data', { dtype: 'i32', shape: [samples, sequence] })
    const scale = builder.input('lossScale', 'scalar', { dtype: 'f32', shape: [] })
    const weight = builder.input('w', 'parameter', table)
    const gathered = builder.one('gather', [weight, tokens], {})
    const square = builder.one('mul', [gathered, gathered], {})
    builder.output('loss', builder.one('reduceSum', [square], { dims: [0, 1, 2], keepDims: false }))
    builder.output('values', builder.one('mul', [gathered, scale], {}))
  })
  const task: Task = {
    kind: 'graph',
    name: 'FB',
    hash: 'embedding',
    graph,
    reads: [
      { kind: 'tensor', input: 0 },
      { kind: 'tensor', input: 1 },
      { kind: 'pack', entries: [{ input: 2, offset: 3 }] },
    ],
    writes: [
      { kind: 'tensor', output: 0 },
      {
        kind: 'pack',
        entries: [],
        rows: [{ values: 1, ids: { read: 0 }, offset: 3, rows, rowElements: width, clears: true }],
      },
    ],
  }
  const pack = [
    { name: 'skip', shape: [3], offset: 0, owned: true },
    { name: 'w', shape: [rows, width], offset: 3, owned: true },
  ]
  const flat = { dtype: 'f32', shape: [3 + rows * width], tier: 'device', slots: 1, pack } as const
  const read = (microbatch: number) => ({
    kind: 'move' as const,
    stream: stream.load,
    direction: 'in' as const,
    port: 'tokens',
    value: microbatch,
  })
  const run = (microbatch: number) => ({
    kind: 'run' as const,
    stream: stream.compute,
    task: 0,
    reads: [{ value: microbatch }, { value: 2 }, { value: 3 }],
    writes: [
      { value: 4, mode: microbatch === 0 ? ('set' as const) : ('add' as const) },
      { value: 5, mode: microbatch === 0 ? ('set' as const) : ('add' as const) },
    ],
  })
  const out = (port: string, value: number) => ({
    kind: 'move' as const,
    stream: stream.load,
    direction: 'out' as const,
    port,
    value,
  })
  return handmade({
    replicas: [2],
    microbatches: 2,
    groups: [{ name: 'data', axes: ['data'] }],
    tasks: [task, { kind: 'kernel', name: 'sumSquares', hash: 'sumSquares', kernel: 'sumSquares' }],
    roles: [
      {
        pipeline: 0,
        buffers: [
          plainBuffer('tokens', [samples, sequence], 'i32', 2),
          plainBuffer('lossScale', []),
          { ...flat, name: 'w0', state: true },
          plainBuffer('loss', []),
          { ...flat, name: 'g0' },
          plainBuffer('norm', [], 'f64'),
          { ...plainBuffer('owner', [], 'f64'), constant: { isZero: ['data'] } },
        ],
        values: [
          { buffer: 0, microbatch: 0, slot: 0 },
          { buffer: 0, microbatch: 1, slot: 1 },
          { buffer: 1, slot: 0 },
          { buffer: 2, step: 0, slot: 0 },
          { buffer: 3, slot: 0 },
          { buffer: 4, slot: 0 },
          { buffer: 5, slot: 0 },
          { buffer: 6, slot: 0 },
        ],
        regions: [{ start: 3, end: 3 + rows * width }],
        code: [
          { kind: 'move', stream: stream.load, direction: 'in', port: 'lossScale', value: 2 },
          read(0),
          run(0),
          read(1),
          run(1),
          {
            kind: 'collective',
            stream: stream.reduce,
            collective: 1,
            operation: 'allReduce',
            reduce: 'sum',
            group: 0,
            parts: [inPlace({ value: 4 })],
          },
          out('loss', 4),
          out('gradients', 5),
          {
            kind: 'run',
            stream: stream.compute,
            task: 1,
            reads: [{ value: 5, region: 0 }, { value: 7 }],
            writes: [{ value: 6, mode: 'set' }],
          },
          {
            kind: 'collective',
            stream: stream.reduce,
            collective: 2,
            operation: 'allReduce',
            reduce: 'sum',
            group: 0,
            parts: [inPlace({ value: 6 })],
          },
          out('gradientNorm', 6),
        ],
      },
    ],
  })
}

describe('ports, packs and rows', () => {
  it('gives each replica its samples of each micro-batch and sums what comes out', async () => {
    const engine = await start(embeddingProgram())
    const weights = Float32Array.from({ length: 20 }, (_, index) => index / 4 - 2)
    const state = new Map<string, HostTensor>([
      ['skip', { dtype: 'f32', shape: [3], data: new Float32Array(3) }],
      ['w', { dtype: 'f32', shape: [5, 4], data: weights }],
    ])
    await engine.writeState(state)
    // Micro-batch by micro-batch, in each the two samples of rank 0, then those of rank 1.
    const tokens = Int32Array.from([
      0, 1, 2, 3, 4, 0, /**/ 1, 1, 1, 2, 2, 2, /**/ 4, 4, 4, 3, 3, 0, /**/ 0, 0, 0, 0, 0, 0,
    ])
    const { scalars, tensors: out } = await engine.step({ tensors: { tokens }, scalars: { lossScale: 0.5 } })
    let loss = 0
    for (const token of tokens)
      for (let column = 0; column < 4; column++) loss += weights[token * 4 + column]! ** 2
    expect(scalars['loss']).toBeCloseTo(loss, 4)
    // Gradients are those of rank 0, which were not reduced: its share of both micro-batches.
    const own = [...tokens.slice(0, 6), ...tokens.slice(12, 18)]
    const gradient = new Float32Array(20)
    for (const token of own)
      for (let column = 0; column < 4; column++)
        gradient[token * 4 + column]! += weights[token * 4 + column]! * 0.5
    expect([...out['gradients']!.get('w')!.data]).toEqual([...gradient])
    expect(out['gradients']!.get('w')!.shape).toEqual([5, 4])
    const squares = gradient.reduce((sum, value) => sum + value * value, 0)
    // Only the first replica is the owner.
    expect(scalars['gradientNorm']).toBeCloseTo(squares, 6)
    expect((await engine.readState()).get('w')!.data).toEqual(weights)
    const again = await engine.step({ tensors: { tokens }, scalars: { lossScale: 0.5 } })
    expect(again.scalars).toEqual(scalars)
  })

  it('says which port is missing or of the wrong size', async () => {
    const engine = await start(embeddingProgram())
    await expect(engine.step({ tensors: {}, scalars: { lossScale: 1 } })).rejects.toMatchObject({
      code: 'ENGINE_INPUT',
    })
    const tokens = new Int32Array(5)
    await expect(engine.step({ tensors: { tokens }, scalars: { lossScale: 1 } })).rejects.toMatchObject({
      code: 'ENGINE_INPUT',
    })
  })

  it('refuses ids beyond the table', async () => {
    const engine = await start(embeddingProgram())
    const tokens = new Int32Array(24).fill(5)
    await expect(engine.step({ tensors: { tokens }, scalars: { lossScale: 1 } })).rejects.toMatchObject({
      exitCode: 5,
    })
  })

  it('tells the memory of each rank', async () => {
    const engine = await start(embeddingProgram())
    const memory = await engine.memory()
    // Slots of 64 bytes at least: tokens 2 x 64, scalars 4 x 64, two packs of 92 bytes in 128 each.
    expect(memory.map(({ rank, arenaBytes }) => [rank, arenaBytes])).toEqual([
      [0, 128 + 4 * 64 + 2 * 128],
      [1, 128 + 4 * 64 + 2 * 128],
    ])
    // The loss of the second micro-batch, and values [2, 3, 4] for its rows.
    expect(memory[0]!.workspaceBytes).toBe(64 + 128)
  })
})

describe('state', () => {
  const shape = [4]

  /** w[t+1] = (softmax or 3x) of w[t], in the same slot or in the other. */
  function updateProgram(fused: boolean, slots: number) {
    const graph = makeGraph((builder) => {
      const w = builder.input('w', 'state', { dtype: 'f64', shape })
      const three = builder.one('fill', [], { shape: [], dtype: 'f64', value: 3 })
      builder.output('w', fused ? builder.one('mul', [w, three], {}) : builder.one('softmax', [w], {}))
    })
    return handmade({
      replicas: [1],
      tasks: [graphTask('U', graph)],
      roles: [
        {
          pipeline: 0,
          buffers: [{ ...stateBuffer('w', shape, 'f64'), slots }],
          values: [
            { buffer: 0, step: 0, slot: 0 },
            { buffer: 0, step: 1, slot: slots - 1 },
          ],
          code: [
            {
              kind: 'run',
              stream: stream.compute,
              task: 0,
              reads: [{ value: 0 }],
              writes: [{ value: 1, mode: 'set' }],
            },
          ],
        },
      ],
    })
  }

  const softmax = (values: readonly number[]): number[] => {
    const powers = values.map(Math.exp)
    const sum = powers.reduce((total, power) => total + power, 0)
    return powers.map((power) => power / sum)
  }

  for (const fused of [true, false])
    for (const slots of [1, 2])
      it(`is updated step by step (${fused ? 'loop' : 'session'}, ${slots} slots)`, async () => {
        const engine = await start(updateProgram(fused, slots))
        let wanted = [1, 2, -1, 0.5]
        await engine.writeState(tensors({ w: wanted }, 'f64'))
        for (let step = 0; step < 3; step++) {
          await engine.step({ tensors: {}, scalars: {} })
          wanted = fused ? wanted.map((value) => value * 3) : softmax(wanted)
          const left = (await engine.readState()).get('w')!
          expect(left).toMatchObject({ dtype: 'f64', shape })
          left.data.forEach((value, index) => {
            expect(value).toBeCloseTo(wanted[index]!, 13)
          })
        }
      })

  it('is converted to the dtype of the program', async () => {
    const engine = await start(updateProgram(true, 1))
    await engine.writeState(tensors({ w: [0.5, 1, 2, 4] }, 'f32'))
    expect((await engine.readState()).get('w')).toEqual({
      dtype: 'f64',
      shape,
      data: Float64Array.from([0.5, 1, 2, 4]),
    })
  })
})
