import { describe, expect, it } from 'vitest'
import { specimenText } from '../../../test/support/specimens.ts'
import { parseProgram } from '../../program/index.ts'
import type { HostTensor } from '../types.ts'
import { createEmulator } from './index.ts'

const vector = (...values: number[]): HostTensor => ({
  dtype: 'f64',
  shape: [values.length],
  data: Float64Array.from(values),
})

/** One rank whose state `s` becomes the sum of what `reads` says, step by step. */
function sums(reads: string): string {
  return `program 1
work declared: 1 stages, 1 microbatches
channel slots 1
mesh pipeline=0:
stream compute: compute
task add: graph
  graph 1
  input a activation %0: f64[1]
  input b activation %1: f64[1]
  %2: f64[1] = add(%0, %1)
  output sum %2
role pipeline=0
  buffer s: f64[1] state
  compute run add ${reads} -> s[t+1]`.replace('  graph 1', '  read a\n  read b\n  write sum\n  graph 1')
}

async function sequence(reads: string, steps: number): Promise<number[]> {
  const engine = createEmulator(parseProgram(sums(reads)))
  await engine.writeState(new Map([['s', vector(1)]]))
  const found: number[] = []
  for (let step = 0; step < steps; step++) {
    await engine.step({ tensors: {}, scalars: {} })
    found.push((await engine.readState()).get('s')!.data[0]!)
  }
  return found
}

describe('versions of a state', () => {
  it('are those of one step before: Fibonacci', async () => {
    expect(await sequence('s[t] s[t-1]', 6)).toEqual([2, 3, 5, 8, 13, 21])
  })

  it('are those of two and three steps before, whether the ones between are read or not: Padovan', async () => {
    expect(await sequence('s[t-1] s[t-2]', 8)).toEqual([2, 2, 3, 4, 5, 7, 9, 12])
  })
})

describe('what the specimens brought', () => {
  it('a mean is that of all members', async () => {
    const engine = createEmulator(
      parseProgram(`program 1
work declared: 1 stages, 1 microbatches
channel slots 1
mesh pipeline=0: side=2
stream network: network
group side: side
role pipeline=0
  buffer s: f64[1] state frozen sharded over side in 0:2
    at 0: s [2] owned
  buffer m: f64[1] state
  network all-reduce #1 mean s[t] -> m[t+1] over side`),
    )
    await engine.writeState(
      new Map([
        ['s', vector(1, 4)],
        ['m', vector(0)],
      ]),
    )
    await engine.step({ tensors: {}, scalars: {} })
    expect([...(await engine.readState()).get('m')!.data]).toEqual([2.5])
  })

  it('a task that is missing is an error that says so', async () => {
    const text = specimenText('04', [
      [
        /task B0: graph[\s\S]*?(?=\ntask)/,
        'task B0: missing "a backward"\n  read f64[2, 2]\n  read i32[2, 2]\n  write f64[4]\n',
      ],
    ])
    const engine = createEmulator(parseProgram(text))
    await engine.writeState(
      new Map([
        ['w0', vector(1, 1, 1, 1)],
        ['w1', vector(1, 1)],
      ]),
    )
    const step = engine.step({ tensors: { tokens: new Int32Array(8) }, scalars: { learningRate: 1 } })
    await expect(step).rejects.toMatchObject({
      code: 'EMULATE_MISSING',
      message: expect.stringContaining('runs B0, which is missing: a backward'),
    })
  })
})
