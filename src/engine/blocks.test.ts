import { afterEach, describe, expect, it } from 'vitest'
import { noInput, tensors } from '../../test/support/enginePrograms.ts'
import { tensorProgram, tensorShapes } from '../../test/support/tensorParallel.ts'
import { type GraphTask, type Program, parseProgram, readInstructions } from '../program/index.ts'
import { inputElement, outputElement, type RunPlace } from './elementNames.ts'
import { createEmulator } from './emulate/index.ts'
import { createLocalEngine } from './local/start.ts'
import type { Engine, StateTensors, StepInput } from './types.ts'

const engines: Engine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop()
})

const kinds: readonly [string, (program: Program) => Promise<Engine>][] = [
  ['the emulator', async (program) => createEmulator(program)],
  ['the local engine', (program) => createLocalEngine(program)],
]

// A step with tensor parallelism ------------------------------------------------------------------------------------

type Parameters = Readonly<Record<keyof typeof tensorShapes, readonly number[]>>

const parameters: Parameters = {
  wte: [0.5, -0.25, 0.75, 1, -0.5, 0.125],
  a: [0.3, -0.2, 0.5, 0.1, 0.7, 0.4, -0.6, 0.9],
  b: [0.2, 0.1, -0.4, 0.8, 0.6, -0.3, 0.5, 0.7],
  s: [1.5, -0.5],
}
const tokens = [0, 2, 1, 1, 2, 0, 0, 1]
const lossScale = 0.25
const learningRate = 0.1

/** The loss by its definition. */
function lossOf({ wte, a, b, s }: Parameters): number {
  let loss = 0
  for (const token of tokens) {
    const u = [0, 1].map((dim) => wte[2 * token + dim]! * s[dim]!)
    const hidden = [0, 1, 2, 3].map((unit) => u[0]! * a[unit]! + u[1]! * a[4 + unit]!)
    for (const dim of [0, 1]) {
      const y = hidden.reduce((sum, value, unit) => sum + value * b[2 * unit + dim]!, 0)
      loss += lossScale * y * y
    }
  }
  return loss
}

/** Central differences: the loss is a polynomial of degree 6 in each, so that they are right to about 1e-9. */
function gradientOf(name: keyof Parameters): number[] {
  const width = 1e-4
  return parameters[name].map((value, index) => {
    const at = (moved: number): number =>
      lossOf({ ...parameters, [name]: parameters[name].with(index, moved) })
    return (at(value + width) - at(value - width)) / (2 * width)
  })
}

const names = Object.keys(tensorShapes) as (keyof Parameters)[]

function stateOf(values: Parameters): StateTensors {
  return new Map(
    names.map((name) => [
      name,
      { dtype: 'f64', shape: tensorShapes[name], data: Float64Array.from(values[name]) } as const,
    ]),
  )
}

const input: StepInput = {
  tensors: { tokens: Int32Array.from(tokens) },
  scalars: { lossScale, learningRate },
}

function close(given: StateTensors | undefined, wanted: (name: keyof Parameters) => readonly number[]): void {
  expect([...(given?.keys() ?? [])].sort()).toEqual([...names].sort())
  for (const name of names) {
    const { shape, data } = given!.get(name)!
    expect(shape).toEqual(tensorShapes[name])
    wanted(name).forEach((value, index) => {
      expect(data[index]).toBeCloseTo(value, 7)
    })
  }
}

describe.each(kinds)('tensor parallelism in %s', (kind, create) => {
  // Eight samples: two micro-batches, two samples a replica.
  it.each(
    kind === 'the emulator'
      ? [
          [2, 1],
          [2, 2],
          [2, 4],
        ]
      : [[2, 2]],
  )('is the serial step over data=%i, tensor=%i', async (data = 1, tensor = 1) => {
    const engine = await create(tensorProgram({ data, tensor }))
    engines.push(engine)
    await engine.writeState(stateOf(parameters))
    const { scalars, tensors: given } = await engine.step(input)
    expect(scalars['loss']).toBeCloseTo(lossOf(parameters), 10)
    const gradients = new Map(names.map((name) => [name, gradientOf(name)]))
    close(given['gradients'], (name) => gradients.get(name)!)
    const norm = Math.sqrt([...gradients.values()].flat().reduce((sum, value) => sum + value * value, 0))
    expect(scalars['gradientNorm']).toBeCloseTo(norm, 7)
    const factor = Math.min(1, 0.5 / (norm + 1e-6))
    close(await engine.readState(), (name) =>
      parameters[name].map((value, index) => value - learningRate * factor * gradients.get(name)![index]!),
    )
  })

  it('takes its state from one mesh to another', async () => {
    let state = stateOf(parameters)
    for (const tensor of kind === 'the emulator' ? [4, 1, 2] : [2, 1]) {
      const engine = await create(tensorProgram({ data: 1, tensor }))
      engines.push(engine)
      await engine.writeState(state)
      state = await engine.readState()
    }
    close(state, (name) => parameters[name])
  })
})

describe('an element of a block', () => {
  const program = tensorProgram({ data: 1, tensor: 2 })
  const place = (name: string, rank: number): RunPlace => {
    const [role] = program.roles
    const run = readInstructions(role!.code).find(
      (item) => item.kind === 'run' && program.tasks[item.task]!.name === name,
    )
    if (run?.kind !== 'run') throw new Error(name)
    return { program, role: role!, rank, run, task: program.tasks[run.task] as GraphTask }
  }

  it('is called by its place in the whole tensor', () => {
    // The second rank has rows 2 and 3 of b [4, 2], and columns 2 and 3 of a [2, 4].
    const backward = place('FB0.2', 1)
    const output = (name: string): number => backward.task.graph.outputs.findIndex((one) => one.name === name)
    expect(outputElement(backward, output('g.b'), 3)).toBe('element 7')
    expect([0, 1, 2, 3].map((at) => outputElement(backward, output('g.a'), at))).toEqual([
      'element 2',
      'element 3',
      'element 6',
      'element 7',
    ])
    const inputs = backward.task.graph.inputs
    expect(
      inputElement(
        backward,
        inputs.findIndex(({ name }) => name === 'b'),
        0,
      ),
    ).toBe('element 4')
    expect(outputElement(backward, output('t4'), 1)).toBe('element 1')
  })

  it('of an operand that is a whole pack is of the tensor that lies there', () => {
    const update = place('U0', 1)
    expect(inputElement(update, 0, 9)).toBe('element 5 of b')
    expect(inputElement(update, 0, 13)).toBe('element 1 of s')
    // Row 3 of the table is padding.
    expect(inputElement(update, 0, 2)).toBe('element 2')
  })

  it('that the program was given is named so by the local engine', async () => {
    const engine = await createLocalEngine(program)
    engines.push(engine)
    await engine.writeState(stateOf({ ...parameters, b: parameters.b.with(7, Number.POSITIVE_INFINITY) }))
    const step = engine.step({ ...input, tensors: { tokens: Int32Array.from(tokens.slice(0, 4)) } })
    await expect(step).rejects.toThrow(/its input b already is Infinity at element 7/)
  })
})

// Blocks in shards --------------------------------------------------------------------------------------------------

/**
 * A tensor of heads [2, 12] seen as [2, 3, 2 / x, 2], a table of 5 rows padded to 6 and cut along y, and one that all
 * have. In shards over data in mid-row: 12 + 4 + 3 elements and one of padding.
 */
const sharded = parseProgram(`program 1
work gradient: 1 stages, 1 microbatches
channel slots 2
mesh pipeline=0: data=2, x=2, y=3
stream reduce: network
stream store: host
group shards: data
role pipeline=0
  buffer w0: f64[10] state sharded over data in 0:20
    at 0: qkv [2, 12] block [2, 3, 2/x, 2] owned
    at 12: table [5, 2] block [6/y, 2] owned
    at 16: c [3] owned
  buffer p0: f64[20]
    at 0: qkv [2, 12] block [2, 3, 2/x, 2] owned
    at 12: table [5, 2] block [6/y, 2] owned
    at 16: c [3] owned
  reduce all-gather #1 w0[t] -> p0[u0] over shards
  store move out w0[t] -> pieces
  store move out p0[u0] -> whole ; free p0[u0]
`)

function plain(given: StateTensors | undefined): Record<string, number[]> {
  return Object.fromEntries([...(given ?? [])].map(([name, { data }]) => [name, [...data]]))
}

describe.each(kinds)('blocks in shards in %s', (_, create) => {
  it('are dealt out, gathered, given and read', async () => {
    const numbers = {
      qkv: Array.from({ length: 24 }, (__, index) => index + 1),
      table: Array.from({ length: 10 }, (__, index) => 100 + index),
      c: [201, 202, 203],
    }
    const shapes: Readonly<Record<string, readonly number[]>> = { qkv: [2, 12], table: [5, 2], c: [3] }
    const state = new Map(
      [...tensors(numbers, 'f64')].map(([name, tensor]) => [name, { ...tensor, shape: shapes[name]! }]),
    )
    const engine = await create(sharded)
    engines.push(engine)
    await engine.writeState(state)
    const { tensors: given } = await engine.step(noInput)
    expect(plain(given['pieces'])).toEqual(numbers)
    expect(plain(given['whole'])).toEqual(numbers)
    expect(plain(await engine.readState())).toEqual(numbers)
  })
})
