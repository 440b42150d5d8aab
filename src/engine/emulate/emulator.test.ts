import { describe, expect, it } from 'vitest'
import {
  allReduce,
  free,
  makeGraph,
  makeProgram,
  makeRole,
  makeTask,
  moveIn,
  moveOut,
  run,
  vectorType,
} from '../../../test/support/handmadeProgram.ts'
import type { Program } from '../../program/index.ts'
import type { HostTensor, StateTensors } from '../types.ts'
import { createEmulator } from './index.ts'

const noInput = { tensors: {}, scalars: {} }

function tensor(...values: number[]): HostTensor {
  return { dtype: 'f64', shape: [values.length], data: Float64Array.from(values) }
}

function plain(state: StateTensors): Record<string, number[]> {
  return Object.fromEntries([...state].map(([name, { data }]) => [name, [...data]]))
}

const oneRank = [[{ name: 'data', size: 1 }]]
const scalar = vectorType()

describe('one rank', () => {
  const descend = makeTask(
    'U',
    makeGraph({ w: vectorType(2), g: vectorType(2), rate: scalar }, (builder, { w, g, rate }) => ({
      w: builder.one('sub', [w!, builder.one('mul', [g!, rate!], {})], {}),
    })),
  )

  /** w -= rate * 2 w for the rows of each region; `slots` 2 keeps the old version beside the new one. */
  function descent(slots: number): Program {
    const gradient = makeTask(
      'B',
      makeGraph({ w: vectorType(4) }, (builder, { w }) => ({ g: builder.one('add', [w!, w!], {}) })),
    )
    const role = makeRole(0, {
      buffers: [
        { name: 'w', shape: [4], state: true, slots },
        { name: 'g', shape: [4] },
        { name: 'rate', shape: [] },
      ],
      values: ['w[t]', `w[t+1]@${slots - 1}`, 'g', 'rate'],
      regions: [
        { start: 0, end: 2 },
        { start: 2, end: 4 },
      ],
      code: (v) => [
        moveIn('rate', v('rate')),
        run(0, [v('w[t]')], [v('g')]),
        ...[0, 1].map((region) =>
          run(1, [[v('w[t]'), region], [v('g'), region], v('rate')], [[v('w[t+1]'), region]]),
        ),
        free(v('g'), v('rate')),
      ],
    })
    return makeProgram({ submeshes: oneRank, roles: [role], tasks: [gradient, descend] })
  }

  it.each([1, 2])('updates state region by region, in %i slots', async (slots) => {
    const engine = createEmulator(descent(slots))
    await engine.writeState(new Map([['w', tensor(1, 2, 3, 4)]]))
    await engine.step({ tensors: {}, scalars: { rate: 0.25 } })
    await engine.step({ tensors: {}, scalars: { rate: 0.5 } })
    await engine.writeState(await engine.readState())
    expect(plain(await engine.readState())).toEqual({ w: [0, 0, 0, 0] })
    await engine.writeState(new Map([['w', tensor(8, 16, 24, 32)]]))
    await engine.step({ tensors: {}, scalars: { rate: 0.25 } })
    await engine.step({ tensors: {}, scalars: { rate: 0.125 } })
    expect(plain(await engine.readState())).toEqual({ w: [3, 6, 9, 12] })
  })

  it('says what a step or a state lacks', async () => {
    const engine = createEmulator(descent(1))
    await expect(engine.step(noInput)).rejects.toThrow(/no state/)
    const refused = (state: StateTensors, message: RegExp): Promise<void> =>
      expect(engine.writeState(state)).rejects.toThrow(message)
    await refused(new Map(), /the state lacks w/)
    await refused(new Map([['w', tensor(1, 2)]]), /w is of shape \[2\], the program wants \[4\]/)
    await refused(
      new Map([
        ['w', tensor(1, 2, 3, 4)],
        ['ww', tensor(1)],
      ]),
      /no state ww/,
    )
    await engine.writeState(new Map([['w', tensor(1, 2, 3, 4)]]))
    await expect(engine.step(noInput)).rejects.toMatchObject({ code: 'ENGINE_INPUT', exitCode: 5 })
    // That step never began, so the state is still there.
    expect(plain(await engine.readState())).toEqual({ w: [1, 2, 3, 4] })
    await engine.stop()
    await engine.stop()
    await expect(engine.step(noInput)).rejects.toMatchObject({ code: 'ENGINE_STOPPED' })
  })

  it('feeds packs, adds rows of repeated ids and clears the table in mode set', async () => {
    // Outputs: a dense gradient for `b`, and rows for the table `e` of 3 rows of 2.
    const graph = makeGraph({ x: vectorType(2), y: vectorType(3, 2) }, (builder, { x, y }) => ({
      b: builder.one('neg', [x!], {}),
      rows: builder.one('add', [y!, y!], {}),
    }))
    const rows = { values: 1, ids: { read: 1 }, offset: 0, rows: 3, rowElements: 2, clears: true }
    const task = makeTask('B', graph, {
      reads: [
        {
          kind: 'pack',
          entries: [
            { input: 0, offset: 6 },
            { input: 1, offset: 0 },
          ],
        },
        { kind: 'ids' },
      ],
      writes: [{ kind: 'pack', entries: [{ output: 0, offset: 6 }], rows: [rows] }],
    })
    const pack = [
      { name: 'e', shape: [3, 2], offset: 0, owned: true },
      { name: 'b', shape: [2], offset: 6, owned: true },
    ]
    const role = makeRole(0, {
      buffers: [
        { name: 'w', shape: [8], state: true, pack },
        { name: 'g', shape: [8], pack },
        { name: 'ids', shape: [1, 3], dtype: 'i32' },
      ],
      values: ['w[t]', 'g', 'ids[0]', 'ids[1]'],
      code: (v) => [
        moveIn('ids', v('ids[0]')),
        run(0, [v('w[t]'), v('ids[0]')], [v('g')]),
        free(v('ids[0]')),
        moveIn('ids', v('ids[1]')),
        run(0, [v('w[t]'), v('ids[1]')], [v('g')], 'add'),
        moveOut('gradients', v('g')),
      ],
    })
    const engine = createEmulator(
      makeProgram({ submeshes: oneRank, roles: [role], tasks: [task], microbatches: 2 }),
    )
    await engine.writeState(
      new Map([
        ['e', { dtype: 'f64', shape: [3, 2], data: Float64Array.from([1, 2, 3, 4, 5, 6]) }],
        ['b', tensor(7, 8)],
      ]),
    )
    const step = (...ids: number[]): ReturnType<typeof engine.step> =>
      engine.step({ tensors: { ids: Int32Array.from(ids) }, scalars: {} })
    const { tensors } = await step(2, 0, 2, 1, 1, 1)
    // Row 2 twice and row 0 once of (2, 4), (6, 8), (10, 12); then row 1 three times.
    expect(plain(tensors['gradients']!)).toEqual({ e: [6, 8, 18, 24, 12, 16], b: [-14, -16] })
    await expect(step(2, 0, 2, 1, 3, 1)).rejects.toMatchObject({
      code: 'EMULATE_ID',
      message: expect.stringMatching(/^rank 0, instruction 4 \(run B .*\): adds to row 3 of 3 in g$/),
    })
  })

  it('counts squares only where the rank is the owner', async () => {
    const role = makeRole(0, {
      buffers: [
        { name: 'x', shape: [] },
        { name: 'owner', shape: [], constant: { isZero: ['data'] } },
        { name: 'squares', shape: [] },
      ],
      values: ['x', 'owner', 'squares'],
      code: (v) => [
        moveIn('x', v('x')),
        run(0, [v('x'), v('owner')], [v('squares')]),
        run(0, [v('x'), v('owner')], [v('squares')], 'add'),
        allReduce(1, v('squares')),
        moveOut('norm', v('squares')),
      ],
    })
    const program = makeProgram({
      submeshes: [[{ name: 'data', size: 3 }]],
      roles: [role],
      tasks: [{ kind: 'kernel', name: 'sumSquares', hash: 'sumSquares', kernel: 'sumSquares' }],
      groups: [{ name: 'data', axes: ['data'] }],
    })
    const { scalars } = await createEmulator(program).step({ tensors: {}, scalars: { x: 3 } })
    expect(scalars).toEqual({ norm: 18 })
  })

  it('names the task that yields what is not a number', async () => {
    const graph = makeGraph({ x: scalar }, (builder, { x }) => ({ y: builder.one('log', [x!], {}) }))
    const role = makeRole(0, {
      buffers: [
        { name: 'x', shape: [] },
        { name: 'y', shape: [] },
      ],
      values: ['x', 'y'],
      code: (v) => [moveIn('x', v('x')), run(0, [v('x')], [v('y')])],
    })
    const engine = createEmulator(
      makeProgram({ submeshes: oneRank, roles: [role], tasks: [makeTask('F0', graph)] }),
    )
    await expect(engine.step({ tensors: {}, scalars: { x: -1 } })).rejects.toMatchObject({
      code: 'EMULATE_NON_FINITE',
      exitCode: 5,
      message: 'rank 0, instruction 1 (run F0 x -> y): yields NaN in y, element 0',
    })
  })
})
