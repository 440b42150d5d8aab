import { spawn } from 'node:child_process'
import { serialize } from 'node:v8'
import { describe, expect, it } from 'vitest'
import { graphTask, handmade, makeGraph, noInput, stateBuffer } from '../../../test/support/enginePrograms.ts'
import type { Instruction, Program } from '../../program/index.ts'

/** Rank 0 multiplies a matrix over and over, then sends it to rank 1, which waits. */
function slowProgram(): Program {
  const graph = makeGraph((builder) => {
    let x = builder.input('x', 'activation', { dtype: 'f32', shape: [256, 256] })
    for (let turn = 0; turn < 40; turn++)
      x = builder.one('matmul', [x, x], { transposeA: turn % 2 === 0, transposeB: false, scale: 1 })
    builder.output('y', x)
  })
  const values = [0, 1].map((step) => ({ buffer: 0, step, slot: 0 }))
  const run: Instruction = {
    kind: 'run',
    stream: 0,
    task: 0,
    reads: [{ value: 0 }],
    writes: [{ value: 1, mode: 'set' }],
  }
  const part = (direction: 'send' | 'recv'): Instruction => ({
    kind: 'exchange',
    stream: 1,
    parts: [{ direction, transfer: 0, value: 1, peer: 0 }],
  })
  const codes = [
    [run, run, run, part('send')],
    [part('recv'), run],
  ]
  return handmade({
    replicas: [1, 1],
    tasks: [graphTask('F', graph)],
    roles: codes.map((code, pipeline) => ({
      pipeline,
      buffers: [stateBuffer(`s${pipeline}`, [256, 256])],
      values,
      peers: [{ pipeline: 1 - 2 * pipeline, axes: [] }],
      code,
    })),
  })
}

/** Runs a script against the built engine in a process of its own; it has to end by itself. */
async function script(
  body: string,
  during?: (child: ReturnType<typeof spawn>, line: string) => void,
): Promise<{ code: number | null; out: string; error: string }> {
  const engine = new URL('../../../dist/engine/index.js', import.meta.url)
  const source = `
    import { readFileSync } from 'node:fs'
    import { deserialize } from 'node:v8'
    import { createLocalEngine } from '${engine}'
    const program = deserialize(readFileSync(0))
    const noInput = ${JSON.stringify(noInput)}
    ${body}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', source])
  child.stdin.end(serialize(slowProgram()))
  let out = ''
  let error = ''
  child.stdout.on('data', (data: Buffer) => {
    out += data.toString()
    during?.(child, data.toString())
  })
  child.stderr.on('data', (data: Buffer) => {
    error += data.toString()
  })
  const code = await new Promise<number | null>((resolve) => {
    child.on('exit', resolve)
  })
  return { code, out, error }
}

describe('the process around an engine', () => {
  it('ends by itself after stop()', async () => {
    const result = await script(`
      const engine = await createLocalEngine(program)
      await engine.step(noInput)
      await engine.stop()
      console.log('stopped')`)
    expect(result).toEqual({ code: 0, out: 'stopped\n', error: '' })
  })

  it('ends by itself after a worker died and after a start that was refused', async () => {
    // Slots of 256 KiB: all that a rank may have but one, and a worker finds that its task needs one more.
    const result = await script(`
      const engine = await createLocalEngine(program, { faults: { rank: 0, step: 0, kind: 'exit' } })
      await engine.step(noInput).catch((error) => console.log(error.code))
      await engine.stop()
      program.roles[0].pools[0].slots = 2 ** 14 - 1
      await createLocalEngine(program).catch((error) => console.log(error.code, error.exitCode, error.hint))`)
    const hint = 'use more stages, smaller micro-batches or a smaller model'
    expect(result).toEqual({
      code: 0,
      out: `RUN_WORKER_DIED\nENGINE_ARENA_TOO_LARGE 3 ${hint}\n`,
      error: '',
    })
  })

  it('is whole after an interrupt in the middle of a step', async () => {
    let interrupted = false
    const result = await script(
      `
      const engine = await createLocalEngine(program, { checkFinite: false })
      process.on('SIGINT', () => engine.stop().then(() => console.log('stopped')))
      console.log('running')
      try {
        for (;;) await engine.step(noInput)
      } catch (error) {
        console.log(error.code)
        process.exitCode = error.exitCode
      }`,
      (child, line) => {
        if (interrupted || !line.includes('running')) return
        interrupted = true
        setTimeout(() => child.kill('SIGINT'), 150)
      },
    )
    expect(result).toEqual({
      code: 130,
      out: expect.stringMatching(/^running\nRUN_STOPPED\nstopped\n$/),
      error: '',
    })
  })
})
