import { describe, expect, it } from 'vitest'
import { readInstructions } from './columns.ts'
import { parseProgram } from './text/parse.ts'
import { collectiveOperations, collectivePayloadBytes, collectiveWireBytes } from './traffic.ts'

describe('traffic of collectives', () => {
  it('is that of a ring', () => {
    const bytes = (members: number): Record<string, number> =>
      Object.fromEntries(
        collectiveOperations.map((operation) => [operation, collectiveWireBytes(operation, 96, members)]),
      )
    // Around a ring of four each rank passes on three blocks of 24 bytes, twice for an all-reduce.
    expect(bytes(4)).toEqual({
      allReduce: 144,
      reduceScatter: 72,
      allGather: 72,
      broadcast: 72,
      reduce: 72,
      gather: 72,
      scatter: 72,
      allToAll: 72,
      permute: 96,
    })
    expect(Object.values(bytes(1))).toEqual(collectiveOperations.map(() => 0))
  })

  it('is about the whole of what is gathered, or scattered, all parts together', () => {
    const program = parseProgram(`program 1
work gradient: 1 stages, 1 microbatches
channel slots 1
mesh pipeline=0: data=3
stream reduce: network
group data: data
role pipeline=0
  buffer shard: f64[4]
  buffer whole: f64[12]
  reduce all-gather #1 shard{0:1} -> whole{0:3} | shard{1:4} -> whole{3:12} over data
  reduce reduce-scatter #2 sum whole -> shard over data
  reduce all-reduce #3 max whole{0:5} over data
`)
    const [role] = program.roles
    const bytes = readInstructions(role!.code).map((one) =>
      one.kind === 'collective' ? collectivePayloadBytes(role!, one) : undefined,
    )
    expect(bytes).toEqual([96, 96, 40])
  })
})
