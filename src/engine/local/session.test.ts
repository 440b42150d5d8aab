import { createRequire } from 'node:module'
import { beforeAll, describe, expect, it } from 'vitest'
import { makeGraph } from '../../../test/support/enginePrograms.ts'
import { type Place, placeData } from './arena.ts'
import { withNullOutput } from './nullOutputModel.ts'
import { encodeOnnxModel } from './onnx/index.ts'
import { noRuntimeError, openRuntime, probeGraph, type Runtime, Session } from './session.ts'
import { createMemory } from './wasm/index.ts'

const graph = makeGraph((builder) => {
  const x = builder.input('x', 'activation', { dtype: 'f64', shape: [2, 2] })
  const ids = builder.input('ids', 'data', { dtype: 'i32', shape: [3] })
  builder.output('rows', builder.one('gather', [x, ids], {}))
  builder.output('product', builder.one('matmul', [x, x], { transposeA: false, transposeB: false, scale: 1 }))
  builder.output(
    'positive',
    builder.one('less', [builder.one('fill', [], { shape: [], dtype: 'f64', value: 0 }), x], {}),
  )
})

describe('a session', () => {
  let runtime: Runtime
  beforeAll(async () => {
    runtime = await openRuntime(withNullOutput(encodeOnnxModel(probeGraph)))
  })

  it('may leave outputs in place with the version we pin', () => {
    expect(runtime.leavesOutputs).toBe(true)
  })

  for (const leavesOutputs of [true, false])
    it(`writes all outputs where it is told (${leavesOutputs ? 'in place' : 'copied'})`, async () => {
      const session = await Session.create(
        { ...runtime, leavesOutputs },
        withNullOutput(encodeOnnxModel(graph)),
      )
      const memory = createMemory(1024)
      const inputs: Place[] = [
        { pointer: 64, dtype: 'f64', shape: [2, 2], count: 4 },
        { pointer: 128, dtype: 'i32', shape: [3], count: 3 },
      ]
      const outputs: Place[] = [
        { pointer: 192, dtype: 'f64', shape: [3, 2], count: 6 },
        // At an odd element, as in a pack.
        { pointer: 264, dtype: 'f64', shape: [2, 2], count: 4 },
        { pointer: 384, dtype: 'bool', shape: [2, 2], count: 4 },
      ]
      placeData(memory, inputs[0]!).set([1, 2, -3, 4])
      placeData(memory, inputs[1]!).set([1, 0, 1])
      const run = session.bind(memory, inputs, outputs)
      for (let turn = 0; turn < 2; turn++) {
        outputs.forEach((place) => {
          placeData(memory, place).fill(9)
        })
        await run()
        expect([...placeData(memory, outputs[0]!)]).toEqual([-3, 4, 1, 2, -3, 4])
        expect([...placeData(memory, outputs[1]!)]).toEqual([-5, 10, -15, 10])
        expect([...placeData(memory, outputs[2]!)]).toEqual([1, 1, 0, 1])
        // What the run is given may change between runs.
        placeData(memory, inputs[0]!).set([1, 2, -3, 4])
      }
      placeData(memory, inputs[1]!).set([0, 5, 0])
      await expect(run()).rejects.toThrow(/out of.*bounds/)
      await session.release()
    })

  it('says what to install where ONNX Runtime is missing', () => {
    // In a folder above which nothing is installed, as Node puts it.
    let thrown: unknown
    try {
      createRequire('/nowhere/at/all.js').resolve('onnxruntime-node')
    } catch (error) {
      thrown = error
    }
    const error = noRuntimeError(thrown)
    expect(error).toMatchObject({
      code: 'ENGINE_NO_ONNXRUNTIME',
      message: 'running needs ONNX Runtime, which is not installed',
    })
    expect(error.hint).toContain('npm install onnxruntime-node@')
  })

  it('tells what is installed and does not load from what is not installed', () => {
    const lacking = Object.assign(
      new Error("Cannot find module '../bin/binding.node'\nRequire stack:\n- a"),
      {
        code: 'MODULE_NOT_FOUND',
      },
    )
    expect(noRuntimeError(lacking).message).toBe(
      "ONNX Runtime is installed but does not load: Cannot find module '../bin/binding.node'",
    )
  })
})
