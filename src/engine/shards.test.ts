import { afterEach, describe, expect, it } from 'vitest'
import { noInput, tensors } from '../../test/support/enginePrograms.ts'
import { type Program, parseProgram } from '../program/index.ts'
import { createEmulator } from './emulate/index.ts'
import { createLocalEngine } from './local/start.ts'
import type { Engine, StateTensors } from './types.ts'

const engines: Engine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop()
})

const kinds: readonly [string, (program: Program) => Promise<Engine>][] = [
  ['the emulator', async (program) => createEmulator(program)],
  ['the local engine', (program) => createLocalEngine(program)],
]

/**
 * One stage that keeps the tensors a [2, 3], b [3] and c [5] in shards and gives them as they are, and gathered. Elements
 * from 9 to the end of the first segment, and behind c, are padding.
 */
function sharded(mesh: string, axes: string, segments: readonly [number, number], shards: number): Program {
  const [first, second] = segments
  const [a, b] = [first / shards, (first + second) / shards]
  const pack = `
    at 0: a [2, 3] owned
    at 6: b [3] owned
    at ${first}: c [5] owned`
  return parseProgram(`program 1
work gradient: 1 stages, 1 microbatches
channel slots 2
mesh pipeline=0: ${mesh}
stream reduce: network
stream store: host
group shards: ${axes}
role pipeline=0
  buffer w0: f64[${b}] state sharded over ${axes} in 0:${first}, ${first}:${first + second}${pack}
  buffer p0: f64[${first + second}]${pack}
  reduce all-gather #1 w0[t]{0:${a}} -> p0[u0]{0:${first}} | w0[t]{${a}:${b}} -> p0[u0]{${first}:${first + second}} over shards
  store move out w0[t] -> pieces
  store move out p0[u0] -> whole ; free p0[u0]
`)
}

const state = (): StateTensors => {
  const matrix = { dtype: 'f64', shape: [2, 3], data: Float64Array.of(1, 2, 3, 4, 5, 6) } as const
  return new Map([['a', matrix], ...tensors({ b: [7, 8, 9], c: [10, 11, 12, 13, 14] }, 'f64')])
}

function sorted(given: StateTensors | undefined): [string, readonly number[], number[]][] {
  return [...(given ?? [])]
    .map(([name, { shape, data }]): [string, readonly number[], number[]] => [name, shape, [...data]])
    .sort(([a], [b]) => a.localeCompare(b))
}

const programs: readonly [string, Program][] = [
  ['one shard', sharded('data=1', 'data', [9, 5], 1)],
  ['2 shards', sharded('data=2', 'data', [10, 6], 2)],
  ['3 shards', sharded('data=3', 'data', [9, 6], 3)],
  ['2 shards and 2 replicas', sharded('data.replica=2, data.shard=2', 'data.shard', [12, 8], 2)],
  ['4 shards over two axes', sharded('data.replica=2, data.shard=2', 'data.replica, data.shard', [12, 8], 4)],
]

describe.each(kinds)('state in shards in %s', (_, create) => {
  it.each(programs)('is dealt out, gathered, given and read: %s', async (_name, program) => {
    const engine = await create(program)
    engines.push(engine)
    await engine.writeState(state())
    const { tensors: given } = await engine.step(noInput)
    const expected = sorted(state())
    expect(sorted(given['whole'])).toEqual(expected)
    expect(sorted(given['pieces'])).toEqual(expected)
    expect(sorted(await engine.readState())).toEqual(expected)
  })

  it('goes from one number of shards to another', async () => {
    let between = state()
    for (const [, program] of programs.slice(1, 4)) {
      const engine = await create(program)
      engines.push(engine)
      await engine.writeState(between)
      between = await engine.readState()
    }
    expect(sorted(between)).toEqual(sorted(state()))
  })

  it('may be dealt out along the axes in another order, the first of which varies slowest', async () => {
    const program = sharded('data.replica=2, data.shard=3', 'data.shard, data.replica', [12, 6], 6)
    const engine = await create(program)
    engines.push(engine)
    await engine.writeState(state())
    expect(sorted((await engine.step(noInput)).tensors['pieces'])).toEqual(sorted(state()))
    expect(sorted(await engine.readState())).toEqual(sorted(state()))
  })
})

describe.each(kinds)('padding in %s', (_, create) => {
  it('is zero after a task wrote the whole pack, whatever was in its place, and may be read', async () => {
    const program = parseProgram(`program 1
work gradient: 1 stages, 1 microbatches
channel slots 2
mesh pipeline=0: data=1
stream compute: compute
task negate: graph
  read x
  write y
  graph 1
  input x activation %0: f64[6]

  %1: f64[6] = neg(%0)
  output y %1
task part: graph
  read x
  write pack
    at 0: y
    at 3: z
  graph 1
  input x activation %0: f64[2]

  %1: f64[2] = neg(%0)
  %2: f64[2] = add(%0, %0)
  output y %1
  output z %2
role pipeline=0
  buffer s: f64[6] state
  buffer x: f64[6]
  buffer p: f64[6]
    at 0: a [2]
    at 3: b [2]
  compute run negate s[t] -> x ; free x
  compute run part s[t]{0:2} -> p
  compute run negate p -> s[t+1] ; free p
`)
    expect(program.roles[0]!.pools).toEqual([{ slots: 1 }, { slots: 1 }])
    const engine = await create(program)
    engines.push(engine)
    await engine.writeState(tensors({ s: [1, 2, 3, 4, 5, 6] }, 'f64'))
    await engine.step(noInput)
    expect([...(await engine.readState()).get('s')!.data]).toEqual([1, 2, -0, -2, -4, -0])
  })
})
