import { internalError } from '../../base/index.ts'
import type { Instruction, Operand, Task } from '../../program/index.ts'
import { gibibytes, noMemoryError } from '../memory.ts'
import type { ArenaLayout } from './arena.ts'
import { type BoundRun, bindGraphRun, bindKernelRun, type CompiledGraph } from './boundRun.ts'
import { arenaTooLarge, rankLimit } from './capacity.ts'
import type { WorkerSetup } from './protocol.ts'
import { type GraphRunPlan, type KernelRunPlan, planGraphRun, planKernelRun } from './runPlan.ts'
import { openRuntime, type Runtime, Session } from './session.ts'
import {
  canFuse,
  compileElementwise,
  createMemory,
  type HostKernels,
  hostKernels,
  type WasmMemory,
} from './wasm/index.ts'

/** Everything a rank can run, compiled and bound to its memory. */
export interface Runs {
  readonly memory: WasmMemory
  readonly kernels: HostKernels
  readonly runtime: () => Promise<Runtime>
  /** By instruction. Runs with the same operands in the same places share one. */
  readonly bound: ReadonlyMap<number, BoundRun>
  /** The largest that a task needs beside its operands. */
  readonly workspaceBytes: number
  release(): Promise<void>
}

type Run = Extract<Instruction, { kind: 'run' }>

export async function prepareRuns(
  setup: WorkerSetup,
  instructions: readonly Instruction[],
  arena: ArenaLayout,
): Promise<Runs> {
  const plans = new Map<string, GraphRunPlan | KernelRunPlan>()
  const keys = new Map<number, string>()
  instructions.forEach((instruction, index) => {
    if (instruction.kind !== 'run') return
    const key = runKey(instruction, arena)
    keys.set(index, key)
    if (!plans.has(key)) plans.set(key, planRun(instruction, setup, arena))
  })
  const workspaceBytes = Math.max(
    0,
    ...[...plans.values()].map((plan) => (plan.kind === 'graph' ? plan.workspaceBytes : 0)),
  )
  const memory = privateMemory(arena.bytes + workspaceBytes, setup.rank)
  const kernels = hostKernels(memory)
  let opened: Promise<Runtime> | undefined
  const runtime = (): Promise<Runtime> => {
    opened ??= openRuntime(setup.probe)
    return opened
  }
  const compiled = await compileGraphs(setup, runtime)
  const boundByKey = new Map<string, BoundRun>()
  const bound = new Map<number, BoundRun>()
  for (const [index, key] of keys) {
    let made = boundByKey.get(key)
    if (made === undefined) {
      const task = taskOf(setup, instructions[index] as Run)
      const plan = plans.get(key)!
      made =
        plan.kind === 'kernel'
          ? bindKernelRun(plan, memory, kernels)
          : bindGraphRun(plan, compiled.get(task.hash)!, memory, kernels)
      boundByKey.set(key, made)
    }
    bound.set(index, made)
  }
  return {
    memory,
    kernels,
    runtime,
    bound,
    workspaceBytes,
    release: async () => {
      for (const graph of compiled.values()) if ('session' in graph) await graph.session.release()
    },
  }
}

function planRun(run: Run, setup: WorkerSetup, arena: ArenaLayout): GraphRunPlan | KernelRunPlan {
  const task = taskOf(setup, run)
  if (task.kind === 'missing') throw internalError(`no engine runs ${task.name}: ${task.missing}`)
  if (task.kind === 'kernel') return planKernelRun(run, arena)
  const { role, program } = setup
  const submesh = program.mesh.submeshes[role.pipeline] ?? []
  return planGraphRun(run, task, role, submesh, arena, arena.bytes, !setup.models.has(task.hash))
}

function taskOf(setup: WorkerSetup, run: Run): Task {
  const task = setup.tasks.get(run.task)
  if (task === undefined) throw internalError(`rank ${setup.rank} was not given task ${run.task}`)
  return task
}

/** Runs of one task on the same places are one: micro-batches that take turns in a slot share their operands. */
function runKey(run: Run, arena: ArenaLayout): string {
  const text = (operand: Operand): string => {
    const { pointer, count } = arena.operand(operand)
    return `${pointer}+${count}`
  }
  const writes = run.writes.map((write) => `${write.mode} ${text(write)}`)
  return `${run.task} ${run.reads.map(text).join()} -> ${writes.join()}`
}

async function compileGraphs(
  setup: WorkerSetup,
  runtime: () => Promise<Runtime>,
): Promise<Map<string, CompiledGraph>> {
  const compiled = new Map<string, CompiledGraph>()
  for (const task of setup.tasks.values()) {
    if (task.kind !== 'graph' || compiled.has(task.hash)) continue
    const model = setup.models.get(task.hash)
    if (model !== undefined) {
      compiled.set(task.hash, { session: await Session.create(await runtime(), model) })
    } else if (canFuse(task.graph)) compiled.set(task.hash, { loop: compileElementwise(task.graph) })
    else throw internalError(`no model for task ${task.name}`)
  }
  return compiled
}

function privateMemory(bytes: number, rank: number): WasmMemory {
  if (bytes > rankLimit) throw arenaTooLarge(rank, bytes)
  try {
    return createMemory(bytes)
  } catch (cause) {
    throw noMemoryError(
      `the system does not give rank ${rank} the ${gibibytes(bytes)} its tensors need`,
      'use fewer ranks, smaller micro-batches or a smaller model',
      cause,
    )
  }
}
