import { afterEach, describe, expect, it } from 'vitest'
import { noInput, tensors } from '../../test/support/enginePrograms.ts'
import { type CollectiveOperation, collectiveVerbs, type Program, parseProgram } from '../program/index.ts'
import { createEmulator } from './emulate/index.ts'
import { createLocalEngine } from './local/start.ts'
import type { Engine } from './types.ts'

const engines: Engine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop()
})

const kinds: readonly [string, (program: Program) => Promise<Engine>][] = [
  ['the emulator', async (program) => createEmulator(program)],
  ['the local engine', (program) => createLocalEngine(program)],
]

const axes = ['data', 'tensor', 'context'] as const
const groups: readonly (readonly (typeof axes)[number][])[] = [
  ['data'],
  ['tensor'],
  ['context'],
  ['data', 'context'],
  ['tensor', 'context'],
  [...axes],
]

/** Rows that a source of 4 rows becomes, for `members`. */
const rowsAfter: Partial<Record<CollectiveOperation, (members: number) => number>> = {
  allGather: (members) => 8 * members,
  reduceScatter: (members) => 8 / members,
}

const details: Partial<Record<CollectiveOperation, string>> = {
  allReduce: ' sum',
  reduceScatter: ' sum',
  reduce: ' sum',
}
const tails: Partial<Record<CollectiveOperation, string>> = {
  broadcast: ' root 1',
  reduce: ' root 1',
  permute: ' shift 1',
}
const operations = [
  'allReduce',
  'reduceScatter',
  'allGather',
  'broadcast',
  'reduce',
  'allToAll',
  'permute',
] as const
type Operation = (typeof operations)[number]

/** Rows of a result. */
function rowsOf(operation: Operation, group: readonly string[]): number {
  return rowsAfter[operation]?.(2 ** group.length) ?? 8
}

const cases = operations.flatMap((operation) =>
  groups.map((group, index) => ({ operation, group, index, name: `${operation}${index}` })),
)

/** Eight ranks, each with a part of x of its own, and every collective over every group, whose results are state. */
const program = parseProgram(`program 1
work declared: 1 stages, 1 microbatches
channel slots 1
mesh pipeline=0: data=2, tensor=2, context=2
stream network: network
${groups.map((group, index) => `group g${index}: ${group.join(', ')}`).join('\n')}
role pipeline=0
  buffer x: f64[8] state frozen
    at 0: x [64] block [64/data/tensor/context] owned
${cases
  .map(({ operation, group, name }) => {
    const rows = rowsOf(operation, group)
    return `  buffer ${name}: f64[${rows}] state
    at 0: ${name} [${8 * rows}] block [${8 * rows}/data/tensor/context] owned`
  })
  .join('\n')}
${cases
  .map(
    ({ operation, index, name }, id) =>
      `  network ${collectiveVerbs[operation]} #${id}${details[operation] ?? ''} x[t] -> ${name}[t+1] over g${index}${tails[operation] ?? ''}`,
  )
  .join('\n')}
`)

/** Ranks of the group of a rank, by coordinates: rank 4 d + 2 t + c. */
function members(rank: number, group: readonly string[]): number[] {
  const bit: Readonly<Record<string, number>> = { data: 4, tensor: 2, context: 1 }
  const fixed = axes.filter((axis) => !group.includes(axis)).reduce((sum, axis) => sum + bit[axis]!, 0)
  return [0, 1, 2, 3, 4, 5, 6, 7].filter((other) => ((other ^ rank) & fixed) === 0)
}

/** What a rank has before. */
function source(rank: number): number[] {
  return Array.from({ length: 8 }, (_, row) => 10 ** (row % 3) * (rank + 1) + row)
}

/** What a rank has after the collective, by its definition. */
function expected(operation: Operation, rank: number, group: readonly string[]): number[] {
  const all = members(rank, group)
  const place = all.indexOf(rank)
  const size = 8 / all.length
  const block = (of: number, index: number): number[] => source(of).slice(index * size, (index + 1) * size)
  const sum = source(0).map((_, row) => all.reduce((total, other) => total + source(other)[row]!, 0))
  switch (operation) {
    case 'allReduce':
      return sum
    case 'reduceScatter':
      return sum.slice(place * size, (place + 1) * size)
    case 'allGather':
      return all.flatMap(source)
    case 'broadcast':
      return source(all[1]!)
    case 'reduce':
      return place === 1 ? sum : sum.map(() => 0)
    case 'allToAll':
      return all.flatMap((other) => block(other, place))
    case 'permute':
      return source(all[(place + all.length - 1) % all.length]!)
  }
}

describe.each(kinds)('collectives among ranks that differ along some axes', (name, create) => {
  it(`do what they are defined to in ${name}`, async () => {
    const engine = await create(program)
    engines.push(engine)
    const x = [0, 1, 2, 3, 4, 5, 6, 7].flatMap(source)
    const zeros = cases.map(({ operation, group, name: result }): [string, number[]] => [
      result,
      new Array<number>(8 * rowsOf(operation, group)).fill(0),
    ])
    await engine.writeState(tensors({ x, ...Object.fromEntries(zeros) }, 'f64'))
    await engine.step(noInput)
    const state = await engine.readState()
    for (const { operation, group, name: result } of cases) {
      const wanted = [0, 1, 2, 3, 4, 5, 6, 7].flatMap((rank) => expected(operation, rank, group))
      expect([...state.get(result)!.data], result).toEqual(wanted)
    }
  })
})
