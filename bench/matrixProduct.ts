import { type Place, placeBytes, placeData } from '../src/engine/local/arena.ts'
import { withNullOutput } from '../src/engine/local/nullOutputModel.ts'
import { encodeOnnxModel } from '../src/engine/local/onnx/index.ts'
import { openRuntime, probeGraph, Session } from '../src/engine/local/session.ts'
import { createMemory } from '../src/engine/local/wasm/index.ts'
import { GraphBuilder } from '../src/graph/index.ts'
import type { ProductSizes } from './types.ts'

/** Runs one [m, k] x [k, n] product in f32 the way the engine runs its tasks: one thread, outputs left in place. */
export async function prepareProduct([m, k, n]: ProductSizes): Promise<() => Promise<number>> {
  const runtime = await openRuntime(withNullOutput(encodeOnnxModel(probeGraph)))
  const builder = new GraphBuilder()
  const a = builder.input('a', 'activation', { dtype: 'f32', shape: [m, k] })
  const b = builder.input('b', 'activation', { dtype: 'f32', shape: [k, n] })
  builder.output('c', builder.one('matmul', [a, b], { transposeA: false, transposeB: false, scale: 1 }))
  const session = await Session.create(runtime, withNullOutput(encodeOnnxModel(builder.build())))

  let bytes = 64
  const place = (...shape: readonly number[]): Place => {
    const count = shape.reduce((product, size) => product * size, 1)
    const made: Place = { pointer: bytes, dtype: 'f32', shape, count }
    bytes += placeBytes(made)
    return made
  }
  const [left, right, out] = [place(m, k), place(k, n), place(m, n)]
  const memory = createMemory(bytes)
  for (const operand of [left, right]) {
    const values = placeData(memory, operand)
    for (let index = 0; index < values.length; index++) values[index] = Math.sin(index)
  }
  const run = session.bind(memory, [left, right], [out])
  return async () => {
    const began = performance.now()
    await run()
    return (performance.now() - began) / 1000
  }
}
