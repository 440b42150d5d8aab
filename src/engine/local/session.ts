import type { InferenceSession, Tensor } from 'onnxruntime-node'
import { MeshwrightError } from '../../base/index.ts'
import type { DType, Graph } from '../../graph/index.ts'
import { type Place, type PlaceData, placeData } from './arena.ts'
import { nullOutputMessage, nullOutputName } from './nullOutput.ts'
import { createMemory, type WasmMemory } from './wasm/index.ts'

/** ONNX Runtime in one worker. */
export interface Runtime {
  readonly ort: OrtModule
  /** Whether runs may leave their outputs where they are (see nullOutput.ts). */
  readonly leavesOutputs: boolean
}

type OrtModule = typeof import('onnxruntime-node')

const elementTypes = { f32: 'float32', f64: 'float64', i32: 'int32', bool: 'bool' } as const

/**
 * One thread a session, because each rank has its own. Plans of reused memory and levels of optimization gain nothing on
 * graphs that are already written well, and the latter would change how results round.
 */
const sessionOptions: InferenceSession.SessionOptions = {
  executionProviders: ['cpu'],
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  executionMode: 'sequential',
  graphOptimizationLevel: 'basic',
  enableMemPattern: false,
  enableCpuMemArena: true,
  // Errors are thrown and reported by us.
  logSeverityLevel: 4,
}

/** ONNX Runtime is an optional dependency: planning and checking go without. */
export function noRuntimeError(cause: unknown): MeshwrightError {
  const reason = loadFailure(cause)
  return new MeshwrightError(
    'ENGINE_NO_ONNXRUNTIME',
    reason === undefined
      ? 'running needs ONNX Runtime, which is not installed'
      : `ONNX Runtime is installed but does not load: ${reason}`,
    { hint: 'install it: npm install onnxruntime-node@1.30.0 --ignore-scripts', cause },
  )
}

/** Why ONNX Runtime does not load, from what importing it threw; undefined where it is not there at all. */
export function loadFailure(cause: unknown): string | undefined {
  const reason = (cause instanceof Error ? cause.message : String(cause)).split('\n')[0]!
  // A module that it needs itself may be the one that is missing.
  return /^Cannot find (module|package) 'onnxruntime-node'/.test(reason) ? undefined : reason
}

/** Graph of the probe: its output has to be written in place. */
export const probeGraph: Graph = {
  values: [{ type: { dtype: 'f32', shape: [4] } }, { type: { dtype: 'f32', shape: [4] } }],
  inputs: [{ name: 'x', kind: 'activation', value: 0 }],
  nodes: [{ op: 'neg', attributes: {}, inputs: [0], outputs: [1], block: -1 }],
  outputs: [{ name: 'y', value: 1 }],
  blocks: [],
}

/** Loads ONNX Runtime and finds out how it can be used. `probe` is `probeGraph` as a model with a null output. */
export async function openRuntime(probe: Uint8Array): Promise<Runtime> {
  let ort: OrtModule
  try {
    const loaded = (await import('onnxruntime-node')) as OrtModule & { default?: OrtModule }
    ort = loaded.default ?? loaded
  } catch (error) {
    throw noRuntimeError(error)
  }
  const runtime = { ort, leavesOutputs: true }
  const memory = createMemory(1)
  const input: Place = { pointer: 64, dtype: 'f32', shape: [4], count: 4 }
  const output: Place = { ...input, pointer: 128 }
  placeData(memory, input).set([1, 2, 3, 4])
  const session = await Session.create(runtime, probe)
  try {
    await session.bind(memory, [input], [output])()
  } catch {
    return { ort, leavesOutputs: false }
  } finally {
    await session.release()
  }
  return { ort, leavesOutputs: placeData(memory, output).join() === '-1,-2,-3,-4' }
}

/** A compiled graph. */
export class Session {
  private readonly runtime: Runtime
  private readonly session: InferenceSession

  private constructor(runtime: Runtime, session: InferenceSession) {
    this.runtime = runtime
    this.session = session
  }

  static async create(runtime: Runtime, model: Uint8Array): Promise<Session> {
    // A copy: ONNX Runtime takes no shared memory.
    const bytes = new Uint8Array(model)
    return new Session(runtime, await runtime.ort.InferenceSession.create(bytes, sessionOptions))
  }

  /** A run with these operands, in the graph's order. All objects are made here, none in the run. */
  bind(memory: WasmMemory, inputs: readonly Place[], outputs: readonly Place[]): () => Promise<void> {
    const { session, runtime } = this
    const tensor = (place: Place): Tensor => this.tensor(placeData(memory, place), place.dtype, place.shape)
    const feeds = Object.fromEntries(
      inputs.map((place, index) => [session.inputNames[index]!, tensor(place)]),
    )
    const outputNames = session.outputNames.filter((name) => name !== nullOutputName)
    if (runtime.leavesOutputs) {
      const fetches: Record<string, Tensor | null> = { [nullOutputName]: null }
      outputs.forEach((place, index) => {
        fetches[outputNames[index]!] = tensor(place)
      })
      return async () => {
        try {
          await session.run(feeds, fetches)
        } catch (error) {
          if (!(error instanceof Error) || error.message !== nullOutputMessage) throw error
          return
        }
        throw new Error('ONNX Runtime returned outputs that it was to leave in place')
      }
    }
    const targets = outputs.map((place, index) => ({
      name: outputNames[index]!,
      data: placeData(memory, place),
    }))
    const fetches = targets.map((target) => target.name)
    return async () => {
      const results = await session.run(feeds, fetches)
      for (const { name, data } of targets) data.set(results[name]!.data as PlaceData)
    }
  }

  release(): Promise<void> {
    return this.session.release()
  }

  private tensor(data: PlaceData, dtype: DType, shape: readonly number[]): Tensor {
    return new this.runtime.ort.Tensor(elementTypes[dtype], data, shape)
  }
}
