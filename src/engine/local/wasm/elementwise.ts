import { internalError } from '../../../base/index.ts'
import type { FloatDType, Graph, ValueId } from '../../../graph/index.ts'
import { encodeModule, FunctionWriter, type Local } from './encoder.ts'
import { type Fusion, planFusion } from './fusible.ts'
import { countedLoop, type Pointer } from './loop.ts'
import { floatType, scalarType, writeScalarNode } from './scalars.ts'
import { registerCount, shapeOf, writeVectorNode } from './vectors.ts'
import {
  compileModule,
  instantiateModule,
  isShared,
  type WasmMemory,
  type WasmModule,
} from './webassembly.ts'

export interface FusedPort {
  readonly name: string
  readonly dtype: FloatDType
  /** One element, whatever `count` is. */
  readonly scalar: boolean
}

/** An elementwise graph as one loop over its elements. */
export interface FusedLoop {
  readonly inputs: readonly FusedPort[]
  readonly outputs: readonly FusedPort[]
  /** The compiled module, which exports `run(count, ...inputs, ...outputs)`. */
  module(options: { readonly shared: boolean }): WasmModule
  instantiate(memory: WasmMemory): FusedRun
}

/**
 * Computes `count` elements. `offsets` are byte offsets into the memory: inputs, then outputs, in the graph's order,
 * each aligned to its elements. An output may begin exactly where an input of the same dtype does; no two outputs
 * may overlap, nor an output and a part of another operand.
 */
export type FusedRun = (count: number, ...offsets: number[]) => void

/** Whether `compileElementwise` takes this graph. */
export function canFuse(graph: Graph): boolean {
  return typeof planFusion(graph) !== 'string'
}

/**
 * Compiles a graph whose values all have the same number of elements or one. The number is an operand of the run, so
 * one loop serves any size; only a graph without any longer value always computes one element.
 *
 * Every element is computed by IEEE 754 operations of its dtype in the graph's order: no contraction, no
 * reassociation, the same bits (but for the payload of a NaN) whether it falls into a vector or into the rest.
 *
 * @throws where `canFuse` says no: callers ask first.
 */
export function compileElementwise(graph: Graph): FusedLoop {
  const fusion = planFusion(graph)
  if (typeof fusion === 'string') throw internalError(`graph cannot be one loop: ${fusion}`)
  const port = ({ name, value }: { readonly name: string; readonly value: ValueId }): FusedPort => ({
    name,
    dtype: floatType(graph, value),
    scalar: !fusion.long[value],
  })
  const inputs = graph.inputs.map(port)
  const outputs = graph.outputs.map(port)
  const writer = writeLoop(fusion)
  const modules = new Map<boolean, WasmModule>()
  const module: FusedLoop['module'] = ({ shared }) => {
    const known = modules.get(shared) ?? compileModule(encodeModule([writer], { shared }))
    modules.set(shared, known)
    return known
  }
  return {
    inputs,
    outputs,
    module,
    instantiate: (memory) => {
      const run = instantiateModule(module({ shared: isShared(memory) }), memory)['run']!
      return (count, ...offsets) => {
        checkOperands(memory, inputs, outputs, count, offsets)
        run(count, ...offsets)
      }
    },
  }
}

/** Groups in one turn of the vector loop: several where the code stays small enough for it. */
function groupsPerTurn(fusion: Fusion): number {
  return fusion.graph.nodes.length <= 60 ? 4 : 1
}

function writeLoop(fusion: Fusion): FunctionWriter {
  const { graph, long, uniform, lanes } = fusion
  const ports = [...graph.inputs, ...graph.outputs]
  const writer = new FunctionWriter('run', ['i32', ...ports.map(() => 'i32' as const)])
  const remaining: Local = 0
  const pointers = ports.map(
    ({ value }, index): Pointer => ({ local: 1 + index, bytes: floatType(graph, value) === 'f32' ? 4 : 8 }),
  )
  const inputPointers = new Map<ValueId, Pointer>()
  graph.inputs.forEach(({ value }, index) => {
    inputPointers.set(value, pointers[index]!)
  })
  const outputs = graph.outputs.map(({ value }, index) => ({
    value,
    pointer: pointers[graph.inputs.length + index]!,
  }))
  const moving = pointers.filter((_, index) => long[ports[index]!.value])

  const uniforms = writeUniforms(writer, fusion, inputPointers)
  const scalarOutputs = outputs.filter(({ value }) => !long[value])
  const longOutputs = outputs.filter(({ value }) => long[value])
  if (longOutputs.length > 0) {
    const splats = writeSplats(writer, fusion, uniforms)
    const groups = groupsPerTurn(fusion)
    countedLoop(writer, remaining, groups * lanes, moving, () => {
      for (let group = 0; group < groups; group++) {
        const load = (value: ValueId): readonly Local[] =>
          loadGroup(writer, fusion, value, inputPointers.get(value)!, group)
        const registersOf = evaluator(splats, load)
        for (const node of graph.nodes)
          if (!uniform[node.outputs[0]!])
            registersOf.set(node.outputs[0]!, writeVectorNode(writer, fusion, node, registersOf.get))
        // All loads come before all stores, or an output in an input's place could spoil it.
        const made = longOutputs.map(({ value }) => registersOf.get(value))
        longOutputs.forEach(({ value, pointer }, index) => {
          storeGroup(writer, fusion, value, made[index]!, pointer, group)
        })
      }
    })
    countedLoop(writer, remaining, 1, moving, () => {
      const load = (value: ValueId): Local => loadElement(writer, fusion, value, inputPointers.get(value)!)
      const scalarOf = evaluator(uniforms, load)
      for (const node of graph.nodes)
        if (!uniform[node.outputs[0]!]) {
          writeScalarNode(writer, graph, node, scalarOf.get)
          scalarOf.set(node.outputs[0]!, keep(writer, fusion, node.outputs[0]!))
        }
      const made = longOutputs.map(({ value }) => scalarOf.get(value))
      longOutputs.forEach(({ value, pointer }, index) => {
        storeElement(writer, fusion, made[index]!, value, pointer)
      })
    })
  }
  // Last, so that they may take the place of any input.
  for (const { value, pointer } of scalarOutputs)
    storeElement(writer, fusion, uniforms.get(value)!, value, pointer)
  return writer
}

/** Values known so far over those that are always known; what is in neither is loaded when first asked for. */
function evaluator<T>(
  always: ReadonlyMap<ValueId, T>,
  load: (value: ValueId) => T,
): { get: (value: ValueId) => T; set: (value: ValueId, made: T) => void } {
  const made = new Map<ValueId, T>()
  const set = (value: ValueId, result: T): void => {
    made.set(value, result)
  }
  const get = (value: ValueId): T => {
    const known = made.get(value) ?? always.get(value)
    if (known !== undefined) return known
    const loaded = load(value)
    made.set(value, loaded)
    return loaded
  }
  return { get, set }
}

/** Computes what is the same for all elements, each value into a local. */
function writeUniforms(
  writer: FunctionWriter,
  fusion: Fusion,
  inputs: ReadonlyMap<ValueId, Pointer>,
): Map<ValueId, Local> {
  const { graph, uniform } = fusion
  const uniforms = new Map<ValueId, Local>()
  for (const [value, pointer] of inputs)
    if (uniform[value]) uniforms.set(value, loadElement(writer, fusion, value, pointer))
  for (const node of graph.nodes) {
    const output = node.outputs[0]!
    if (!uniform[output]) continue
    writeScalarNode(writer, graph, node, (value) => uniforms.get(value)!)
    uniforms.set(output, keep(writer, fusion, output))
  }
  return uniforms
}

/** Each uniform value that the loop reads, in every lane of a register. */
function writeSplats(
  writer: FunctionWriter,
  fusion: Fusion,
  uniforms: ReadonlyMap<ValueId, Local>,
): Map<ValueId, readonly Local[]> {
  const { graph, uniform, long } = fusion
  const read = graph.nodes.filter((node) => !uniform[node.outputs[0]!]).flatMap((node) => node.inputs)
  const stored = graph.outputs.map((output) => output.value).filter((value) => long[value])
  const splats = new Map<ValueId, readonly Local[]>()
  for (const value of new Set([...read, ...stored])) {
    if (!uniform[value]) continue
    const dtype = graph.values[value]!.type.dtype
    if (dtype === 'bool') {
      // 0 or 1 becomes all zeros or all ones.
      writer.i32(0)
      writer.get(uniforms.get(value)!)
      writer.op('i32.sub', 'i32x4.splat')
    } else {
      writer.get(uniforms.get(value)!)
      writer.op(`${shapeOf(floatType(graph, value))}.splat`)
    }
    const register = writer.local('v128')
    writer.set(register)
    splats.set(
      value,
      Array.from({ length: registerCount(fusion, dtype) }, () => register),
    )
  }
  return splats
}

function loadGroup(
  writer: FunctionWriter,
  fusion: Fusion,
  value: ValueId,
  { local, bytes }: Pointer,
  group: number,
): readonly Local[] {
  const dtype = floatType(fusion.graph, value)
  return Array.from({ length: registerCount(fusion, dtype) }, (_, register) => {
    writer.get(local)
    writer.memory('v128.load', group * fusion.lanes * bytes + 16 * register)
    const loaded = writer.local('v128')
    writer.set(loaded)
    return loaded
  })
}

function storeGroup(
  writer: FunctionWriter,
  fusion: Fusion,
  value: ValueId,
  registers: readonly Local[],
  { local, bytes }: Pointer,
  group: number,
): void {
  const count = registerCount(fusion, floatType(fusion.graph, value))
  for (let register = 0; register < count; register++) {
    writer.get(local)
    writer.get(registers[register]!)
    writer.memory('v128.store', group * fusion.lanes * bytes + 16 * register)
  }
}

function loadElement(writer: FunctionWriter, fusion: Fusion, value: ValueId, { local }: Pointer): Local {
  writer.get(local)
  writer.memory(`${floatType(fusion.graph, value)}.load`, 0)
  return keep(writer, fusion, value)
}

function storeElement(
  writer: FunctionWriter,
  fusion: Fusion,
  element: Local,
  value: ValueId,
  { local }: Pointer,
): void {
  writer.get(local)
  writer.get(element)
  writer.memory(`${floatType(fusion.graph, value)}.store`, 0)
}

/** What is on the stack, in a new local of the value's dtype. */
function keep(writer: FunctionWriter, fusion: Fusion, value: ValueId): Local {
  const local = writer.local(scalarType(fusion.graph.values[value]!.type.dtype))
  writer.set(local)
  return local
}

function checkOperands(
  memory: WasmMemory,
  inputs: readonly FusedPort[],
  outputs: readonly FusedPort[],
  count: number,
  offsets: readonly number[],
): void {
  const ports = [...inputs, ...outputs]
  if (offsets.length !== ports.length)
    throw internalError(`a fused loop of ${ports.length} operands was given ${offsets.length}`)
  if (!Number.isSafeInteger(count) || count < 0) throw internalError(`a fused loop over ${count} elements`)
  const ends = ports.map(({ name, dtype, scalar }, index) => {
    const elementBytes = dtype === 'f32' ? 4 : 8
    const start = offsets[index]!
    const end = start + (scalar ? 1 : count) * elementBytes
    if (
      !Number.isSafeInteger(start) ||
      start < 0 ||
      start % elementBytes !== 0 ||
      end > memory.buffer.byteLength
    )
      throw internalError(`operand ${name} of a fused loop is at bytes ${start} to ${end}`)
    return end
  })
  for (let output = inputs.length; output < ports.length; output++)
    for (let other = 0; other < output; other++) {
      const apart = ends[other]! <= offsets[output]! || ends[output]! <= offsets[other]!
      const inPlace =
        other < inputs.length &&
        (ports[other]!.scalar ||
          (offsets[other] === offsets[output] && ports[other]!.dtype === ports[output]!.dtype))
      // Inputs are all read before a scalar output is written; outputs must keep apart in any case.
      const readBefore = other < inputs.length && ports[output]!.scalar
      if (!apart && !inPlace && !readBefore)
        throw internalError(
          `operands ${ports[other]!.name} and ${ports[output]!.name} of a fused loop overlap`,
        )
    }
}
