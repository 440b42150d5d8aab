import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { noInput } from '../../../test/support/enginePrograms.ts'
import { type CollectiveOperation, collectiveVerbs, type Program, parseProgram } from '../../program/index.ts'
import { createEmulator } from '../emulate/index.ts'
import type { Engine, HostTensor, StateTensors } from '../types.ts'
import { createLocalEngine } from './start.ts'

const engines: Engine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop()
})

type Floats = Float32Array | Float64Array
type DType = 'f32' | 'f64'

/** One stage of one rank for each member, so that state can differ between them; every line is run by all. */
function programOf(
  ranks: number,
  buffers: readonly { name: string; elements: number }[],
  dtype: DType,
  lines: string,
): Program {
  const head = [
    'program 1',
    `work gradient: ${ranks} stages, 1 microbatches`,
    'channel slots 2',
    `mesh pipeline=0..${ranks - 1}: data=1`,
    'stream reduce: network',
    'group all: pipeline, data',
  ]
  const roles = Array.from({ length: ranks }, (_, rank) => [
    `role pipeline=${rank}`,
    ...buffers.flatMap(({ name, elements }) => [
      `  buffer ${name}: ${dtype}[${elements}] state`,
      `    at 0: ${name}${rank} [${elements}] owned`,
    ]),
    lines.replace(/^ *(?=\S)/gm, '  reduce '),
  ])
  return parseProgram([...head, ...roles.flat(), ''].join('\n').replace('pipeline=0..0', 'pipeline=0'))
}

async function left(engine: Engine, given: StateTensors): Promise<StateTensors> {
  engines.push(engine)
  await engine.writeState(given)
  await engine.step(noInput)
  return engine.readState()
}

function stateOf(tensors: Readonly<Record<string, Floats>>): StateTensors {
  return new Map(
    Object.entries(tensors).map(([name, data]): [string, HostTensor] => [
      name,
      { dtype: data instanceof Float32Array ? 'f32' : 'f64', shape: [data.length], data },
    ]),
  )
}

function noise(length: number, seed: number, dtype: DType): Floats {
  let word = seed
  const make = (): number => {
    word = (Math.imul(word, 1664525) + 1013904223) | 0
    return (word / 2 ** 31) * 10 ** ((word >>> 8) % 7)
  }
  return (dtype === 'f32' ? new Float32Array(length) : new Float64Array(length)).map(make)
}

function bytes(data: HostTensor['data']): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
}

function expectBits(actual: HostTensor['data'], expected: HostTensor['data']): void {
  expect(Buffer.compare(bytes(actual), bytes(expected))).toBe(0)
}

describe('hand-computed collectives', () => {
  // Of both ranks what they hold, and what they get.
  const cases: readonly [operation: string, tail: string, sources: string, results: string][] = [
    ['all-reduce #1 sum', '', '1 2, 10 20', '11 22, 11 22'],
    ['all-reduce #1 max', '', '1 20, 10 2', '10 20, 10 20'],
    ['reduce-scatter #1 sum', '', '1 2 3 4, 10 20 30 40', '11 22, 33 44'],
    ['all-gather #1', '', '1 2, 10 20', '1 2 10 20, 1 2 10 20'],
    ['broadcast #1', ' root 1', '1 2, 10 20', '10 20, 10 20'],
    ['reduce #1 sum', ' root 1', '1 2, 10 20', '0 0, 11 22'],
    ['gather #1', ' root 0', '1 2, 10 20', '1 2 10 20, 0 0 0 0'],
    ['scatter #1', ' root 1', '1 2 3 4, 10 20 30 40', '10 20, 30 40'],
    ['all-to-all #1', '', '1 2 3 4, 10 20 30 40', '1 2 10 20, 3 4 30 40'],
    ['permute #1', ' shift 1', '1 2, 10 20', '10 20, 1 2'],
  ]
  const numbers = (text: string): number[][] =>
    text.split(', ').map((of) => of.split(' ').map((number) => Number(number)))
  it.each(cases)('%s%s', async (operation, tail, given, wanted) => {
    const [sources, results] = [numbers(given), numbers(wanted)]
    for (const mode of ['', ' +=']) {
      const program = programOf(
        2,
        [
          { name: 's', elements: sources[0]!.length },
          { name: 'r', elements: results[0]!.length },
        ],
        'f64',
        `${operation} s[t] -> r[t]${mode} over all${tail}`,
      )
      const state = await left(
        createEmulator(program),
        stateOf({
          s0: Float64Array.from(sources[0]!),
          s1: Float64Array.from(sources[1]!),
          r0: new Float64Array(results[0]!.length).fill(100),
          r1: new Float64Array(results[0]!.length).fill(100),
        }),
      )
      const base = mode === '' ? 0 : 100
      for (const [rank, result] of results.entries())
        expect([...state.get(`r${rank}`)!.data]).toEqual(result.map((value) => base + value))
    }
  })

  it('work on several parts at once, and in place', async () => {
    const program = programOf(
      2,
      [
        { name: 'a', elements: 4 },
        { name: 'b', elements: 4 },
      ],
      'f64',
      [
        'reduce-scatter #1 sum a[t]{0:2} -> b[t]{0:1} | a[t]{2:4} -> b[t]{1:2} += over all',
        'all-reduce #2 max a[t] over all',
      ].join('\n'),
    )
    const given = stateOf({
      a0: Float64Array.of(1, 2, 3, 4),
      a1: Float64Array.of(0, 20, -30, 40),
      b0: Float64Array.of(5, 6, 7, 8),
      b1: Float64Array.of(5, 6, 7, 8),
    })
    for (const engine of [createEmulator(program), await createLocalEngine(program)]) {
      const state = await left(engine, given)
      expect(Object.fromEntries([...state].map(([name, { data }]) => [name, [...data]]))).toEqual({
        a0: [1, 20, 3, 40],
        a1: [1, 20, 3, 40],
        b0: [1, 6 - 27, 7, 8],
        b1: [22, 6 + 44, 7, 8],
      })
    }
  })
})

/** Every operation, with whether its source and its result are of as many blocks as there are members. */
const operations: readonly {
  readonly operation: CollectiveOperation
  readonly source?: true
  readonly result?: true
  readonly tail?: string
}[] = [
  { operation: 'allReduce' },
  { operation: 'reduceScatter', source: true },
  { operation: 'allGather', result: true },
  { operation: 'broadcast', tail: ' root' },
  { operation: 'reduce', tail: ' root' },
  { operation: 'gather', result: true, tail: ' root' },
  { operation: 'scatter', source: true, tail: ' root' },
  { operation: 'allToAll', source: true, result: true },
  { operation: 'permute', tail: ' shift 2' },
]
const reductions: readonly CollectiveOperation[] = ['allReduce', 'reduceScatter', 'reduce']

/** Every operation on a small and on a large part, first with `set` and then with `add`, each on buffers of its own. */
function everyOperation(ranks: number, dtype: DType, small: number, large: number): Program {
  const buffers: { name: string; elements: number }[] = []
  const lines: string[] = []
  for (const { operation, source, result, tail = '' } of operations)
    for (const mode of ['', ' +=']) {
      const id = lines.length
      const [from, to] = [source === true ? ranks : 1, result === true ? ranks : 1]
      const total = small + large
      buffers.push({ name: `s${id}_`, elements: total * from }, { name: `r${id}_`, elements: total * to })
      const verb = `${collectiveVerbs[operation]} #${id}${reductions.includes(operation) ? ' sum' : ''}`
      const first = `s${id}_[t]{0:${small * from}} -> r${id}_[t]{0:${small * to}}${mode}`
      const second = `s${id}_[t]{${small * from}:${total * from}} -> r${id}_[t]{${small * to}:${total * to}}${mode}`
      const end = `over all${tail}${tail === ' root' ? ` ${Math.min(1, ranks - 1)}` : ''}`
      lines.push(`${verb} ${first} | ${second} ${end}`)
      if (source === result && mode === '') {
        // In place on what the others have left.
        const again = `${verb.replace(`#${id}`, `#${100 + id}`)} r${id}_[t] ${end}`
        if (source === undefined || operation === 'allToAll') lines.push(again)
      }
    }
  return programOf(ranks, buffers, dtype, lines.join('\n'))
}

function noisyState(program: Program, dtype: DType): StateTensors {
  const sizes = program.roles.flatMap((role, rank) =>
    role.buffers.map(({ name, shape }) => [`${name}${rank}`, shape[0]!] as const),
  )
  return stateOf(
    Object.fromEntries(sizes.map(([name, size], index) => [name, noise(size, 7 + 31 * index, dtype)])),
  )
}

describe('the local engine', () => {
  it.each([
    [1, 3, 5],
    [2, 3, 5],
    [2, 7, 70_001],
    [3, 2, 45_001],
  ])('gives the bits of the emulator in every operation: %i ranks', async (ranks, small, large) => {
    const program = everyOperation(ranks, 'f64', small, large)
    const given = noisyState(program, 'f64')
    const expected = await left(createEmulator(program), given)
    const actual = await left(await createLocalEngine(program), given)
    expect(actual.size).toBe(expected.size)
    for (const [name, tensor] of expected) expectBits(actual.get(name)!.data, tensor.data)
  })

  it('counts as the emulator does', async () => {
    const program = everyOperation(3, 'f32', 3, 5)
    const given = noisyState(program, 'f32')
    const counts: unknown[] = []
    for (const engine of [createEmulator(program), await createLocalEngine(program)]) {
      engines.push(engine)
      await engine.writeState(given)
      counts.push(
        (await engine.step(noInput)).ranks.map(({ collectives, sends }) => ({ collectives, sends })),
      )
    }
    expect(counts[1]).toEqual(counts[0])
  })
})

/** Serially, in rank order, in the arithmetic of the dtype. */
function reduced(given: readonly Floats[], reduce: 'sum' | 'max'): Floats {
  const total = given[0]!.slice()
  for (const other of given.slice(1))
    for (let index = 0; index < total.length; index++)
      total[index] = reduce === 'sum' ? total[index]! + other[index]! : Math.max(total[index]!, other[index]!)
  return total
}

/** All-reduce of a buffer in place, then reduce-scatter of another added to a third. */
async function reductionsOf(given: readonly Floats[], reduce: 'sum' | 'max') {
  const dtype = given[0] instanceof Float32Array ? 'f32' : 'f64'
  const ranks = given.length
  const elements = given[0]!.length
  const program = programOf(
    ranks,
    [
      { name: 'a', elements },
      { name: 's', elements: elements * ranks },
      { name: 'r', elements },
    ],
    dtype,
    [`all-reduce #1 ${reduce} a[t] over all`, `reduce-scatter #2 ${reduce} s[t] -> r[t] += over all`].join(
      '\n',
    ),
  )
  const sources = given.map((_, rank) => noise(elements * ranks, 100 + rank, dtype))
  const engine = await createLocalEngine(program)
  const state = await left(
    engine,
    stateOf(
      Object.fromEntries(
        given.flatMap((data, rank) => [
          [`a${rank}`, data],
          [`s${rank}`, sources[rank]!],
          [`r${rank}`, data],
        ]),
      ),
    ),
  )
  return { engine, state, sources }
}

describe('reductions in the dtype of the program', () => {
  for (const ranks of [2, 3])
    for (const dtype of ['f32', 'f64'] as const)
      for (const elements of [1, 37, 200_003])
        it(`sum ${elements} elements of ${dtype} over ${ranks} ranks as a serial loop does, bit for bit`, async () => {
          const given = Array.from({ length: ranks }, (_, rank) => noise(elements, 7 + 31 * rank, dtype))
          const { state, sources } = await reductionsOf(given, 'sum')
          const sum = reduced(given, 'sum')
          const scattered = reduced(sources, 'sum')
          for (const [rank, own] of given.entries()) {
            expectBits(state.get(`a${rank}`)!.data, sum)
            const block = scattered.slice(rank * elements, (rank + 1) * elements)
            expectBits(
              state.get(`r${rank}`)!.data,
              own.map((value, index) => value + block[index]!),
            )
          }
        })

  it('take the maximum', async () => {
    const given = [noise(1000, 1, 'f32'), noise(1000, 2, 'f32')]
    const { state } = await reductionsOf(given, 'max')
    for (const rank of [0, 1]) expect(state.get(`a${rank}`)!.data).toEqual(reduced(given, 'max'))
  })

  it('give the same sums for any contents', async () => {
    const program = programOf(3, [{ name: 'a', elements: 5 }], 'f32', 'all-reduce #1 sum a[t] over all')
    const engine = await createLocalEngine(program)
    engines.push(engine)
    const vector = fc.array(fc.float({ noNaN: true, noDefaultInfinity: true }), {
      minLength: 5,
      maxLength: 5,
    })
    await fc.assert(
      fc.asyncProperty(fc.tuple(vector, vector, vector), async (vectors) => {
        const given = vectors.map((numbers) => Float32Array.from(numbers))
        await engine.writeState(stateOf(Object.fromEntries(given.map((data, rank) => [`a${rank}`, data]))))
        await engine.step(noInput)
        const state = await engine.readState()
        for (let rank = 0; rank < 3; rank++)
          expect(state.get(`a${rank}`)!.data).toEqual(reduced(given, 'sum'))
      }),
      { numRuns: 50 },
    )
  })

  it('count calls, payload and wire bytes of a ring', async () => {
    const given = [noise(30, 1, 'f32'), noise(30, 2, 'f32'), noise(30, 3, 'f32')]
    const { engine } = await reductionsOf(given, 'sum')
    const { ranks } = await engine.step(noInput)
    const payload = 30 * 4
    for (const { collectives, sends } of ranks) {
      expect(collectives).toEqual({
        allReduce: { calls: 1, payloadBytes: payload, wireBytes: (2 * 2 * payload) / 3 },
        // 90 elements in, in three blocks, of which two go to others.
        reduceScatter: { calls: 1, payloadBytes: 3 * payload, wireBytes: 2 * payload },
      })
      expect(sends).toEqual({ calls: 0, bytes: 0 })
    }
  })

  it('work over sixteen ranks on few cores', async () => {
    const given = Array.from({ length: 16 }, (_, rank) => noise(1000, 5 + rank, 'f64'))
    const { state } = await reductionsOf(given, 'sum')
    const sum = reduced(given, 'sum')
    for (const rank of given.keys()) expectBits(state.get(`a${rank}`)!.data, sum)
  })
})
