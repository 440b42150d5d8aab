import { afterEach, describe, expect, it } from 'vitest'
import {
  graphTask,
  handmade,
  makeGraph,
  noInput,
  peer,
  plainBuffer,
  scaleGraph,
  stateBuffer,
  stream,
  tensors,
} from '../../../test/support/enginePrograms.ts'
import type { MeshwrightError } from '../../base/index.ts'
import type { Graph } from '../../graph/index.ts'
import { inPlace, type Program } from '../../program/index.ts'
import type { Engine } from '../types.ts'
import { createLocalEngine, type LocalEngineOptions } from './start.ts'

const engines: Engine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop()
})

async function start(program: Program, options?: LocalEngineOptions): Promise<Engine> {
  const engine = await createLocalEngine(program, options)
  engines.push(engine)
  return engine
}

async function failureOf(act: Promise<unknown>): Promise<MeshwrightError> {
  return act.then(
    () => {
      throw new Error('it did not fail')
    },
    (error: MeshwrightError) => error,
  )
}

/** Rank 0 computes and sends, rank 1 receives and computes; both in stage 3 of micro-batch 2, say their actions. */
function chain(graph: Graph = scaleGraph([2], 2)): Program {
  const actions = [{ phase: 'F', stage: 3, microbatch: 2 }]
  const buffers = [plainBuffer('x', [2], 'f32', 2)]
  const values = [
    { buffer: 1, step: 0, slot: 0 },
    { buffer: 0, microbatch: 2, slot: 0 },
    { buffer: 1, step: 1, slot: 0 },
  ]
  const run = (read: number, write: number) => ({
    kind: 'run' as const,
    stream: stream.compute,
    task: 0,
    reads: [{ value: read }],
    writes: [{ value: write, mode: 'set' as const }],
    action: 0,
  })
  const part = (direction: 'send' | 'recv') => ({
    kind: 'exchange' as const,
    stream: stream.forward,
    parts: [{ direction, transfer: 9, value: 1, peer: 0 }],
  })
  return handmade({
    replicas: [1, 1],
    tasks: [graphTask('F3', graph)],
    roles: [
      {
        pipeline: 0,
        buffers: [...buffers, stateBuffer('a', [2])],
        values,
        actions,
        peers: [peer(1)],
        code: [run(0, 1), part('send')],
      },
      {
        pipeline: 1,
        buffers: [...buffers, stateBuffer('b', [2])],
        values,
        actions,
        peers: [peer(-1)],
        code: [part('recv'), run(1, 2)],
      },
    ],
  })
}

describe('faults', () => {
  it('ends the run with the place and the cause when a worker throws', async () => {
    const engine = await start(chain(), { faults: { rank: 0, step: 1, kind: 'throw' } })
    await engine.step(noInput)
    const error = await failureOf(engine.step(noInput))
    expect(error).toMatchObject({ name: 'MeshwrightError', code: 'RUN_FAILED', exitCode: 5 })
    expect(error.message).toMatch(
      /^rank 0, .*instruction 1 \(send #9 x\[2\] to pipeline\+1.*fault was asked for/,
    )
    expect(await failureOf(engine.step(noInput))).toBe(error)
    expect(await failureOf(engine.readState())).toBe(error)
    await engine.stop()
    await engine.stop()
  })

  it('names stage and micro-batch of a run that fails', async () => {
    const engine = await start(chain(), { faults: { rank: 1, step: 0, kind: 'throw' } })
    const error = await failureOf(engine.step(noInput))
    expect(error.message).toMatch(
      /^rank 1, stage 3, micro-batch 2, at instruction 1 \(run F3 x\[2\] -> b\[t\+1\]\): /,
    )
  })

  it('reports a worker that ends', async () => {
    const engine = await start(chain(), { faults: { rank: 0, step: 0, kind: 'exit' } })
    const error = await failureOf(engine.step(noInput))
    expect(error).toMatchObject({ code: 'RUN_WORKER_DIED', exitCode: 5 })
    expect(error.message).toMatch(/^rank 0, .*exit code 7/)
  })

  it('reports a worker that hangs, with who waits for it, and still stops', async () => {
    const engine = await start(chain(), { hangSeconds: 0.3, faults: { rank: 0, step: 0, kind: 'hang' } })
    const error = await failureOf(engine.step(noInput))
    expect(error).toMatchObject({ code: 'RUN_HUNG', exitCode: 5 })
    expect(error.message).toMatch(/^rank 0, .*rank 1 waits in run F3/)
    await engine.stop()
  })

  it('reports ranks that all wait for each other', async () => {
    const program = handmade({
      replicas: [1, 1],
      tasks: [graphTask('F', scaleGraph([2], 2))],
      roles: [0, 1].map((pipeline) => ({
        pipeline,
        buffers: [plainBuffer('x', [2], 'f32', 2)],
        values: [
          { buffer: 0, slot: 0 },
          { buffer: 0, slot: 1 },
        ],
        peers: [peer(1 - 2 * pipeline)],
        code: [
          {
            kind: 'exchange' as const,
            stream: stream.forward,
            parts: [{ direction: 'recv' as const, transfer: pipeline, value: 0, peer: 0 }],
          },
          {
            kind: 'run' as const,
            stream: stream.compute,
            task: 0,
            reads: [{ value: 0 }],
            writes: [{ value: 1, mode: 'set' as const }],
          },
          {
            kind: 'exchange' as const,
            stream: stream.forward,
            parts: [{ direction: 'send' as const, transfer: 1 - pipeline, value: 1, peer: 0 }],
          },
        ],
      })),
    })
    const engine = await start(program, { hangSeconds: 0.3 })
    const error = await failureOf(engine.step(noInput))
    expect(error).toMatchObject({ code: 'RUN_DEADLOCK', exitCode: 5 })
    expect(error.message).toContain('rank 1 waits in run F x -> x')
  })

  it('refuses a message that is not the one expected', async () => {
    const program = chain()
    // Rank 1 expects another transfer than rank 0 sends.
    const code = program.roles[1]!.code
    code.operands[code.start[0]! + 1] = 8
    const engine = await start(program)
    const error = await failureOf(engine.step(noInput))
    expect(error).toMatchObject({ code: 'RUN_TRANSFER_MISMATCH', exitCode: 5 })
    expect(error.message).toMatch(/expected transfer 8 of 8 bytes from rank 0, got transfer 9 of 8 bytes/)
  })

  /** Three ranks that compute and then reduce, each expecting a collective of these ids. */
  function reduction(ids: readonly number[]): Program {
    return handmade({
      replicas: [1, 1, 1],
      groups: [{ name: 'all', axes: ['pipeline', 'data'] }],
      tasks: [graphTask('F', scaleGraph([2], 2))],
      roles: ids.map((collective, pipeline) => ({
        pipeline,
        buffers: [plainBuffer('x', [2]), stateBuffer(`s${pipeline}`, [2])],
        values: [
          { buffer: 1, step: 0, slot: 0 },
          { buffer: 0, slot: 0 },
        ],
        code: [
          {
            kind: 'run',
            stream: stream.compute,
            task: 0,
            reads: [{ value: 0 }],
            writes: [{ value: 1, mode: 'set' }],
          },
          {
            kind: 'collective',
            stream: stream.reduce,
            collective,
            operation: 'allReduce',
            reduce: 'sum',
            group: 0,
            parts: [inPlace({ value: 1 })],
          },
        ],
      })),
    })
  }

  it('frees ranks that wait in a collective for one that died', async () => {
    const engine = await start(reduction([4, 4, 4]), { faults: { rank: 1, step: 1, kind: 'exit' } })
    await engine.step(noInput)
    const error = await failureOf(engine.step(noInput))
    expect(error.message).toMatch(/^rank 1, .*all-reduce #4 sum x over all.*exit code 7/)
  })

  it('refuses to reduce what the others do not reduce', async () => {
    const engine = await start(reduction([4, 4, 6]))
    const error = await failureOf(engine.step(noInput))
    expect(error).toMatchObject({ code: 'RUN_COLLECTIVE_MISMATCH', exitCode: 5 })
    expect(error.message).toMatch(/collective (4 met collective 6|6 met collective 4) of rank/)
  })

  it('leaves a step that is stopped', async () => {
    const engine = await start(chain(), { faults: { rank: 0, step: 0, kind: 'hang' }, hangSeconds: 0.5 })
    const step = failureOf(engine.step(noInput))
    await engine.stop()
    expect(await step).toMatchObject({ exitCode: 130, code: 'RUN_STOPPED' })
    expect(await failureOf(engine.step(noInput))).toMatchObject({ code: 'RUN_STOPPED' })
  })

  it('refuses state and input that do not fit', async () => {
    const engine = await start(chain())
    await expect(engine.writeState(tensors({ a: [1, 2] }))).rejects.toMatchObject({
      code: 'ENGINE_STATE_MISSING',
      hint: expect.any(String),
    })
    await expect(engine.writeState(tensors({ a: [1, 2], b: [1, 2, 3] }))).rejects.toMatchObject({
      code: 'ENGINE_STATE_SHAPE',
      hint: 'give the state of the model that the program was made for',
    })
  })
})

describe('values that are not finite', () => {
  const dtype = 'f32'
  const logOfDifference = makeGraph((builder) => {
    const x = builder.input('x', 'activation', { dtype, shape: [2] })
    builder.startBlock('h.0')
    const same = builder.one('sub', [x, x], {})
    builder.startBlock('h.1')
    builder.output('y', builder.one('div', [same, same], {}))
  })

  it('names the op that made a NaN, its block and place', async () => {
    const engine = await start(chain(logOfDifference))
    await engine.writeState(tensors({ a: [1, 2], b: [0, 0] }))
    const error = await failureOf(engine.step(noInput))
    expect(error).toMatchObject({ code: 'RUN_NOT_FINITE', exitCode: 5 })
    expect(error.message).toMatch(
      /^rank 0, stage 3, micro-batch 2, .*y is NaN at element 0: first in the output of op div of block h\.1 \(f32\[2\], f32\[2\]\)$/,
    )
  })

  it('tells an overflow of float32', async () => {
    const square = makeGraph((builder) => {
      const x = builder.input('x', 'activation', { dtype, shape: [2] })
      builder.output('y', builder.one('exp', [builder.one('mul', [x, x], {})], {}))
    })
    const engine = await start(chain(square))
    await engine.writeState(tensors({ a: [1, 15], b: [0, 0] }))
    const error = await failureOf(engine.step(noInput))
    expect(error.message).toMatch(
      /y is Infinity at element 1: first in the output of op exp .*float32 overflows/,
    )
  })

  it('says when an input was not finite to begin with', async () => {
    const engine = await start(chain())
    await engine.writeState(tensors({ a: [1, Number.NaN], b: [0, 0] }))
    const error = await failureOf(engine.step(noInput))
    expect(error.message).toMatch(/y is NaN at element 1: its input x already is NaN at element 1/)
  })

  it('lets them pass where that is asked for', async () => {
    const engine = await start(chain(logOfDifference), { checkFinite: false })
    await engine.writeState(tensors({ a: [1, 2], b: [0, 0] }))
    await engine.step(noInput)
    expect([...(await engine.readState()).get('b')!.data]).toEqual([Number.NaN, Number.NaN])
  })
})
