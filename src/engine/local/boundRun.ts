import { internalError, MeshwrightError } from '../../base/index.ts'
import { type FloatDType, isFloat } from '../../graph/index.ts'
import { type Place, placeBytes, placeData } from './arena.ts'
import type { AfterStep, Check, GraphRunPlan, KernelRunPlan } from './runPlan.ts'
import type { Session } from './session.ts'
import type { FusedLoop, HostKernels, WasmMemory } from './wasm/index.ts'

/** One run with its operands in place: `execute` makes no objects but what ONNX Runtime needs. */
export interface BoundRun {
  /** A promise only where the work is done elsewhere. */
  readonly execute: () => Promise<void> | undefined
  readonly finish: () => void
  readonly checks: readonly Check[]
  readonly inputs: readonly Place[]
}

/** What a graph became: one loop, or an ONNX Runtime session. */
export type CompiledGraph = { readonly loop: FusedLoop } | { readonly session: Session }

export function bindGraphRun(
  plan: GraphRunPlan,
  compiled: CompiledGraph,
  memory: WasmMemory,
  kernels: HostKernels,
): BoundRun {
  const after = plan.after.map((step) => bindAfter(step, memory, kernels))
  const { checks, inputs } = plan
  return {
    execute:
      'loop' in compiled
        ? bindLoop(plan, compiled.loop, memory)
        : bindSession(plan, compiled.session, memory),
    finish: () => {
      for (const step of after) step()
    },
    checks,
    inputs,
  }
}

function bindSession(plan: GraphRunPlan, session: Session, memory: WasmMemory): () => Promise<void> {
  return session.bind(memory, plan.inputs, plan.outputs)
}

function bindLoop(plan: GraphRunPlan, loop: FusedLoop, memory: WasmMemory): () => undefined {
  const run = loop.instantiate(memory)
  const places = [...plan.inputs, ...plan.outputs]
  const ports = [...loop.inputs, ...loop.outputs]
  const long = ports.findIndex((port) => !port.scalar)
  const count = long < 0 ? 1 : places[long]!.count
  const pointers = places.map((place) => place.pointer)
  return () => {
    run(count, ...pointers)
  }
}

function bindAfter(step: AfterStep, memory: WasmMemory, kernels: HostKernels): () => void {
  switch (step.kind) {
    case 'copy':
      return () => kernels.copy(step.destination.pointer, step.source.pointer, placeBytes(step.source))
    case 'zero':
      return () => kernels.zero(step.destination.pointer, placeBytes(step.destination))
    case 'add': {
      const { destination, source } = step
      const dtype = floatOf(source)
      return () => kernels.addInto(dtype, destination.pointer, source.pointer, source.count)
    }
    case 'addRows': {
      const { table, ids, values, rowElements, tableRows } = step
      const dtype = floatOf(values)
      return () => {
        const refused = kernels.addRows(
          dtype,
          table.pointer,
          ids.pointer,
          values.pointer,
          ids.count,
          rowElements,
          tableRows,
        )
        if (refused >= 0)
          throw new MeshwrightError(
            'RUN_ID_RANGE',
            `id ${placeData(memory, ids)[refused]} at position ${refused} is not a row of a table of ${tableRows}`,
          )
      }
    }
  }
}

function floatOf(place: Place): FloatDType {
  if (!isFloat(place.dtype)) throw internalError(`a sum of ${place.dtype}`)
  return place.dtype
}

/** `sumSquares`: owner * sum of squares, which costs nothing where the owner is another rank. */
export function bindKernelRun(plan: KernelRunPlan, memory: WasmMemory, kernels: HostKernels): BoundRun {
  const { source, add } = plan
  const dtype = floatOf(source)
  const owner = placeData(memory, plan.owner)
  const destination = placeData(memory, plan.destination)
  return {
    execute: () => {
      const weight = owner[0]!
      const sum = weight === 0 ? 0 : weight * kernels.sumSquares(dtype, source.pointer, source.count)
      destination[0] = add ? destination[0]! + sum : sum
      return undefined
    },
    finish: () => {},
    checks: [],
    inputs: [],
  }
}
