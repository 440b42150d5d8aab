import { afterEach, describe, expect, it } from 'vitest'
import {
  graphTask,
  handmade,
  noInput,
  peer,
  plainBuffer,
  scaleGraph,
  stateBuffer,
  stream,
  tensors,
} from '../../../test/support/enginePrograms.ts'
import type { Engine } from '../types.ts'
import { createLocalEngine, type LocalEngineOptions } from './start.ts'

const engines: Engine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop()
})

async function start(
  program: Parameters<typeof createLocalEngine>[0],
  options?: LocalEngineOptions,
): Promise<Engine> {
  const engine = await createLocalEngine(program, options)
  engines.push(engine)
  return engine
}

async function run(
  engine: Engine,
  state: Record<string, readonly number[]>,
): Promise<Record<string, number[]>> {
  await engine.writeState(tensors(state))
  await engine.step(noInput)
  return Object.fromEntries([...(await engine.readState())].map(([name, { data }]) => [name, [...data]]))
}

const before = { buffer: 0, step: 0, slot: 0 }
const after = { buffer: 0, step: 1, slot: 0 }

describe('transfers', () => {
  it('moves a tensor from one rank to the next and counts it', async () => {
    const program = handmade({
      replicas: [1, 1],
      roles: [
        {
          pipeline: 0,
          buffers: [stateBuffer('a', [3])],
          values: [before],
          peers: [peer(1)],
          code: [
            {
              kind: 'exchange',
              stream: stream.forward,
              parts: [{ direction: 'send', transfer: 5, value: 0, peer: 0 }],
            },
          ],
        },
        {
          pipeline: 1,
          buffers: [stateBuffer('b', [3])],
          values: [after],
          peers: [peer(-1)],
          code: [
            {
              kind: 'exchange',
              stream: stream.forward,
              parts: [{ direction: 'recv', transfer: 5, value: 0, peer: 0 }],
            },
          ],
        },
      ],
    })
    const engine = await start(program, { trace: true })
    expect(await run(engine, { a: [1, 2, 3], b: [0, 0, 0] })).toEqual({ a: [1, 2, 3], b: [1, 2, 3] })
    const { ranks, trace } = await engine.step(noInput)
    expect(ranks.map(({ sends }) => sends)).toEqual([
      { calls: 1, bytes: 12 },
      { calls: 0, bytes: 0 },
    ])
    expect(ranks.map(({ collectives }) => collectives)).toEqual([{}, {}])
    for (const triples of trace!) {
      expect(triples.length).toBe(3)
      expect(triples[0]).toBe(0)
      expect(triples[1]).toBeGreaterThanOrEqual(0)
      expect(triples[2]).toBeGreaterThanOrEqual(triples[1]!)
      expect(triples[2]).toBeLessThan(10)
    }
  })

  it('passes a value on through three ranks, doubling it on the way', async () => {
    const program = handmade({
      replicas: [1, 1, 1],
      tasks: [graphTask('double', scaleGraph([4], 2))],
      roles: [0, 1, 2].map((pipeline) => ({
        pipeline,
        buffers: [stateBuffer(`s${pipeline}`, [4]), plainBuffer('x', [4])],
        values: [before, { buffer: 1, slot: 0 }, after],
        peers: [peer(1), peer(-1)],
        code: [
          ...(pipeline === 0
            ? []
            : [
                {
                  kind: 'exchange' as const,
                  stream: stream.forward,
                  parts: [{ direction: 'recv' as const, transfer: pipeline - 1, value: 2, peer: 1 }],
                },
              ]),
          {
            kind: 'run' as const,
            stream: stream.compute,
            task: 0,
            reads: [{ value: pipeline === 0 ? 0 : 2 }],
            writes: [{ value: 1, mode: 'set' as const }],
          },
          ...(pipeline === 2
            ? [
                {
                  kind: 'run' as const,
                  stream: stream.compute,
                  task: 0,
                  reads: [{ value: 1 }],
                  writes: [{ value: 2, mode: 'set' as const }],
                },
              ]
            : [
                {
                  kind: 'exchange' as const,
                  stream: stream.forward,
                  parts: [{ direction: 'send' as const, transfer: pipeline, value: 1, peer: 0 }],
                },
              ]),
        ],
      })),
    })
    const engine = await start(program)
    const state = { s0: [1, 2, 3, 4], s1: [0, 0, 0, 0], s2: [0, 0, 0, 0] }
    expect(await run(engine, state)).toEqual({
      s0: [1, 2, 3, 4],
      s1: [2, 4, 6, 8],
      s2: [16 / 2, 32 / 2, 24, 32].map((_, i) => 16 * (i + 1)),
    })
  })

  it('splits rows over more replicas and joins them again (1 to 3 ranks and back)', async () => {
    const regions = [
      { start: 0, end: 2 },
      { start: 2, end: 4 },
      { start: 4, end: 6 },
    ]
    const part = (direction: 'send' | 'recv', piece: number, value: number, transfer: number) => ({
      direction,
      transfer,
      value,
      region: piece,
      peer: piece,
    })
    const program = handmade({
      replicas: [1, 3],
      tasks: [graphTask('double', scaleGraph([2], 2))],
      roles: [
        {
          pipeline: 0,
          buffers: [stateBuffer('a', [6])],
          values: [before, after],
          regions,
          peers: [0, 1, 2].map((offset) => peer(1, { scale: 3, offset })),
          code: [
            { kind: 'exchange', stream: 1, parts: [0, 1, 2].map((piece) => part('send', piece, 0, 0)) },
            { kind: 'exchange', stream: 2, parts: [0, 1, 2].map((piece) => part('recv', piece, 1, 1)) },
          ],
        },
        {
          pipeline: 1,
          buffers: [plainBuffer('x', [2], 'f32', 2)],
          values: [
            { buffer: 0, slot: 0 },
            { buffer: 0, slot: 1 },
          ],
          peers: [peer(-1, { divisor: 3 })],
          code: [
            { kind: 'exchange', stream: 1, parts: [{ direction: 'recv', transfer: 0, value: 0, peer: 0 }] },
            { kind: 'run', stream: 0, task: 0, reads: [{ value: 0 }], writes: [{ value: 1, mode: 'set' }] },
            { kind: 'exchange', stream: 2, parts: [{ direction: 'send', transfer: 1, value: 1, peer: 0 }] },
          ],
        },
      ],
    })
    const engine = await start(program)
    expect(await run(engine, { a: [1, 2, 3, 4, 5, 6] })).toEqual({ a: [2, 4, 6, 8, 10, 12] })
    const { ranks } = await engine.step(noInput)
    expect(ranks.map(({ sends }) => sends)).toEqual([
      { calls: 3, bytes: 24 },
      { calls: 1, bytes: 8 },
      { calls: 1, bytes: 8 },
      { calls: 1, bytes: 8 },
    ])
  })

  it('does not stop at full mailboxes: both ranks send more than there are slots before they receive', async () => {
    const count = 6
    const parts = (direction: 'send' | 'recv', from: number, offset: number) =>
      Array.from({ length: count }, (_, index) => ({
        kind: 'exchange' as const,
        stream: stream.forward,
        parts: [{ direction, transfer: offset + index, value: from + index, peer: 0 }],
      }))
    const program = handmade({
      replicas: [1, 1],
      channelSlots: 1,
      tasks: [graphTask('keep', scaleGraph([1], 1))],
      roles: [0, 1].map((pipeline) => ({
        pipeline,
        buffers: [stateBuffer(`s${pipeline}`, [1]), plainBuffer('in', [1], 'f32', count)],
        values: [
          ...Array.from({ length: count }, () => before),
          ...Array.from({ length: count }, (_, slot) => ({ buffer: 1, slot })),
          after,
        ],
        peers: [peer(pipeline === 0 ? 1 : -1)],
        code: [
          ...parts('send', 0, pipeline * 100),
          ...parts('recv', count, (1 - pipeline) * 100),
          // Writes over what the sends read: has to wait for all of them.
          {
            kind: 'run' as const,
            stream: stream.compute,
            task: 0,
            reads: [{ value: 2 * count - 1 }],
            writes: [{ value: 2 * count, mode: 'set' as const }],
          },
        ],
      })),
    })
    const engine = await start(program)
    expect(await run(engine, { s0: [10], s1: [20] })).toEqual({ s0: [20], s1: [10] })
    await engine.step(noInput)
    expect([...(await engine.readState())].map(([name, { data }]) => [name, [...data]])).toEqual([
      ['s0', [10]],
      ['s1', [20]],
    ])
  })

  it('does not let an early receive hold up work that the sender waits for', async () => {
    // Rank 0 posts its receive first; what rank 1 sends depends on what rank 0 computes and sends after that.
    const send = (transfer: number, value: number) => ({
      kind: 'exchange' as const,
      stream: stream.forward,
      parts: [{ direction: 'send' as const, transfer, value, peer: 0 }],
    })
    const recv = (transfer: number, value: number) => ({
      kind: 'exchange' as const,
      stream: stream.backward,
      parts: [{ direction: 'recv' as const, transfer, value, peer: 0 }],
    })
    const run = (from: number, to: number) => ({
      kind: 'run' as const,
      stream: stream.compute,
      task: 0,
      reads: [{ value: from }],
      writes: [{ value: to, mode: 'set' as const }],
    })
    const program = handmade({
      replicas: [1, 1],
      tasks: [graphTask('double', scaleGraph([2], 2))],
      roles: [
        {
          pipeline: 0,
          buffers: [stateBuffer('a', [2]), plainBuffer('x', [2], 'f32', 2)],
          values: [before, { buffer: 1, slot: 0 }, { buffer: 1, slot: 1 }, after],
          peers: [peer(1)],
          code: [recv(1, 1), run(0, 2), send(0, 2), run(1, 3)],
        },
        {
          pipeline: 1,
          buffers: [plainBuffer('x', [2], 'f32', 2)],
          values: [
            { buffer: 0, slot: 0 },
            { buffer: 0, slot: 1 },
          ],
          peers: [peer(-1)],
          code: [
            { ...recv(0, 0), stream: stream.forward },
            run(0, 1),
            { ...send(1, 1), stream: stream.backward },
          ],
        },
      ],
    })
    expect(await run2(program)).toEqual([8, 16])
    async function run2(made: typeof program): Promise<number[]> {
      const engine = await start(made)
      await engine.writeState(tensors({ a: [1, 2] }))
      await engine.step(noInput)
      return [...(await engine.readState()).get('a')!.data]
    }
  })
})
