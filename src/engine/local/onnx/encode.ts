import { create, toBinary } from '@bufbuild/protobuf'
import {
  GraphProtoSchema,
  ModelProtoSchema,
  type NodeProto,
  NodeProtoSchema,
  OperatorSetIdProtoSchema,
  TensorShapeProto_DimensionSchema,
  TensorShapeProtoSchema,
  TypeProto_TensorSchema,
  TypeProtoSchema,
  type ValueInfoProto,
  ValueInfoProtoSchema,
} from 'onnx-buf'
import { internalError } from '../../../base/index.ts'
import { type Graph, type Node, ruleOf, type TensorType, type ValueId } from '../../../graph/index.ts'
import { emitRowAffine, findRowAffines } from './affine.ts'
import { ModelEmitter, onnxElementType } from './emitter.ts'
import { joinTransposes } from './transposes.ts'

/** What every op of the table lowers to is written against these versions. */
const irVersion = 10n
const operatorSets = [
  { domain: '', version: 21n },
  { domain: 'com.microsoft', version: 1n },
]

/** Name that input `index` of a graph has in its model: names of graphs may hold anything. */
export function onnxInputName(index: number): string {
  return `in${index}`
}

export function onnxOutputName(index: number): string {
  return `out${index}`
}

/**
 * The bytes of an ONNX model that computes `graph`. Input i is called `in<i>` and output i `out<i>`, in the order of
 * the graph; names of nodes say the graph op and its block, as ONNX Runtime quotes them in errors. Bool is ONNX bool.
 */
export function encodeOnnxModel(graph: Graph): Uint8Array<ArrayBuffer> {
  const emitter = new ModelEmitter()
  const names = new Map<ValueId, string>()
  for (const [index, input] of graph.inputs.entries()) names.set(input.value, onnxInputName(index))
  const read = readValues(graph)
  const affines = findRowAffines(graph)
  for (const [index, node] of graph.nodes.entries()) {
    if (affines.absorbed.has(node)) continue
    emitter.scope = scopeOf(graph, node, index)
    const affine = affines.found.get(node)
    const outputTypes = node.outputs.map((output) => graph.values[output]!.type)
    const made =
      affine !== undefined
        ? [emitRowAffine(emitter, affine, outputTypes[0]!, (value) => nameOf(names, value))]
        : ruleOf(node.op).onnx({
            emit: emitter,
            attributes: node.attributes,
            inputs: node.inputs.map((input) => nameOf(names, input)),
            inputTypes: node.inputs.map((input) => graph.values[input]!.type),
            outputTypes,
            used: node.outputs.map((output) => read.has(output)),
          })
    node.outputs.forEach((output, position) => {
      if (read.has(output)) names.set(output, made[position]!)
    })
  }
  const nodes = withOutputs(
    emitter,
    graph.outputs.map((output) => nameOf(names, output.value)),
  )
  const model = create(ModelProtoSchema, {
    irVersion,
    producerName: 'meshwright',
    opsetImport: operatorSets.map((set) => create(OperatorSetIdProtoSchema, set)),
    graph: create(GraphProtoSchema, {
      name: 'task',
      node: nodes,
      initializer: [...emitter.initializers],
      input: graph.inputs.map(({ value }, index) => port(onnxInputName(index), graph.values[value]!.type)),
      output: graph.outputs.map(({ value }, index) => port(onnxOutputName(index), graph.values[value]!.type)),
    }),
  })
  return toBinary(ModelProtoSchema, model)
}

function nameOf(names: ReadonlyMap<ValueId, string>, value: ValueId): string {
  const name = names.get(value)
  if (name === undefined || name === '') throw internalError(`value ${value} was not lowered`)
  return name
}

function readValues(graph: Graph): Set<ValueId> {
  const read = new Set(graph.outputs.map((output) => output.value))
  for (const node of graph.nodes) for (const input of node.inputs) read.add(input)
  return read
}

function scopeOf(graph: Graph, node: Node, index: number): string {
  const block = graph.blocks[node.block]
  return block === undefined ? `${node.op}#${index}` : `${block}/${node.op}#${index}`
}

/**
 * The emitted nodes with the tensors `results` renamed to the model's outputs. A tensor that no node makes (an input,
 * a constant) and one that is an output already gets there through an Identity.
 */
function withOutputs(emitter: ModelEmitter, results: readonly string[]): NodeProto[] {
  const made = new Set(emitter.nodes.flatMap((node) => node.output))
  const renamed = new Map<string, string>()
  const copies: NodeProto[] = []
  results.forEach((result, index) => {
    const output = onnxOutputName(index)
    if (made.has(result) && !renamed.has(result)) renamed.set(result, output)
    else {
      const input = [renamed.get(result) ?? result]
      copies.push(create(NodeProtoSchema, { opType: 'Identity', name: output, input, output: [output] }))
    }
  })
  for (const node of emitter.nodes) {
    node.input = node.input.map((name) => renamed.get(name) ?? name)
    node.output = node.output.map((name) => renamed.get(name) ?? name)
  }
  // ONNX Runtime runs the nodes of a model in the order of a depth-first search from the last one on. Written last to
  // first they run in about the order of the graph, in which values die young: a GPT's F and B in one take .91 of the
  // memory with a small vocabulary and .64 with one of 8192.
  const outputs = results.map((_, index) => onnxOutputName(index))
  return joinTransposes([...emitter.nodes, ...copies], outputs).reverse()
}

function port(name: string, type: TensorType): ValueInfoProto {
  const dim = type.shape.map((size) =>
    create(TensorShapeProto_DimensionSchema, { value: { case: 'dimValue', value: BigInt(size) } }),
  )
  const tensor = create(TypeProto_TensorSchema, {
    elemType: onnxElementType(type.dtype),
    shape: create(TensorShapeProtoSchema, { dim }),
  })
  return create(ValueInfoProtoSchema, {
    name,
    type: create(TypeProtoSchema, { value: { case: 'tensorType', value: tensor } }),
  })
}
