import { create, toBinary } from '@bufbuild/protobuf'
import {
  AttributeProto_AttributeType,
  AttributeProtoSchema,
  GraphProtoSchema,
  ModelProtoSchema,
  NodeProtoSchema,
  TensorProto_DataType,
  TypeProto_SequenceSchema,
  TypeProto_TensorSchema,
  TypeProtoSchema,
  ValueInfoProtoSchema,
} from 'onnx-buf'

import { nullOutputName } from './nullOutput.ts'

/**
 * The model with the empty sequence as its first output. Protobuf messages are joined by joining their bytes: lists of
 * the second are appended to those of the first.
 */
export function withNullOutput(model: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(prefix.length + model.length)
  joined.set(prefix)
  joined.set(model, prefix.length)
  return joined
}

const prefix = makePrefix()

function makePrefix(): Uint8Array {
  const elemType = TensorProto_DataType.FLOAT
  const element = create(TypeProtoSchema, {
    value: { case: 'tensorType', value: create(TypeProto_TensorSchema, { elemType }) },
  })
  const sequence = create(TypeProto_SequenceSchema, { elemType: element })
  const dtype = create(AttributeProtoSchema, {
    name: 'dtype',
    type: AttributeProto_AttributeType.INT,
    i: BigInt(elemType),
  })
  const node = create(NodeProtoSchema, {
    opType: 'SequenceEmpty',
    name: nullOutputName,
    output: [nullOutputName],
    attribute: [dtype],
  })
  const output = create(ValueInfoProtoSchema, {
    name: nullOutputName,
    type: create(TypeProtoSchema, { value: { case: 'sequenceType', value: sequence } }),
  })
  return toBinary(
    ModelProtoSchema,
    create(ModelProtoSchema, { graph: create(GraphProtoSchema, { node: [node], output: [output] }) }),
  )
}
