import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { KernelTask, Task } from '../program/index.ts'
import { type CostModel, measuredCosts, phaseCosts, readMeasuredTable, unitCosts } from './index.ts'

const task: Task = { kind: 'kernel', name: 'norm', hash: 'abc', kernel: 'sumSquares' } satisfies KernelTask
const timeOf = (costs: CostModel, phase: string, stage = 0, share = 1): number =>
  costs.run({ task, action: { phase, stage, microbatch: 0 }, share, readBytes: 0 })

const refusal = (act: () => unknown, path: string): void =>
  expect(act).toThrow(expect.objectContaining({ code: 'SIMULATE_COSTS', at: { path } }))

describe('unit costs', () => {
  it('are the latencies of phases, a fused one the sum, by share', () => {
    const costs = unitCosts()
    expect(['F', 'B', 'I', 'W', 'FB', 'U'].map((phase) => timeOf(costs, phase))).toEqual([1, 2, 1, 1, 3, 1])
    expect(timeOf(costs, 'B', 0, 0.25)).toBe(0.5)
  })
})

describe('phase costs', () => {
  it('take a whole backward as I + W, a fused one as F + B unless given', () => {
    const costs = phaseCosts({ F: [1, 2], I: 3, W: 4 }, 2)
    expect(['F', 'B', 'I', 'W', 'FB', 'R', 'U'].map((phase) => timeOf(costs, phase, 1))).toEqual([
      2, 7, 3, 4, 9, 2, 0,
    ])
    const given = phaseCosts({ F: 1, I: 3, W: 4, FB: 5, R: 6, U: [7, 8] }, 2)
    expect(['FB', 'R', 'U', 'RB'].map((phase) => timeOf(given, phase, 1))).toEqual([5, 6, 8, 13])
    expect(timeOf(given, 'U', 0, 0.5)).toBe(3.5)
  })

  it('add latency and the wire of a ring to the hop', () => {
    const costs = phaseCosts(
      {
        F: 1,
        I: 1,
        W: 1,
        hop: 10,
        link: {
          transfer: { latency: 1, bytesPerSecond: 4 },
          collective: { latency: 2, bytesPerSecond: 8 },
          domain: 4,
          between: {
            transfer: { latency: 100, bytesPerSecond: 1 },
            collective: { latency: 200, bytesPerSecond: 2 },
          },
        },
      },
      1,
    )
    expect(costs.transfer(8, 0)).toEqual({ busy: 2, latency: 11, receive: 0 })
    expect(costs.transfer(8, 1)).toEqual({ busy: 8, latency: 110, receive: 0 })
    // An all-reduce moves 2 (n - 1) / n of its bytes, the others half of that.
    expect(costs.collective('allReduce', 64, 4, 0)).toBe(2 + 96 / 8)
    expect(costs.collective('allGather', 64, 4, 1)).toBe(200 + 48 / 2)
    expect(costs.collective('allReduce', 64, 1, 0)).toBe(0)
    expect(
      [
        [0, 3],
        [3, 4],
        [8, 11],
        [0, 1, 2, 9],
      ].map((ranks) => costs.link!(ranks)),
    ).toEqual([0, 1, 0, 1])
  })

  it('are refused with the path of what is wrong', () => {
    const link = {
      transfer: { latency: 0, bytesPerSecond: 1 },
      collective: { latency: 0, bytesPerSecond: 1 },
    }
    const cases: readonly [unknown, string][] = [
      [null, ''],
      [[], ''],
      [{ F: 1, I: 1 }, 'W'],
      [{ F: -1, I: 1, W: 1 }, 'F'],
      [{ F: 1, I: Number.NaN, W: 1 }, 'I'],
      [{ F: 1, I: 1, W: '1' }, 'W'],
      [{ F: [1, 2, 3], I: 1, W: 1 }, 'F'],
      [{ F: [1, Number.POSITIVE_INFINITY], I: 1, W: 1 }, 'F.1'],
      [{ F: 1, I: 1, W: 1, B: 2 }, 'B'],
      [{ F: 1, I: 1, W: 1, hop: -0.5 }, 'hop'],
      [{ F: 0, I: [0, 0], W: 0, hop: 1 }, ''],
      [{ F: 1, I: 1, W: 1, link: { ...link, domain: 0 } }, 'link.domain'],
      [{ F: 1, I: 1, W: 1, link: { ...link, domain: 8 } }, 'link.between'],
      [{ F: 1, I: 1, W: 1, link: { transfer: link.transfer } }, 'link.collective'],
      [
        { F: 1, I: 1, W: 1, link: { ...link, transfer: { latency: 0, bytesPerSecond: 0 } } },
        'link.transfer.bytesPerSecond',
      ],
    ]
    for (const [document, path] of cases) refusal(() => phaseCosts(document, 2), path)
  })

  it('refuse anything else without a stack', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (document) => {
        refusalOrNothing(() => phaseCosts(document, 2))
        refusalOrNothing(() => readMeasuredTable(document))
      }),
    )
  })
})

function refusalOrNothing(act: () => unknown): void {
  try {
    act()
  } catch (error) {
    expect(error).toMatchObject({ code: 'SIMULATE_COSTS' })
  }
}

describe('measured costs', () => {
  const table = {
    meshwrightCosts: 1,
    machine: { name: 'here', cores: 2, software: { node: '20.20.0' } },
    tasks: { abc: { seconds: 2, secondsPerByte: 0.5 }, def: { seconds: 7 } },
    transfer: { send: { seconds: 1, secondsPerByte: 2 }, receive: { seconds: 3, secondsPerByte: 4 } },
    wake: 0.25,
    collectives: {
      allReduce: [
        { members: 2, seconds: 1, secondsPerByte: 1 },
        { members: 4, seconds: 2, secondsPerByte: 2 },
      ],
    },
    moves: { in: { seconds: 1 }, out: { seconds: 2, secondsPerByte: 1 } },
  }

  it('are lines by bytes', () => {
    const costs = measuredCosts(readMeasuredTable(JSON.parse(JSON.stringify(table))))
    expect(costs.run({ task, action: undefined, share: 0, readBytes: 10 })).toBe(7)
    expect(costs.run({ task: { ...task, hash: 'def' }, action: undefined, share: 0, readBytes: 10 })).toBe(7)
    expect(costs.transfer(10, 0)).toEqual({ busy: 21, latency: 0, receive: 43 })
    expect([1, 2, 3, 4, 9].map((members) => costs.collective('allReduce', 10, members, 0))).toEqual([
      0, 11, 22, 22, 22,
    ])
    expect([costs.move('in', 10), costs.move('out', 10)]).toEqual([1, 12])
    expect(costs.wake).toBe(0.25)
  })

  it('say what was not measured', () => {
    const costs = measuredCosts(readMeasuredTable(table))
    const unknown = { task: { ...task, hash: 'xyz' }, action: undefined, share: 0, readBytes: 0 }
    refusal(() => costs.run(unknown), 'tasks.xyz')
    refusal(() => costs.collective('allGather', 1, 2, 0), 'collectives.allGather')
  })

  it('are refused with the path of what is wrong', () => {
    const cases: readonly [object, string][] = [
      [{ ...table, meshwrightCosts: 2 }, 'meshwrightCosts'],
      [{ ...table, more: 1 }, 'more'],
      [{ ...table, tasks: { abc: { seconds: -1 } } }, 'tasks.abc.seconds'],
      [{ ...table, tasks: { abc: 1 } }, 'tasks.abc'],
      [{ ...table, collectives: { allReduce: [] } }, 'collectives.allReduce'],
      [{ ...table, collectives: { sum: [] } }, 'collectives.sum'],
      [{ ...table, machine: { ...table.machine, cores: 1.5 } }, 'machine.cores'],
      [{ ...table, wake: undefined }, 'wake'],
    ]
    for (const [document, path] of cases) refusal(() => readMeasuredTable(document), path)
  })
})
