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
import type { Instruction } from '../../program/index.ts'
import { createEmulator } from './index.ts'

const identity = makeTask(
  'copy',
  makeGraph({ x: vectorType(2) }, (builder, { x }) => ({ y: builder.one('neg', [x!], {}) })),
)
const single = makeTask(
  'small',
  makeGraph({ x: vectorType() }, (builder, { x }) => ({ y: builder.one('neg', [x!], {}) })),
)

type Value = (name: string) => number

/** Runs one rank over a state `s` [2], values `x`, `y` in one slot and `z`, and a scalar from a port. */
function oneRank(code: (value: Value) => Instruction[]): Promise<unknown> {
  const role = makeRole(0, {
    buffers: [
      { name: 's', shape: [2], state: true },
      { name: 'b', shape: [2] },
      { name: 'z', shape: [2] },
      { name: 'one', shape: [], constant: { isZero: ['data'] } },
      { name: 'scalar', shape: [] },
    ],
    values: ['s[t]', 's[t+1]', 'b[0]', 'b[1]', 'z', 'one', 'scalar', 'z@1'],
    regions: [
      { start: 0, end: 1 },
      { start: 1, end: 3 },
      { start: 1, end: 1 },
    ],
    code,
  })
  const engine = createEmulator(
    makeProgram({ submeshes: [[{ name: 'data', size: 1 }]], roles: [role], tasks: [identity, single] }),
  )
  return engine
    .writeState(new Map([['s', { dtype: 'f64', shape: [2], data: Float64Array.from([1, 2]) }]]))
    .then(() => engine.step({ tensors: {}, scalars: { scalar: 1 } }))
}

/** Runs two stages of one rank each, with a state `s` [2] and a value `x` on both. */
function twoRanks(
  first: (value: Value) => Instruction[],
  second: (value: Value) => Instruction[],
  channelSlots = 2,
): Promise<unknown> {
  const role = (pipeline: number, code: (value: Value) => Instruction[]): ReturnType<typeof makeRole> =>
    makeRole(pipeline, {
      buffers: [
        { name: `s${pipeline}`, shape: [2], state: true },
        { name: 'x', shape: [2] },
        { name: 'scalar', shape: [] },
      ],
      values: [`s${pipeline}[t]`, 'x', 'scalar'],
      regions: [{ start: 0, end: 1 }],
      peers: [pipelinePeer(pipeline === 0 ? 1 : -1), pipelinePeer(5)],
      code: (v) => code((name) => v(name === 's' ? `s${pipeline}[t]` : name)),
    })
  const engine = createEmulator(
    makeProgram({
      submeshes: [[], []],
      roles: [role(0, first), role(1, second)],
      tasks: [identity],
      groups: [{ name: 'all', axes: ['pipeline'] }],
      channelSlots,
    }),
  )
  const tensor = { dtype: 'f64', shape: [2], data: Float64Array.from([1, 2]) } as const
  return engine
    .writeState(
      new Map([
        ['s0', tensor],
        ['s1', tensor],
      ]),
    )
    .then(() => engine.step({ tensors: {}, scalars: { scalar: 1 } }))
}

async function refusal(step: Promise<unknown>): Promise<string> {
  const error = await step.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toMatchObject({ name: 'MeshwrightError', exitCode: 5 })
  const { code, message } = error as { code: string; message: string }
  return `${code}: ${message}`
}

/** An all-gather of `source`, or of its region, to `result`. */
function gather(collective: number, source: number, result: number, region?: number): Instruction {
  return {
    kind: 'collective',
    stream: 3,
    collective,
    operation: 'allGather',
    group: 0,
    parts: [
      {
        source: { value: source, ...(region === undefined ? {} : { region }) },
        result: { value: result, mode: 'set' },
      },
    ],
  }
}

const keep = (v: Value): Instruction => run(0, [v('s[t]')], [v('s[t+1]')])

describe('rules about values', () => {
  it.each<[string, (v: Value) => Instruction[], string]>([
    [
      'a read of what was never written',
      (v) => [run(0, [v('z')], [v('b[0]')])],
      'EMULATE_UNWRITTEN: rank 0, instruction 0 (run copy z -> b[0]): reads z, element 0 of which was never written',
    ],
    [
      'a sum onto what was never written',
      (v) => [run(0, [v('s[t]')], [v('z')], 'add')],
      'EMULATE_UNWRITTEN: rank 0, instruction 0 (run copy s[t] -> z +=): adds to z, element 0 of which was never written',
    ],
    [
      'a read of what was freed',
      (v) => [run(0, [v('s[t]')], [v('z')]), free(v('z')), run(0, [v('z')], [v('b[0]')])],
      'EMULATE_FREED: rank 0, instruction 2 (run copy z -> b[0]): reads z after it was freed',
    ],
    [
      'a write to what was freed',
      (v) => [run(0, [v('s[t]')], [v('z')]), free(v('z')), run(0, [v('s[t]')], [v('z')])],
      'EMULATE_FREED: rank 0, instruction 2 (run copy s[t] -> z): writes z after it was freed',
    ],
    [
      'a value freed twice',
      (v) => [run(0, [v('s[t]')], [v('z')]), free(v('z')), free(v('z'))],
      'EMULATE_FREED: rank 0, instruction 2 (free z): frees z twice',
    ],
    [
      'a value freed before it was written',
      (v) => [free(v('z'))],
      'EMULATE_UNWRITTEN: rank 0, instruction 0 (free z): frees z, which was never written',
    ],
    [
      'a write over a live slot',
      (v) => [run(0, [v('s[t]')], [v('b[0]')]), run(0, [v('s[t]')], [v('b[1]')])],
      'EMULATE_LIVE_SLOT: rank 0, instruction 1 (run copy s[t] -> b[1]): writes b[1] over b[0], which is not freed',
    ],
    [
      'a read of the old state after the new is written in its place',
      (v) => [keep(v), run(0, [v('s[t]')], [v('z')])],
      'EMULATE_UNWRITTEN: rank 0, instruction 1 (run copy s[t] -> z): reads s[t], over which s[t+1] was written',
    ],
    [
      'a state that is written only in part',
      (v) => [
        {
          ...keep(v),
          task: 1,
          reads: [{ value: v('s[t]'), region: 0 }],
          writes: [{ value: v('s[t+1]'), region: 0, mode: 'set' }],
        } as Instruction,
      ],
      'EMULATE_UNWRITTEN: rank 0, the end of the step: leaves s[t+1], over which s[t] was written',
    ],
    [
      'a write to a constant',
      (v) => [run(1, [v('one')], [v('one')])],
      'EMULATE_CONSTANT: rank 0, instruction 0 (run small one -> one): writes one, which is constant',
    ],
    [
      'a region beyond its buffer',
      (v) => [run(0, [[v('s[t]'), 1]], [v('z')])],
      'EMULATE_REGION: rank 0, instruction 0 (run copy s[t]{1:3} -> z): names rows 1 to 3 of s, which has 2',
    ],
    [
      'an empty region',
      (v) => [run(0, [[v('s[t]'), 2]], [v('z')])],
      'EMULATE_REGION: rank 0, instruction 0 (run copy s[t]{1:1} -> z): names rows 1 to 1 of s, which has 2',
    ],
    [
      'an operand of another size',
      (v) => [run(0, [[v('s[t]'), 0]], [v('z')])],
      'EMULATE_REGION: rank 0, instruction 0 (run copy s[t]{0:1} -> z): binds 2 elements of x to 1 of s',
    ],
    [
      'a slot that the buffer does not have',
      () => [run(0, [0], [7])],
      'EMULATE_SLOT: rank 0, instruction 0 (run copy s[t] -> z): z lives in slot 1 of 1',
    ],
    [
      'a task given too little',
      (v) => [run(0, [], [v('z')])],
      'EMULATE_TASK: rank 0, instruction 0 (run copy -> z): gives copy 0 reads and 1 writes, it has 1 and 1',
    ],
    [
      'a scalar given twice',
      (v) => [moveIn('scalar', v('scalar')), moveOut('loss', v('scalar')), moveOut('loss', v('one'))],
      'EMULATE_PORT: rank 0, instruction 2 (move out one -> loss): gives loss, which was given already',
    ],
  ])('%s is refused', async (_name, code, message) => {
    expect(await refusal(oneRank(code))).toBe(message)
  })

  it('loses the state with a failed step', async () => {
    await expect(oneRank((v) => [keep(v)])).resolves.toBeDefined()
    const role = makeRole(0, {
      buffers: [{ name: 's', shape: [2], state: true }],
      values: ['s[t]', 's[t+1]'],
      code: (v) => [keep(v), run(0, [v('s[t]')], [v('s[t+1]')])],
    })
    const engine = createEmulator(makeProgram({ submeshes: [[]], roles: [role], tasks: [identity] }))
    const state = new Map([['s', { dtype: 'f64', shape: [2], data: new Float64Array(2) } as const]])
    await engine.writeState(state)
    await refusal(engine.step({ tensors: {}, scalars: {} }))
    expect(await refusal(engine.readState())).toMatch(/^ENGINE_STATE_MISSING: .*a step failed/)
    await engine.writeState(state)
    expect([...(await engine.readState()).keys()]).toEqual(['s'])
  })
})

describe('rules about communication', () => {
  const sendState =
    (id: number, region?: number) =>
    (v: Value): Instruction[] => [exchange(send(id, v('s'), 0, region))]
  const receive =
    (id: number, region?: number) =>
    (v: Value): Instruction[] => [exchange(recv(id, v('x'), 0, region))]

  it.each<[string, (v: Value) => Instruction[], (v: Value) => Instruction[], string]>([
    [
      'another transfer than expected',
      sendState(1),
      receive(2),
      'EMULATE_TRANSFER_MISMATCH: rank 1, instruction 0 (recv #2 x from pipeline-1): expects transfer #2 from rank 0, which sends #1 first',
    ],
    [
      'a transfer of another size',
      sendState(1, 0),
      receive(1),
      'EMULATE_TRANSFER_SIZE: rank 1, instruction 0 (recv #1 x from pipeline-1): expects 2 elements in x, rank 0 sends 1',
    ],
    [
      'a message that nobody takes',
      sendState(1),
      () => [],
      'EMULATE_UNRECEIVED: transfer #1 from rank 0 to rank 1 was never received',
    ],
    [
      'a peer that does not exist',
      (v) => [exchange(send(1, v('s'), 1))],
      () => [],
      'EMULATE_PEER: rank 0, instruction 0 (send #1 s0[t] to pipeline+5): transfer #1 is with a rank that does not exist',
    ],
    [
      'a send of what was never written',
      (v) => [exchange(send(1, v('x')))],
      receive(1),
      'EMULATE_UNWRITTEN: rank 0, instruction 0 (send #1 x to pipeline+1): sends x, element 0 of which was never written',
    ],
    [
      'members of a collective that disagree',
      (v) => [allReduce(3, v('s'))],
      (v) => [allReduce(3, v('s'), { reduce: 'max' })],
      'EMULATE_COLLECTIVE_MISMATCH: rank 1, instruction 0 (all-reduce #3 max s1[t] over all): joins collective #3 with allReduce max of 2 elements, rank 0 with allReduce sum of 2 elements',
    ],
    [
      'a result of another size',
      (v) => [gather(3, v('s'), v('x'))],
      (v) => [gather(3, v('s'), v('x'))],
      'EMULATE_COLLECTIVE_SIZE: rank 0, instruction 0 (all-gather #3 s0[t] -> x over all): collective #3 makes 4 elements out of 2, its result has 2',
    ],
    [
      'a result over a source',
      (v) => [gather(3, v('s'), v('s'), 0)],
      (v) => [gather(3, v('s'), v('s'), 0)],
      'EMULATE_COLLECTIVE_OVERLAP: rank 0, instruction 0 (all-gather #3 s0[t]{0:1} -> s0[t] over all): writes s0[t] over another operand of the collective',
    ],
    [
      'a collective of what was never written',
      (v) => [gather(3, v('x'), v('s'))],
      () => [],
      'EMULATE_UNWRITTEN: rank 0, instruction 0 (all-gather #3 x -> s0[t] over all): sends x, element 0 of which was never written',
    ],
  ])('%s is refused', async (_name, first, second, message) => {
    expect(await refusal(twoRanks(first, second))).toBe(message)
  })

  it('names what each rank waits for when none can go on', async () => {
    const crossed = await refusal(
      twoRanks(
        (v) => [exchange(recv(1, v('x'))), run(0, [v('x')], [v('x')]), exchange(send(2, v('x')))],
        (v) => [exchange(recv(2, v('x'))), run(0, [v('x')], [v('x')]), exchange(send(1, v('x')))],
      ),
    )
    expect(crossed.split('\n')).toEqual([
      'EMULATE_DEADLOCK: no rank can go on:',
      '  rank 0 at instruction 1 (run copy x -> x): waits to receive transfer #1 from rank 1 on stream forward',
      '  rank 1 at instruction 1 (run copy x -> x): waits to receive transfer #2 from rank 0 on stream forward',
    ])
    const collectives = await refusal(
      twoRanks(
        (v) => [allReduce(1, v('s')), allReduce(2, v('s'))],
        (v) => [allReduce(2, v('s')), allReduce(1, v('s'))],
      ),
    )
    expect(collectives.split('\n').slice(1)).toEqual([
      '  rank 0 at instruction 0 (all-reduce #1 sum s0[t] over all): waits for rank 1',
      '  rank 1 at instruction 0 (all-reduce #2 sum s1[t] over all): waits for rank 0',
    ])
    const alone = await refusal(twoRanks(() => [], receive(1)))
    expect(alone.split('\n').slice(1)).toEqual([
      '  rank 0 has finished',
      '  rank 1 at the end of its list: waits to receive transfer #1 from rank 0 on stream forward',
    ])
  })

  it('lets no more messages be under way than a channel has slots', async () => {
    // The sends need three slots, as the receiver takes nothing before the collective behind them.
    const sender = (v: Value): Instruction[] => [
      ...[1, 2, 3].map((id) => exchange(send(id, v('s')))),
      allReduce(9, v('s')),
    ]
    const receiver = (v: Value): Instruction[] => [
      allReduce(9, v('s')),
      ...[1, 2, 3].flatMap((id) => [exchange(recv(id, v('x'))), run(0, [v('x')], [v('x')])]),
    ]
    await expect(twoRanks(sender, receiver, 3)).resolves.toBeDefined()
    const full = await refusal(twoRanks(sender, receiver, 2))
    expect(full.split('\n').slice(1)).toEqual([
      '  rank 0 at instruction 3 (all-reduce #9 sum s0[t] over all): waits to send transfer #3 to rank 1 on stream forward',
      '  rank 1 at instruction 0 (all-reduce #9 sum s1[t] over all): waits for rank 0',
    ])
  })
})
