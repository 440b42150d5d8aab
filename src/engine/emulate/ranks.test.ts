import { describe, expect, it } from 'vitest'
import {
  allReduce,
  exchange,
  free,
  makeGraph,
  makeProgram,
  makeRole,
  makeTask,
  moveIn,
  moveOut,
  pipelinePeer,
  recv,
  run,
  send,
  vectorType,
} from '../../../test/support/handmadeProgram.ts'
import type { Instruction, Peer } from '../../program/index.ts'
import type { HostTensor, StateTensors } from '../types.ts'
import { createEmulator } from './index.ts'

const noInput = { tensors: {}, scalars: {} }

function tensor(...values: number[]): HostTensor {
  return { dtype: 'f64', shape: [values.length], data: Float64Array.from(values) }
}

function plain(state: StateTensors): Record<string, number[]> {
  return Object.fromEntries([...state].map(([name, { data }]) => [name, [...data]]))
}

const _scalar = vectorType()

describe('several ranks', () => {
  const twoStages = [[{ name: 'data', size: 1 }], [{ name: 'data', size: 1 }]]
  const double = makeTask(
    'F',
    makeGraph({ x: vectorType(3) }, (builder, { x }) => ({ y: builder.one('add', [x!, x!], {}) })),
  )
  const x = { name: 'x', shape: [3], state: true }

  it('sends between stages, and counts calls and bytes in the dtypes of the program', async () => {
    const narrow = makeTask(
      'F',
      makeGraph({ x: { dtype: 'f32', shape: [3] } }, (builder, inputs) => ({
        y: builder.one('add', [inputs['x']!, inputs['x']!], {}),
      })),
    )
    const first = makeRole(0, {
      buffers: [
        { ...x, dtype: 'f32' },
        { name: 'y', shape: [3], dtype: 'f32' },
      ],
      values: ['x[t]', 'y'],
      peers: [pipelinePeer(1)],
      code: (v) => [run(0, [v('x[t]')], [v('y')]), exchange(send(5, v('y'))), free(v('y'))],
    })
    const second = makeRole(1, {
      buffers: [
        { name: 'z', shape: [3], dtype: 'f32', pack: [{ name: 'z', shape: [3], offset: 0, owned: true }] },
      ],
      values: ['z'],
      peers: [pipelinePeer(-1)],
      code: (v) => [exchange(recv(5, v('z'))), moveOut('out', v('z')), free(v('z'))],
    })
    const engine = createEmulator(
      makeProgram({ submeshes: twoStages, roles: [first, second], tasks: [narrow] }),
      {
        trace: true,
      },
    )
    await engine.writeState(new Map([['x', tensor(1, 2, 3)]]))
    const result = await engine.step(noInput)
    expect(plain(result.tensors['out']!)).toEqual({ z: [2, 4, 6] })
    expect(result.ranks.map((rank) => rank.sends)).toEqual([
      { calls: 1, bytes: 12 },
      { calls: 0, bytes: 0 },
    ])
    const instructions = result.trace!.map((triples) =>
      [...triples].filter((_, index) => index % 3 === 0).sort(),
    )
    expect(instructions).toEqual([
      [0, 1, 2],
      [0, 1, 2],
    ])
    // 3 floats take one cache line of 64 bytes.
    expect(await engine.memory()).toEqual([
      { rank: 0, arenaBytes: 128, workspaceBytes: 0 },
      { rank: 1, arenaBytes: 64, workspaceBytes: 0 },
    ])
  })

  it('splits the samples of each micro-batch over unequal replicas and joins them', async () => {
    // 2 micro-batches of 4 samples: 2 ranks take 2 samples each and send them to 1 rank that has all 4.
    const rows = { name: 'data', scale: 1, offset: 0, divisor: 2 }
    const identity = makeTask(
      'F',
      makeGraph({ x: { dtype: 'i32', shape: [4, 1] } }, (builder, inputs) => ({
        y: builder.one('cast', [builder.one('reshape', [inputs['x']!], { shape: [4] })], { dtype: 'f64' }),
      })),
    )
    const source = makeRole(0, {
      buffers: [{ name: 'tokens', shape: [2, 1], dtype: 'i32', slots: 2 }],
      values: ['tokens[0]', 'tokens[1]@1'],
      peers: [{ pipeline: 1, axes: [rows] }],
      code: (v) => [
        moveIn('tokens', v('tokens[0]')),
        moveIn('tokens', v('tokens[1]')),
        exchange(send(0, v('tokens[0]'))),
        exchange(send(1, v('tokens[1]'))),
      ],
    })
    const target = makeRole(1, {
      buffers: [
        { name: 'all', shape: [4, 1], dtype: 'i32' },
        { name: 'y', shape: [4], slots: 2, pack: [{ name: 'y', shape: [4], offset: 0, owned: true }] },
      ],
      values: ['all[0]', 'all[1]', 'y[0]', 'y[1]@1'],
      regions: [
        { start: 0, end: 2 },
        { start: 2, end: 4 },
      ],
      peers: [0, 1].map((there) => ({
        pipeline: -1,
        axes: [{ name: 'data', scale: 2, offset: there, divisor: 1 }],
      })),
      code: (v) =>
        [0, 1].flatMap((batch): Instruction[] => [
          exchange(recv(batch, v(`all[${batch}]`), 0, 0), recv(batch, v(`all[${batch}]`), 1, 1)),
          run(0, [v(`all[${batch}]`)], [v(`y[${batch}]`)]),
          free(v(`all[${batch}]`)),
          moveOut(`y${batch}`, v(`y[${batch}]`)),
        ]),
    })
    const program = makeProgram({
      submeshes: [[{ name: 'data', size: 2 }], [{ name: 'data', size: 1 }]],
      roles: [source, target],
      tasks: [identity],
      microbatches: 2,
    })
    const { tensors } = await createEmulator(program).step({
      tensors: { tokens: Int32Array.from([1, 2, 3, 4, 5, 6, 7, 8]) },
      scalars: {},
    })
    expect(plain(tensors['y0']!)).toEqual({ y: [1, 2, 3, 4] })
    expect(plain(tensors['y1']!)).toEqual({ y: [5, 6, 7, 8] })
    const short = createEmulator(program).step({ tensors: { tokens: new Int32Array(7) }, scalars: {} })
    await expect(short).rejects.toThrow('tokens has 7 ids, the program takes 8')
  })

  it('reduces in rank order, by regions', async () => {
    // Each rank holds its own of three samples; 0.1 + 0.2 + 0.3 depends on the order of additions.
    const role = makeRole(0, {
      buffers: [
        { name: 'ids', shape: [1, 2], dtype: 'i32' },
        { name: 'x', shape: [1, 2], pack: [{ name: 'x', shape: [1, 2], offset: 0, owned: true }] },
      ],
      values: ['ids', 'x'],
      code: (v) => [
        moveIn('ids', v('ids')),
        run(0, [v('ids')], [v('x')]),
        allReduce(7, v('x')),
        moveOut('x', v('x')),
      ],
    })
    const tenth = makeTask(
      'F',
      makeGraph({ ids: { dtype: 'i32', shape: [1, 2] } }, (builder, { ids }) => {
        const ten = builder.one('fill', [], { shape: [], dtype: 'f64', value: 10 })
        return { x: builder.one('div', [builder.one('cast', [ids!], { dtype: 'f64' }), ten], {}) }
      }),
    )
    const program = makeProgram({
      submeshes: [[{ name: 'data', size: 3 }]],
      roles: [role],
      tasks: [tenth],
      groups: [{ name: 'data', axes: ['data'] }],
    })
    const { tensors, ranks } = await createEmulator(program).step({
      tensors: { ids: Int32Array.from([1, 3, 2, 2, 3, 1]) },
      scalars: {},
    })
    expect(plain(tensors['x']!)).toEqual({ x: [0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1] })
    for (const { collectives } of ranks)
      expect(collectives).toEqual({ allReduce: { calls: 1, payloadBytes: 16, wireBytes: (2 * 2 * 16) / 3 } })
  })

  it('posts all parts of an exchange together, sends before what is received in their place', async () => {
    const other = (by: number): Peer => ({
      pipeline: 0,
      axes: [{ name: 'data', scale: 1, offset: by, divisor: 1 }],
    })
    // Two ranks swap their samples three times, each into the place of what it sends.
    const role = (remainder: number): ReturnType<typeof makeRole> =>
      makeRole(0, {
        buffers: [
          { name: 'ids', shape: [1, 1], dtype: 'i32' },
          { name: 'x', shape: [1], pack: [{ name: 'x', shape: [1], offset: 0, owned: true }] },
        ],
        values: ['ids', 'x'],
        where: { axis: 'data', modulus: 2, remainder },
        peers: [other(remainder === 0 ? 1 : -1)],
        code: (v) => [
          moveIn('ids', v('ids')),
          run(0, [v('ids')], [v('x')]),
          ...[0, 2, 4].map((id) => exchange(recv(id + 1 - remainder, v('x')), send(id + remainder, v('x')))),
          moveOut(`x${remainder}`, v('x')),
        ],
      })
    const number = makeTask(
      'F',
      makeGraph({ ids: { dtype: 'i32', shape: [1, 1] } }, (builder, { ids }) => ({
        x: builder.one('cast', [builder.one('reshape', [ids!], { shape: [1] })], { dtype: 'f64' }),
      })),
    )
    const program = makeProgram({
      submeshes: [[{ name: 'data', size: 2 }]],
      roles: [role(0), role(1)],
      tasks: [number],
      channelSlots: 1,
    })
    const result = await createEmulator(program).step({
      tensors: { ids: Int32Array.from([5, 6]) },
      scalars: {},
    })
    expect(plain(result.tensors['x0']!)).toEqual({ x: [6] })
    expect(plain(result.tensors['x1']!)).toEqual({ x: [5] })
    expect(result.ranks.map((rank) => rank.sends)).toEqual([
      { calls: 3, bytes: 24 },
      { calls: 3, bytes: 24 },
    ])
  })

  it('lets a rank go on past a receive that nothing waits for yet', async () => {
    const first = makeRole(0, {
      buffers: [x, { name: 'back', shape: [3] }, { name: 'y', shape: [3] }],
      values: ['x[t]', 'back', 'y'],
      peers: [pipelinePeer(1)],
      code: (v) => [
        exchange(recv(2, v('back'))),
        run(0, [v('x[t]')], [v('y')]),
        exchange(send(1, v('y'))),
        run(0, [v('back')], [v('y')]),
      ],
    })
    const second = makeRole(1, {
      buffers: [{ name: 'z', shape: [3] }],
      values: ['z'],
      peers: [pipelinePeer(-1)],
      code: (v) => [exchange(recv(1, v('z'))), exchange(send(2, v('z')))],
    })
    const engine = createEmulator(
      makeProgram({ submeshes: twoStages, roles: [first, second], tasks: [double] }),
    )
    await engine.writeState(new Map([['x', tensor(1, 2, 3)]]))
    const { ranks } = await engine.step(noInput)
    expect(ranks.map((rank) => rank.sends.calls)).toEqual([1, 1])
  })

  it('takes a tied tensor from its owner and gives it to all that hold it', async () => {
    const copy = makeTask(
      'U',
      makeGraph({ w: vectorType(3) }, (builder, { w }) => ({ w: builder.one('neg', [w!], {}) })),
    )
    const role = (pipeline: number, owned: boolean): ReturnType<typeof makeRole> =>
      makeRole(pipeline, {
        buffers: [
          {
            name: `w${pipeline}`,
            shape: [3],
            state: true,
            pack: [
              { name: 'tied', shape: [2], offset: pipeline, owned },
              { name: `own${pipeline}`, shape: [1], offset: pipeline === 0 ? 2 : 0, owned: true },
            ],
          },
        ],
        values: [`w${pipeline}[t]`, `w${pipeline}[t+1]`],
        code: (v) => [run(0, [v(`w${pipeline}[t]`)], [v(`w${pipeline}[t+1]`)])],
      })
    const engine = createEmulator(
      makeProgram({ submeshes: twoStages, roles: [role(0, false), role(1, true)], tasks: [copy] }),
    )
    const state = new Map([
      ['tied', tensor(1, 2)],
      ['own0', tensor(3)],
      ['own1', tensor(4)],
    ])
    await engine.writeState(state)
    await engine.step(noInput)
    expect(plain(await engine.readState())).toEqual({ tied: [-1, -2], own0: [-3], own1: [-4] })
  })
})
