import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { internalError } from '../../base/index.ts'
import { type Program, type Role, readInstructions, rolesByRank, type Task } from '../../program/index.ts'
import { gibibytes, noMemoryError } from '../memory.ts'
import type { Engine } from '../types.ts'
import { roomProblem } from './capacity.ts'
import { Crew } from './crew.ts'
import { LocalEngine } from './engine.ts'
import { hostLayout } from './hostLayout.ts'
import { withNullOutput } from './nullOutputModel.ts'
import { encodeOnnxModel } from './onnx/index.ts'
import type { Fault, WorkerSetup } from './protocol.ts'
import { noRuntimeError, probeGraph } from './session.ts'
import { Signals, type SpinTimes } from './signals.ts'
import { requireSupported } from './support.ts'
import { canFuse, createMemory, maximumPages, pageBytes, type WasmMemory } from './wasm/index.ts'

export interface LocalEngineOptions {
  /** Give times of every instruction with each step. Default false. */
  readonly trace?: boolean
  /** Look through what tasks make for NaN and infinity, and end the run at the first. Default true. */
  readonly checkFinite?: boolean
  /** A step in which no rank gets on for so long, while one waits, has hung. Default 300. */
  readonly hangSeconds?: number
  /** For timing: what no one fills begins as small positive numbers, the same in every run, not as zeros. Default false. */
  readonly noise?: boolean
  /** For tests of faults. */
  readonly faults?: Fault
}

const spinMilliseconds = 0.1

/** Between steps the thread that gives them needs a core too. */
function spinTimes(ranks: number): SpinTimes {
  const cores = availableParallelism()
  return { step: ranks <= cores ? spinMilliseconds : 0, idle: ranks < cores ? spinMilliseconds : 0 }
}

/**
 * Starts a worker for each rank of `program`. Whoever calls this must call `stop()`, after a failure too. Throws
 * MeshwrightError `ENGINE_NO_ONNXRUNTIME` where onnxruntime-node is not installed, `ENGINE_NO_MEMORY` and
 * `ENGINE_ARENA_TOO_LARGE` where the ranks' tensors find no room; what is certain not to fit is refused before anything
 * is made.
 */
export async function createLocalEngine(program: Program, options: LocalEngineOptions = {}): Promise<Engine> {
  requireSupported(program)
  requireRuntime()
  const problem = roomProblem([program])
  if (problem !== undefined) throw problem
  const roles = rolesByRank(program)
  const layout = hostLayout(program, roles, options.trace ?? false)
  const host = sharedMemory(layout.bytes)
  const signals = new Signals(host.buffer, roles.length)
  const crew = new Crew(program, roles, signals, options.hangSeconds ?? 300)
  const models = encodeModels(program.tasks)
  const probe = encodeModel(probeGraph)
  const { mesh, groups } = program
  const setups = roles.map(
    (role, rank): WorkerSetup => ({
      rank,
      program: { mesh, groups },
      role,
      tasks: tasksOf(program, role),
      models,
      probe,
      host,
      layout,
      checkFinite: options.checkFinite ?? true,
      spin: spinTimes(roles.length),
      noise: options.noise ?? false,
      fault: options.faults?.rank === rank ? options.faults : undefined,
    }),
  )
  await crew.start(setups, workerFile())
  return new LocalEngine(program, roles, layout, host, crew)
}

/** Node runs no TypeScript here: from sources, workers are taken from the build beside them. */
function workerFile(): URL {
  const here = import.meta.url
  if (!here.endsWith('.ts')) return new URL('./worker.js', here)
  const built = new URL('../../../dist/engine/local/worker.js', here)
  if (!existsSync(built)) throw internalError('workers run from the build: npm run build')
  return built
}

function requireRuntime(): void {
  try {
    createRequire(import.meta.url).resolve('onnxruntime-node')
  } catch (error) {
    throw noRuntimeError(error)
  }
}

/** A model for each graph that cannot be one loop. All workers read the same bytes. */
function encodeModels(tasks: readonly Task[]): Map<string, Uint8Array> {
  const models = new Map<string, Uint8Array>()
  for (const task of tasks)
    if (task.kind === 'graph' && !models.has(task.hash) && !canFuse(task.graph))
      models.set(task.hash, encodeModel(task.graph))
  return models
}

function encodeModel(graph: Parameters<typeof encodeOnnxModel>[0]): Uint8Array {
  const model = withNullOutput(encodeOnnxModel(graph))
  const shared = new Uint8Array(new SharedArrayBuffer(model.length))
  shared.set(model)
  return shared
}

function tasksOf(program: Program, role: Role): Map<number, Task> {
  const tasks = new Map<number, Task>()
  for (const instruction of readInstructions(role.code))
    if (instruction.kind === 'run') tasks.set(instruction.task, program.tasks[instruction.task]!)
  return tasks
}

function sharedMemory(bytes: number): WasmMemory {
  try {
    if (bytes <= maximumPages * pageBytes) return createMemory(bytes, { shared: true })
  } catch {
    // As below.
  }
  throw noMemoryError(
    `mailboxes and ports need ${gibibytes(bytes)} of shared memory`,
    'send less at a time: smaller micro-batches or reduction buckets',
  )
}
