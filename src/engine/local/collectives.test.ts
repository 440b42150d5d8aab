import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { handmade, noInput, stateBuffer, stream } from '../../../test/support/enginePrograms.ts'
import type { Engine, HostTensor } from '../types.ts'
import { createLocalEngine } from './start.ts'

const engines: Engine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop()
})

/** One all-reduce of the whole and one of a part, over `ranks` ranks that hold different tensors. */
function allReduceProgram(ranks: number, elements: number, dtype: 'f32' | 'f64', reduce: 'sum' | 'max') {
  return handmade({
    replicas: Array.from({ length: ranks }, () => 1),
    groups: [{ name: 'all', axes: ['pipeline', 'data'] }],
    roles: Array.from({ length: ranks }, (_, pipeline) => ({
      pipeline,
      buffers: [stateBuffer(`s${pipeline}`, [elements], dtype)],
      values: [{ buffer: 0, step: 0, slot: 0 }],
      regions: [{ start: Math.floor(elements / 3), end: elements }],
      code: [
        {
          kind: 'collective',
          stream: stream.reduce,
          collective: 1,
          operation: 'allReduce',
          reduce,
          group: 0,
          operand: { value: 0 },
        },
        {
          kind: 'collective',
          stream: stream.reduce,
          collective: 2,
          operation: 'allReduce',
          reduce,
          group: 0,
          operand: { value: 0, region: 0 },
        },
      ],
    })),
  })
}

async function allReduced(
  given: readonly (Float32Array | Float64Array)[],
  reduce: 'sum' | 'max',
): Promise<{ results: HostTensor['data'][]; engine: Engine }> {
  const dtype = given[0] instanceof Float32Array ? 'f32' : 'f64'
  const engine = await createLocalEngine(allReduceProgram(given.length, given[0]!.length, dtype, reduce))
  engines.push(engine)
  const state = new Map(
    given.map((data, rank) => [`s${rank}`, { dtype, shape: [data.length], data } as const]),
  )
  await engine.writeState(state)
  await engine.step(noInput)
  const left = await engine.readState()
  return { results: given.map((_, rank) => left.get(`s${rank}`)!.data), engine }
}

/** Serially, in rank order, in the arithmetic of the dtype. */
function expected(
  given: readonly (Float32Array | Float64Array)[],
  reduce: 'sum' | 'max',
): Float32Array | Float64Array {
  const once = (all: readonly (Float32Array | Float64Array)[], start: number) => {
    const total = all[0]!.slice()
    for (const other of all.slice(1))
      for (let index = start; index < total.length; index++)
        total[index] =
          reduce === 'sum' ? total[index]! + other[index]! : Math.max(total[index]!, other[index]!)
    return total
  }
  const first = once(given, 0)
  return once(
    given.map(() => first),
    Math.floor(first.length / 3),
  )
}

function noise(length: number, seed: number, Kind: Float32ArrayConstructor | Float64ArrayConstructor) {
  let word = seed
  return new Kind(length).map(() => {
    word = (Math.imul(word, 1664525) + 1013904223) | 0
    return (word / 2 ** 31) * 10 ** ((word >>> 8) % 7)
  })
}

describe('all-reduce', () => {
  for (const ranks of [2, 3])
    for (const Kind of [Float32Array, Float64Array])
      for (const elements of [1, 37, 200_003])
        it(`sums ${elements} elements of ${Kind.name} over ${ranks} ranks as a serial loop does, bit for bit`, async () => {
          const given = Array.from({ length: ranks }, (_, rank) => noise(elements, 7 + 31 * rank, Kind))
          const { results } = await allReduced(given, 'sum')
          const sum = expected(given, 'sum')
          for (const result of results) expect(Buffer.compare(bytes(result), bytes(sum))).toBe(0)
        })

  it('takes the maximum', async () => {
    const given = [noise(1000, 1, Float32Array), noise(1000, 2, Float32Array)]
    const { results } = await allReduced(given, 'max')
    for (const result of results) expect(result).toEqual(expected(given, 'max'))
  })

  it('gives the same sums for any contents', async () => {
    const engine = await createLocalEngine(allReduceProgram(3, 5, 'f32', 'sum'))
    engines.push(engine)
    const vector = fc.array(fc.float({ noNaN: true, noDefaultInfinity: true }), {
      minLength: 5,
      maxLength: 5,
    })
    await fc.assert(
      fc.asyncProperty(fc.tuple(vector, vector, vector), async (vectors) => {
        const given = vectors.map((numbers) => Float32Array.from(numbers))
        const state = new Map(
          given.map((data, rank) => [`s${rank}`, { dtype: 'f32', shape: [5], data } as const]),
        )
        await engine.writeState(state)
        await engine.step(noInput)
        const left = await engine.readState()
        const sum = expected(given, 'sum')
        for (let rank = 0; rank < 3; rank++) expect(left.get(`s${rank}`)!.data).toEqual(sum)
      }),
      { numRuns: 50 },
    )
  })

  it('counts calls, payload and wire bytes', async () => {
    const given = [noise(30, 1, Float32Array), noise(30, 2, Float32Array), noise(30, 3, Float32Array)]
    const { engine } = await allReduced(given, 'sum')
    const { ranks } = await engine.step(noInput)
    // The whole (30) and its last two thirds (20), and each payload goes out once in all.
    const payloadBytes = (30 + 20) * 4
    for (const { collectives, sends } of ranks) {
      expect(collectives).toEqual({ allReduce: { calls: 2, payloadBytes, wireBytes: payloadBytes } })
      expect(sends).toEqual({ calls: 0, bytes: 0 })
    }
  })

  it('works over sixteen ranks on few cores', async () => {
    const given = Array.from({ length: 16 }, (_, rank) => noise(1000, 5 + rank, Float64Array))
    const { results } = await allReduced(given, 'sum')
    const sum = expected(given, 'sum')
    for (const result of results) expect(Buffer.compare(bytes(result), bytes(sum))).toBe(0)
  })
})

function bytes(data: HostTensor['data']): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
}
