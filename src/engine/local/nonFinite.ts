import { exitCodes, MeshwrightError } from '../../base/index.ts'
import {
  elementCount,
  formatType,
  type Graph,
  isFloat,
  type Node,
  nonFiniteElement,
  ruleOf,
  type Tensor,
  type ValueId,
} from '../../graph/index.ts'
import { inputElement, outputElement, type RunPlace } from '../elementNames.ts'
import { type Place, placeBytes, placeData } from './arena.ts'
import { withNullOutput } from './nullOutputModel.ts'
import { encodeOnnxModel } from './onnx/index.ts'
import type { Check } from './runPlan.ts'
import { type Runtime, Session } from './session.ts'
import { createMemory, type WasmMemory } from './wasm/index.ts'

/** Nodes whose outputs are looked at in one go: bounds the memory that the search takes. */
const nodesAtOnce = 16

/**
 * Finds out where a task's NaN or infinity came from. First the inputs are looked through; then the graph is run again in
 * pieces, all values of a piece being its outputs, so that the op is found in the arithmetic in which it happened. The
 * op's reference in float64 then tells an overflow from an operand the op is not defined for.
 */
export async function explainNonFinite(
  runtime: Runtime,
  run: RunPlace,
  memory: WasmMemory,
  inputs: readonly Place[],
  check: Check,
  element: number,
): Promise<MeshwrightError> {
  const value = placeData(memory, check.place)[element]
  const { graph } = run.task
  const found = `${check.name} is ${value} at ${outputElement(run, check.output, element)}`
  const values = new Map<ValueId, Tensor>()
  for (const [index, place] of inputs.entries()) {
    const input = graph.inputs[index]!
    const tensor = readTensor(memory, place)
    const bad = isFloat(place.dtype) ? nonFiniteElement(tensor) : undefined
    if (bad !== undefined)
      return nonFiniteError(
        `${found}: its input ${input.name} already is ${tensor.data[bad]} at ${inputElement(run, index, bad)}`,
      )
    values.set(input.value, tensor)
  }
  const origin = await firstNonFiniteNode(runtime, graph, values)
  if (origin === undefined) return nonFiniteError(`${found}; run again op by op, the task stays finite`)
  const { node, output, operands } = origin
  const block = graph.blocks[node.block]
  const where = `op ${node.op}${block === undefined ? '' : ` of block ${block}`}`
  const types = operands.map((operand) => formatType(operand.type)).join(', ')
  return nonFiniteError(
    `${found}: first in the output of ${where} (${types})${overflowNote(graph, node, output, operands)}`,
  )
}

interface Origin {
  readonly node: Node
  readonly output: number
  readonly operands: readonly Tensor[]
}

async function firstNonFiniteNode(
  runtime: Runtime,
  graph: Graph,
  values: Map<ValueId, Tensor>,
): Promise<Origin | undefined> {
  const lastUse = new Map<ValueId, number>()
  graph.nodes.forEach((node, index) => {
    for (const input of node.inputs) lastUse.set(input, index)
  })
  for (let start = 0; start < graph.nodes.length; start += nodesAtOnce) {
    const nodes = graph.nodes.slice(start, start + nodesAtOnce)
    const made = nodes.flatMap((node) => node.outputs)
    const needed = [...new Set(nodes.flatMap((node) => node.inputs))].filter((value) => !made.includes(value))
    const piece: Graph = {
      ...graph,
      nodes,
      inputs: needed.map((value) => ({ name: `v${value}`, kind: 'activation', value })),
      outputs: made.map((value) => ({ name: `v${value}`, value })),
    }
    const tensors = await evaluate(runtime, piece, values)
    made.forEach((value, index) => {
      values.set(value, tensors[index]!)
    })
    for (const node of nodes)
      for (const [output, value] of node.outputs.entries()) {
        const tensor = values.get(value)!
        if (isFloat(tensor.type.dtype) && nonFiniteElement(tensor) !== undefined)
          return { node, output, operands: node.inputs.map((input) => values.get(input)!) }
      }
    for (const value of values.keys())
      if ((lastUse.get(value) ?? -1) < start + nodesAtOnce) values.delete(value)
  }
  return undefined
}

/** Outputs of a small graph, by ONNX Runtime. */
async function evaluate(
  runtime: Runtime,
  graph: Graph,
  values: ReadonlyMap<ValueId, Tensor>,
): Promise<readonly Tensor[]> {
  let top = 0
  const placeOf = ({ value }: { readonly value: ValueId }): Place => {
    const { dtype, shape } = graph.values[value]!.type
    const place: Place = { pointer: top, dtype, shape, count: elementCount(shape) }
    top += Math.ceil(placeBytes(place) / 64) * 64
    return place
  }
  const inputs = graph.inputs.map(placeOf)
  const outputs = graph.outputs.map(placeOf)
  const memory = createMemory(Math.max(1, top))
  inputs.forEach((place, index) => {
    placeData(memory, place).set(values.get(graph.inputs[index]!.value)!.data)
  })
  const session = await Session.create(runtime, withNullOutput(encodeOnnxModel(graph)))
  try {
    await session.bind(memory, inputs, outputs)()
  } finally {
    await session.release()
  }
  return outputs.map((place) => readTensor(memory, place))
}

function readTensor(memory: WasmMemory, place: Place): Tensor {
  const type = { dtype: place.dtype, shape: place.shape }
  const data = placeData(memory, place)
  return { type, data: isFloat(place.dtype) ? Float64Array.from(data) : Int32Array.from(data) }
}

function overflowNote(graph: Graph, node: Node, output: number, operands: readonly Tensor[]): string {
  const types = node.outputs.map((value) => graph.values[value]!.type)
  if (types[output]!.dtype !== 'f32') return ''
  const exact = ruleOf(node.op).reference(operands, node.attributes, types)[output]!
  const wide = exact.data.findIndex((value) => !Number.isFinite(value))
  return wide < 0 ? ', where float32 overflows: in float64 it is finite' : ''
}

function nonFiniteError(message: string): MeshwrightError {
  return new MeshwrightError('RUN_NOT_FINITE', message, {
    exitCode: exitCodes.run,
    hint: 'lower the learning rate, clip gradients, or look at the data of this step; f64 tells overflow from a true divergence',
  })
}
