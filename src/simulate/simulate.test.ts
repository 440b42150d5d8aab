import { describe, expect, it } from 'vitest'
import { type Program, parseProgram } from '../program/index.ts'
import { simulateProgram, simulationDocument, simulationTrace, transferSlack } from './index.ts'
import type { CostModel, CriticalStep } from './types.ts'

/** Every run takes the time of its action's micro-batch, every collective 5, every byte sent a unit, after a latency of 3. */
const costs: CostModel = {
  name: 'by hand',
  run: ({ action }) => action?.microbatch ?? 0,
  transfer: (bytes) => ({ busy: bytes, latency: 3, receive: 0 }),
  collective: () => 5,
  move: () => 0,
}

/** Runs are written `run 4 a -> b`: in 4 units. Tensors are of 4 bytes. */
function program(
  roles: readonly (readonly string[])[],
  buffers: readonly string[],
  channelSlots = 2,
): Program {
  const text = [
    'program 1',
    `work infer: ${roles.length} stages, 1 microbatches`,
    `channel slots ${channelSlots}`,
    `mesh pipeline=0..${roles.length - 1}: data=1`,
    'stream compute: compute',
    'stream second: compute',
    'stream one: network',
    'stream two: network',
    'group both: pipeline',
    'task norm: kernel sumSquares',
    ...roles.flatMap((lines, pipeline) => [
      `role pipeline=${pipeline}`,
      ...buffers.map((name) => `  buffer ${name}: i32[1]`),
      ...lines.map(
        (line) => `  ${line.replace(/run (\d+) (.*)/, `run norm $2 for F stage ${pipeline} m$1`)}`,
      ),
    ]),
  ]
  return parseProgram(text.join('\n'))
}

const kinds = (path: readonly CriticalStep[]): unknown[] =>
  path.map(({ rank, kind, seconds, reason }) => [rank, kind, seconds, reason])

describe('two ranks by hand', () => {
  // Rank 0: b from 0 to 2, sent from 2 to 6 (4 bytes), there at 9; rank 1: its first run 0 to 1, the one on b 9 to 13; both
  // then meet: rank 0 at 2, rank 1 at 13, to 18; then one more run on each.
  const hand = program(
    [
      [
        'compute run 2 a -> b',
        'one send #1 b to pipeline+1',
        'two all-reduce #9 sum a over both',
        'compute run 3 a -> b',
      ],
      [
        'compute run 1 a -> a',
        'one recv #1 b from pipeline-1',
        'compute run 4 b -> a',
        'two all-reduce #9 sum a over both',
        'compute run 2 a -> b',
      ],
    ],
    ['a', 'b'],
  )
  const result = simulateProgram(hand, costs)

  it('wait for messages and for the last member', () => {
    const events = simulationTrace(result).events.map(({ rank, name, start, end, wait }) => ({
      at: `${rank} ${name}`,
      span: [start, end],
      wait,
    }))
    const find = (at: string): unknown => events.find((event) => event.at === at)
    expect(find('0 send b')).toMatchObject({ span: [2, 6] })
    expect(find('1 recv b')).toMatchObject({ span: [0, 9], wait: 2 })
    expect(find('0 all-reduce sum a')).toMatchObject({ span: [2, 18], wait: 11 })
    expect(find('1 all-reduce sum a')).toMatchObject({ span: [13, 18] })
    expect(result.stepSeconds).toBe(21)
  })

  it('split their idle time', () => {
    expect(result.ranks.map(({ busySeconds, idle }) => [busySeconds, idle])).toEqual([
      [5, { warmup: 0, drain: 0, transfer: 0, collective: 16, other: 0, total: 16 }],
      [7, { warmup: 0, drain: 1, transfer: 8, collective: 5, other: 0, total: 14 }],
    ])
    expect(result.idleFraction).toBeCloseTo(30 / 42, 12)
  })

  it('have one way from end to start', () => {
    expect(kinds(result.criticalPath)).toEqual([
      [0, 'compute', 2, 'start'],
      [0, 'transfer', 7, 'data'],
      [1, 'compute', 4, 'data'],
      [1, 'collective', 5, 'collective'],
      [0, 'compute', 3, 'data'],
    ])
    expect(transferSlack(result)).toMatchObject([
      { from: 0, to: 1, transfer: 1, arrival: 9, local: 0, total: 0 },
    ])
  })

  it('put on the wire what a ring does', () => {
    expect(result.bytes).toEqual({ p2p: 4, allReduce: 2 * 4, allGather: 0, reduceScatter: 0, other: 0 })
    expect(result.calls).toMatchObject({ p2p: 1, allReduce: 2 })
  })

  it('make a document', () => {
    expect(JSON.parse(JSON.stringify(simulationDocument(result)))).toMatchObject({
      stepSeconds: 21,
      ranks: [{ idleSeconds: 16, idle: { collective: 16 } }, { idleSeconds: 14 }],
      bytes: { p2p: 4, allReduce: 8, allGather: 0, reduceScatter: 0 },
      criticalPath: { steps: 5, seconds: { compute: 9, transfer: 7, collective: 5 } },
    })
  })
})

describe('channels', () => {
  // The receiver takes both messages only when it has run for 20.
  const roles = [
    ['one send #1 a to pipeline+1', 'one send #2 a to pipeline+1', 'compute run 1 a -> a'],
    ['compute run 20 a -> b', 'one recv #1 b from pipeline-1', 'one recv #2 c from pipeline-1'],
  ]

  it('hold as many messages as they have places', () => {
    const run = (slots: number): unknown => {
      const { times } = simulateProgram(program(roles, ['a', 'b', 'c'], slots), costs)
      return [[...times.sendStart], [...times.received]]
    }
    expect(run(2)).toEqual([
      [0, 4],
      [20, 20],
    ])
    expect(run(1)).toEqual([
      [0, 20],
      [20, 27],
    ])
  })
})

describe('streams of one resource', () => {
  const shared = program(
    [
      [
        'compute run 4 a -> a',
        'second run 3 b -> b',
        'one send #1 c to pipeline+1',
        'two send #2 d to pipeline+1',
      ],
      ['one recv #1 c from pipeline-1', 'two recv #2 d from pipeline-1', 'compute run 1 d -> a'],
    ],
    ['a', 'b', 'c', 'd'],
  )

  it('go side by side on a cluster', () => {
    const result = simulateProgram(shared, costs)
    expect(result.stepSeconds).toBe(8)
    expect(result.ranks[0]).toMatchObject({ busySeconds: 4 })
  })

  it('take turns where they share it', () => {
    const result = simulateProgram(shared, costs, { engine: 'turns' })
    // The second message leaves at 4, and is there at 11.
    expect([...result.times.sendStart]).toEqual([0, 4])
    expect(result.stepSeconds).toBe(12)
    expect(result.ranks[0]).toMatchObject({ busySeconds: 7 })
    expect(kinds(result.criticalPath)).toEqual([
      [0, 'transfer', 4, 'start'],
      [0, 'transfer', 7, 'resource'],
      [1, 'compute', 1, 'data'],
    ])
  })
})

describe('the local engine', () => {
  const copies: CostModel = { ...costs, transfer: () => ({ busy: 2, latency: 0, receive: 1 }), wake: 0.5 }

  it('copies between instructions, on the thread that also runs', () => {
    const result = simulateProgram(
      program(
        [
          ['compute run 3 a -> b', 'one send #1 b to pipeline+1', 'compute run 4 a -> a'],
          ['one recv #1 b from pipeline-1', 'compute run 10 a -> a', 'compute run 1 b -> a'],
        ],
        ['a', 'b'],
      ),
      copies,
      { engine: 'local' },
    )
    // Rank 0 runs to 3, copies to 5, runs to 9. Rank 1 runs to 10, copies to 11, runs to 12.
    expect(result.times.end.slice()).toEqual(Float64Array.of(3, 5, 9, 11, 10, 12))
    expect(result.stepSeconds).toBe(12)
    expect(result.ranks.map(({ busySeconds, idle }) => [busySeconds, idle.transfer, idle.drain])).toEqual([
      [7, 2, 3],
      [11, 1, 0],
    ])
    // The receiver could take it 5 later, but the sender's thread has 4 more to do and 12 - 9 left.
    expect(transferSlack(result)).toMatchObject([{ arrival: 5, local: 5, total: 3 }])
    expect(kinds(result.criticalPath)).toEqual([
      [1, 'compute', 10, 'start'],
      [1, 'transfer', 1, 'order'],
      [1, 'compute', 1, 'order'],
    ])
  })

  it('sleeps until a message comes, and is woken', () => {
    const result = simulateProgram(
      program(
        [
          ['compute run 3 a -> b', 'one send #1 b to pipeline+1', 'two all-reduce #2 sum a over both'],
          ['one recv #1 b from pipeline-1', 'compute run 1 b -> a', 'two all-reduce #2 sum a over both'],
        ],
        ['a', 'b'],
      ),
      copies,
      { engine: 'local' },
    )
    // There at 5, woken at 5.5, copied at 6.5, run to 7.5; rank 0 sleeps and is woken at 8, then both go on to 13.
    expect(result.stepSeconds).toBe(13)
    expect(kinds(result.criticalPath)).toEqual([
      [0, 'compute', 3, 'start'],
      [0, 'transfer', 2, 'order'],
      [1, 'transfer', 1.5, 'data'],
      [1, 'compute', 1, 'order'],
      [expect.any(Number), 'collective', 5.5, expect.any(String)],
    ])
  })
})

describe('programs that cannot go on', () => {
  const stuck = program(
    [
      ['one recv #1 b from pipeline+1', 'compute run 1 b -> a', 'two send #2 a to pipeline+1'],
      ['two recv #2 b from pipeline-1', 'compute run 1 b -> a', 'one send #1 a to pipeline-1'],
    ],
    ['a', 'b'],
  )

  it.each(['independent', 'turns', 'local'] as const)('are errors that name who waits, %s', (engine) => {
    expect(() => simulateProgram(stuck, costs, { engine })).toThrow(
      expect.objectContaining({
        code: 'SIMULATE_DEADLOCK',
        message: expect.stringMatching(
          /rank 0 at instruction 1 \(run norm b -> a\) waits for instruction 0 .*rank 1 to send #1\n.*rank 1 at instruction 1 .*rank 0 to send #2/,
        ),
      }),
    )
  })

  it('say who does not come to a collective', () => {
    const apart = program(
      [
        ['two all-reduce #1 sum a over both', 'one send #3 a to pipeline+1'],
        ['one recv #3 b from pipeline-1', 'compute run 1 b -> a', 'two all-reduce #1 sum a over both'],
      ],
      ['a', 'b'],
    )
    expect(() => simulateProgram(apart, costs, { engine: 'turns' })).toThrow(
      /rank 0 at instruction 0 .* waits for rank 1 to come\n.*rank 1 at instruction 1 .* rank 0 to send #3/,
    )
    const never = program(
      [['two all-reduce #1 sum a over both'], ['one all-reduce #2 sum a over both']],
      ['a', 'b'],
    )
    expect(() => simulateProgram(never, costs)).toThrow(/rank 0 .* waits for rank 1 to come/)
  })

  it('are refused where ends do not match', () => {
    const refused = (roles: string[][], code: string): void =>
      expect(() => simulateProgram(program(roles, ['a', 'b']), costs)).toThrow(
        expect.objectContaining({ code }),
      )
    refused([['one send #1 a to pipeline+1'], []], 'SIMULATE_TRANSFER')
    refused([['one send #1 a to pipeline+1'], ['one recv #2 a from pipeline-1']], 'SIMULATE_TRANSFER')
    refused([['one send #1 a to pipeline+7'], []], 'SIMULATE_TRANSFER')
  })
})
