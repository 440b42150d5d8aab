import { describe, expect, it } from 'vitest'
import { type Program, parseProgram } from '../program/index.ts'
import {
  type CostModel,
  measuredCosts,
  phaseCosts,
  simulateProgram,
  simulationTrace,
  unitCosts,
} from './index.ts'

/** A product of 2 x 3 by 3 x `columns` takes 12 operations a column; a reshape takes none. */
const task = (name: string, columns: number): string => `task ${name}: graph
  read x
  read w
  write y
  graph 1
  input x activation %0: f64[2, 3]
  input w parameter %1: f64[3, ${columns}]
  %2: f64[2, ${columns}] = matmul(%0, %1) transposeA=false transposeB=false scale=1
  output y %2
`
const reshape = `task flat: graph
  read x
  write y
  graph 1
  input x activation %0: f64[2, 3]
  %1: f64[6] = reshape(%0) shape=[6]
  output y %1
`

interface Options {
  readonly mesh?: string
  readonly groups?: string
  readonly microbatches?: number
}

function program(lines: readonly string[], { mesh, groups, microbatches = 1 }: Options = {}): Program {
  return parseProgram(`program 1
work gradient: 1 stages, ${microbatches} microbatches
channel slots 1
mesh pipeline=0: ${mesh ?? 'data=1, tensor=2'}
stream compute: compute
stream reduce: network
${groups ?? 'group tensor: tensor'}
${task('narrow', 1)}
${task('wide', 3)}
${reshape}
task norm: kernel sumSquares
role pipeline=0
  buffer x: f64[2, 3]
  buffer w: f64[3, 1]
  buffer v: f64[3, 3]
  buffer y: f64[2, 1]
  buffer z: f64[2, 3]
  buffer flat: f64[6]
  buffer one: f64[]
${lines.map((line) => `  ${line}\n`).join('')}`)
}

/** `[name, start, end]` of what rank 0 does, in its order. */
const events = (what: Program, costs: CostModel): unknown[] =>
  simulationTrace(simulateProgram(what, costs))
    .events.filter(({ rank }) => rank === 0)
    .sort((a, b) => a.instruction! - b.instruction!)
    .map(({ name, start, end }) => [name, start, end])

const seconds = (what: Program, costs: CostModel): number[] =>
  events(what, costs).map((event) => {
    const [, start, end] = event as [string, number, number]
    return end - start
  })

const link = {
  transfer: { latency: 0, bytesPerSecond: 1 },
  collective: { latency: 5, bytesPerSecond: 2 },
}

describe('an action in pieces between communication', () => {
  const pieces = program([
    'compute run narrow x w -> y for F stage 0 m0',
    'reduce all-reduce #1 sum x over tensor',
    'compute run wide x v -> z for F stage 0 m0',
    'compute run flat z -> flat for F stage 0 m0',
    'compute run norm x one -> one',
  ])

  it('takes the time of the action in all, each piece by its operations', () => {
    const result = simulateProgram(pieces, phaseCosts({ F: 8, I: 1, W: 1, link }, 1))
    // 12 operations and 36: 2 and 6 of the 8 seconds. Two ranks pass on 48 bytes each, at 2 a second after 5.
    expect(events(pieces, phaseCosts({ F: 8, I: 1, W: 1, link }, 1))).toEqual([
      ['narrow', 0, 2],
      ['all-reduce sum x', 2, 31],
      ['wide', 31, 37],
      ['flat', 37, 37],
      ['norm', 37, 37],
    ])
    expect(result.ranks[0]).toMatchObject({ busySeconds: 8, idle: { collective: 29, total: 29 } })
    expect(events(pieces, unitCosts())).toEqual([
      ['narrow', 0, 0.25],
      ['all-reduce sum x', 0.25, 0.25],
      ['wide', 0.25, 1],
      ['flat', 1, 1],
      ['norm', 1, 1],
    ])
  })

  it('takes what each piece was measured to take', () => {
    const hash = (name: string): string => pieces.tasks.find((one) => one.name === name)!.hash
    const costs = measuredCosts({
      meshwrightCosts: 1,
      machine: { name: 'here', cores: 1, software: {} },
      tasks: Object.fromEntries(
        ['narrow', 'wide', 'flat', 'norm'].map((name, index) => [
          hash(name),
          { seconds: 10 ** index, secondsPerByte: 0 },
        ]),
      ),
      transfer: {
        send: { seconds: 0, secondsPerByte: 0 },
        receive: { seconds: 0, secondsPerByte: 0 },
      },
      wake: 0,
      collectives: { allReduce: [{ members: 2, seconds: 7, secondsPerByte: 0 }] },
      moves: { in: { seconds: 0, secondsPerByte: 0 }, out: { seconds: 0, secondsPerByte: 0 } },
    })
    expect(seconds(pieces, costs)).toEqual([1, 7, 10, 100, 1000])
  })

  it('shares alike where no piece has operations', () => {
    const moved = program([
      'compute run flat x -> flat for F stage 0 m0',
      'reduce all-reduce #1 sum flat over tensor',
      'compute run flat x -> flat for F stage 0 m0',
      'compute run norm x one -> one for F stage 0 m0',
      'compute run flat x -> flat for F stage 0 m0',
    ])
    expect(seconds(moved, unitCosts())).toEqual([0.25, 0, 0.25, 0.25, 0.25])
  })

  it('is one action by phase, stage, micro-batch and slice', () => {
    const apart = program(
      [
        'compute run narrow x w -> y for F stage 0 m0',
        'compute run narrow x w -> y for F stage 0 m1',
        'compute run narrow x w -> y for F stage 0 m1 slice 1',
        'compute run narrow x w -> y for B stage 0 m1',
        'compute run wide x v -> z for F stage 0 m1',
      ],
      { microbatches: 2 },
    )
    const costs = phaseCosts({ F: 8, I: 1, W: 2 }, 1)
    expect(seconds(apart, costs)).toEqual([8, 2, 8, 3, 6])
  })

  it('is an update in parts as well, whatever micro-batch they name', () => {
    const update = program(
      ['compute run wide x v -> z for U stage 0 m0', 'compute run narrow x w -> y for U stage 0 m1'],
      { microbatches: 2 },
    )
    expect(seconds(update, unitCosts())).toEqual([0.75, 0.25])
    expect(seconds(update, phaseCosts({ F: 1, I: 1, W: 1, U: 4 }, 1))).toEqual([3, 1])
  })

  it('holds activations until its last piece is done', () => {
    const held = (second: string): number => {
      const lines = [
        'compute run narrow x w -> y for F stage 0 m0',
        'compute run wide x v -> z for B stage 0 m0',
        'compute run narrow x w -> y for F stage 0 m1',
        `compute run wide x v -> z for B stage 0 ${second}`,
      ]
      return simulateProgram(program(lines, { microbatches: 2 }), unitCosts()).ranks[0]!.peakActivations
    }
    expect(held('m1')).toBe(1)
    expect(held('m0')).toBe(2)
  })
})

describe('collectives over model axes', () => {
  const options: Options = {
    mesh: 'data=2, context=3, tensor.row=2, tensor.column=4',
    groups: `group row: tensor.row
group cube: context, tensor.row, tensor.column`,
  }
  const moving = program(
    [
      'reduce permute #1 x over row shift 1',
      'reduce all-to-all #2 flat over row',
      'reduce broadcast #3 v over cube root 2',
      'reduce reduce #4 sum v over cube root 0',
      'reduce all-reduce #5 max v over cube',
    ],
    options,
  )

  it('take what a ring of their group takes', () => {
    const costs = phaseCosts({ F: 1, I: 1, W: 1, link }, 1)
    // A ring of n passes on (n - 1) / n of the bytes, twice for an all-reduce; a permutation all of them.
    const ring = (bytes: number, members: number): number => (bytes * (members - 1)) / members
    const wires = [48, ring(48, 2), ring(72, 24), ring(72, 24), 2 * ring(72, 24)]
    seconds(moving, costs).forEach((time, index) => {
      expect(time).toBeCloseTo(5 + wires[index]! / 2, 12)
    })
    const { bytes, calls } = simulateProgram(moving, costs)
    const ranks = 2 * 3 * 2 * 4
    expect(bytes.other).toBeCloseTo(ranks * (48 + 24 + 2 * 69), 9)
    expect(bytes).toMatchObject({ p2p: 0, allReduce: ranks * 2 * 69, allGather: 0, reduceScatter: 0 })
    expect(calls).toEqual({ p2p: 0, allReduce: ranks, allGather: 0, reduceScatter: 0, other: 4 * ranks })
  })

  it('take the links that their members have', () => {
    const far = { transfer: link.transfer, collective: { latency: 100, bytesPerSecond: 1 } }
    // Eight ranks a node: a whole plane of rows and columns; the cube spans three.
    const costs = phaseCosts({ F: 1, I: 1, W: 1, link: { ...link, domain: 8, between: far } }, 1)
    expect(seconds(moving, costs).map((time) => time >= 100)).toEqual([false, false, true, true, true])
  })

  it('are the same where one rank stands for its copies', () => {
    const costs = phaseCosts({ F: 1, I: 1, W: 1, link }, 1)
    const [full, some] = [1000, 1].map((ranksInFull) => simulateProgram(moving, costs, { ranksInFull }))
    expect(some!.ranks.length).toBeLessThan(full!.ranks.length)
    expect(some!.stepSeconds).toBe(full!.stepSeconds)
    expect(some!.bytes).toEqual(full!.bytes)
  })
})
