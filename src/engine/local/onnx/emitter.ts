import { createHash } from 'node:crypto'
import { create } from '@bufbuild/protobuf'
import {
  type AttributeProto,
  AttributeProto_AttributeType,
  AttributeProtoSchema,
  type NodeProto,
  NodeProtoSchema,
  type TensorProto,
  TensorProto_DataType,
  TensorProtoSchema,
} from 'onnx-buf'
import type { DType, OnnxAttribute, OnnxEmitter } from '../../../graph/index.ts'

type ConstantDType = DType | 'i64'

const elementTypes: Readonly<Record<ConstantDType, TensorProto_DataType>> = {
  f32: TensorProto_DataType.FLOAT,
  f64: TensorProto_DataType.DOUBLE,
  i32: TensorProto_DataType.INT32,
  i64: TensorProto_DataType.INT64,
  bool: TensorProto_DataType.BOOL,
}

export function onnxElementType(dtype: ConstantDType): TensorProto_DataType {
  return elementTypes[dtype]
}

/** Collects the nodes and initializers of one model. Names are counted: `v0`, `v1`, … for tensors, `c0`, … for constants. */
export class ModelEmitter implements OnnxEmitter {
  readonly nodes: NodeProto[] = []
  readonly initializers: TensorProto[] = []
  /** What the next nodes are named after. */
  scope = ''
  private readonly constants = new Map<string, string>()
  private tensors = 0

  node(
    opType: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>> = {},
    options: { readonly outputs?: number; readonly domain?: string } = {},
  ): readonly string[] {
    const output = Array.from({ length: options.outputs ?? 1 }, () => `v${this.tensors++}`)
    this.nodes.push(
      create(NodeProtoSchema, {
        opType,
        domain: options.domain ?? '',
        name: `${this.scope}/${opType}:${this.nodes.length}`,
        input: [...inputs],
        output,
        attribute: Object.entries(attributes).map(([name, value]) => attributeProto(name, value)),
      }),
    )
    return output
  }

  constant(dtype: ConstantDType, shape: readonly number[], data: ArrayLike<number>): string {
    const bytes = rawBytes(dtype, data)
    const digest = createHash('sha256').update(bytes).digest('base64')
    const key = `${dtype} ${shape.join(',')} ${digest}`
    const known = this.constants.get(key)
    if (known !== undefined) return known
    const name = `c${this.initializers.length}`
    this.initializers.push(
      create(TensorProtoSchema, {
        name,
        dataType: onnxElementType(dtype),
        dims: shape.map(BigInt),
        rawData: bytes,
      }),
    )
    this.constants.set(key, name)
    return name
  }
}

/** Little-endian, as ONNX wants it and as every machine that ONNX Runtime runs on has it. */
function rawBytes(dtype: ConstantDType, data: ArrayLike<number>): Uint8Array<ArrayBuffer> {
  switch (dtype) {
    case 'f32':
      return new Uint8Array(Float32Array.from(data).buffer)
    case 'f64':
      return new Uint8Array(Float64Array.from(data).buffer)
    case 'i32':
      return new Uint8Array(Int32Array.from(data).buffer)
    case 'i64':
      return new Uint8Array(BigInt64Array.from(Array.from(data, BigInt)).buffer)
    case 'bool':
      return Uint8Array.from(data)
  }
}

function attributeProto(name: string, value: OnnxAttribute): AttributeProto {
  if ('int' in value)
    return create(AttributeProtoSchema, {
      name,
      type: AttributeProto_AttributeType.INT,
      i: BigInt(value.int),
    })
  if ('ints' in value)
    return create(AttributeProtoSchema, {
      name,
      type: AttributeProto_AttributeType.INTS,
      ints: value.ints.map(BigInt),
    })
  if ('float' in value)
    return create(AttributeProtoSchema, {
      name,
      type: AttributeProto_AttributeType.FLOAT,
      f: value.float,
    })
  return create(AttributeProtoSchema, {
    name,
    type: AttributeProto_AttributeType.STRING,
    s: new TextEncoder().encode(value.string),
  })
}
