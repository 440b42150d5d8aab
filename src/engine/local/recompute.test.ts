import { beforeAll, describe, expect, it } from 'vitest'
import { smallModel } from '../../../test/support/smallModels.ts'
import {
  differentiateStage,
  elementCount,
  type Graph,
  type RecomputeChoice,
  splitStages,
} from '../../graph/index.ts'
import { type Place, placeBytes, placeData } from './arena.ts'
import { withNullOutput } from './nullOutputModel.ts'
import { encodeOnnxModel } from './onnx/index.ts'
import { openRuntime, probeGraph, type Runtime, Session } from './session.ts'
import { canFuse, createMemory } from './wasm/index.ts'

type Values = ReadonlyMap<string, ArrayLike<number>>

/** Runs a task as the engine does; floats come back as they are, bit for bit. */
async function runTask(runtime: Runtime, graph: Graph, values: Values): Promise<Map<string, Uint8Array>> {
  // The engine would make one loop of it, which rounds as it likes.
  expect(canFuse(graph)).toBe(false)
  const session = await Session.create(runtime, withNullOutput(encodeOnnxModel(graph)))
  let end = 64
  const placeOf = ({ value }: { readonly value: number }): Place => {
    const { dtype, shape } = graph.values[value]!.type
    const place = { pointer: end, dtype, shape, count: elementCount(shape) }
    end += Math.ceil(placeBytes(place) / 64) * 64
    return place
  }
  const inputs = graph.inputs.map(placeOf)
  const outputs = graph.outputs.map(placeOf)
  const memory = createMemory(end)
  graph.inputs.forEach(({ name }, index) => {
    placeData(memory, inputs[index]!).set(values.get(name)!)
  })
  await session.bind(memory, inputs, outputs)()
  await session.release()
  return new Map(
    graph.outputs.map(({ name }, index) => {
      const { buffer, byteOffset, byteLength } = placeData(memory, outputs[index]!)
      return [name, new Uint8Array(buffer.slice(byteOffset, byteOffset + byteLength))]
    }),
  )
}

describe('recomputed residuals', () => {
  const sizes = 'layers=2,hidden=64,heads=4,context=32,vocab=96'
  const choices: readonly RecomputeChoice[] = [
    { kind: 'attention' },
    { kind: 'full', blocks: new Set(['h.1', 'layers.1']) },
    { kind: 'full', blocks: () => true },
  ]
  let runtime: Runtime
  beforeAll(async () => {
    runtime = await openRuntime(withNullOutput(encodeOnnxModel(probeGraph)))
  })

  it.each([
    [`gpt:${sizes}`, 'f32'],
    [`gpt:${sizes}`, 'f64'],
    [`llama:${sizes},kvHeads=2`, 'f32'],
    [`llama:${sizes},kvHeads=2`, 'f64'],
  ] as const)('of %s in %s are those of the forward, bit for bit', async (name, dtype) => {
    const { graph, inputs } = smallModel(name, 2, 32, dtype)
    const values = new Map([...inputs].map(([input, { data }]) => [input, data]))
    const [piece] = splitStages(
      graph,
      graph.blocks.map(() => 0),
    )
    const expected = await runTask(runtime, differentiateStage(piece!).F, values)
    for (const [output, bytes] of expected)
      expect(
        bytes.some((byte) => byte !== 0),
        output,
      ).toBe(true)
    for (const recomputation of choices) {
      const { F, R, residuals, recomputed } = differentiateStage(piece!, { recomputation })
      expect(recomputed.length).toBeGreaterThan(0)
      const forward = await runTask(runtime, F, values)
      const floats = [...forward].map(
        ([output, { buffer }]) =>
          [output, dtype === 'f32' ? new Float32Array(buffer) : new Float64Array(buffer)] as const,
      )
      const again = await runTask(runtime, R!, new Map<string, ArrayLike<number>>([...values, ...floats]))
      const all = new Map([...forward, ...again])
      for (const output of ['loss', ...residuals])
        expect(Buffer.compare(all.get(output)!, expected.get(output)!), output).toBe(0)
    }
  })
})
