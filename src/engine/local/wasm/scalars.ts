import { assertNever, internalError } from '../../../base/index.ts'
import type { DType, FloatDType, Graph, Node, ValueId } from '../../../graph/index.ts'
import type { FunctionWriter, Local, ValueType } from './encoder.ts'

/** The local that holds a value, a bool as 0 or 1. */
export type ScalarOf = (value: ValueId) => Local

export function floatType(graph: Graph, value: ValueId): FloatDType {
  const dtype = graph.values[value]!.type.dtype
  if (dtype !== 'f32' && dtype !== 'f64')
    throw internalError(`value ${value} of dtype ${dtype} in float code`)
  return dtype
}

export function scalarType(dtype: DType): ValueType {
  return dtype === 'f32' || dtype === 'f64' ? dtype : 'i32'
}

/** Writes `node` for one element, its result left on the stack. */
export function writeScalarNode(writer: FunctionWriter, graph: Graph, node: Node, scalarOf: ScalarOf): void {
  const operands = (): void => {
    for (const input of node.inputs) writer.get(scalarOf(input))
  }
  const dtypeOf = (value: ValueId): DType => graph.values[value]!.type.dtype
  switch (node.op) {
    case 'fill':
      if (node.attributes.dtype === 'bool') writer.i32(node.attributes.value === 0 ? 0 : 1)
      else writer[floatType(graph, node.outputs[0]!)](node.attributes.value)
      return
    case 'neg':
    case 'abs':
    case 'sqrt':
    case 'add':
    case 'sub':
    case 'mul':
    case 'div':
    case 'max':
    case 'min':
      operands()
      writer.op(`${floatType(graph, node.outputs[0]!)}.${node.op}`)
      return
    case 'reciprocal': {
      const dtype = floatType(graph, node.outputs[0]!)
      writer[dtype](1)
      operands()
      writer.op(`${dtype}.div`)
      return
    }
    case 'less':
      operands()
      writer.op(`${floatType(graph, node.inputs[0]!)}.lt`)
      return
    case 'equal':
      operands()
      writer.op(dtypeOf(node.inputs[0]!) === 'bool' ? 'i32.eq' : `${floatType(graph, node.inputs[0]!)}.eq`)
      return
    case 'and':
      operands()
      writer.op('i32.and')
      return
    case 'not':
      operands()
      writer.op('i32.eqz')
      return
    case 'where': {
      const [condition, then, otherwise] = node.inputs
      for (const input of [then!, otherwise!, condition!]) writer.get(scalarOf(input))
      writer.op('select')
      return
    }
    case 'cast':
      operands()
      writeScalarCast(writer, dtypeOf(node.inputs[0]!), dtypeOf(node.outputs[0]!))
      return
    case 'reshape':
    case 'broadcast':
      operands()
      return
    default:
      throw internalError(`op ${node.op} in a fused loop`)
  }
}

function writeScalarCast(writer: FunctionWriter, from: DType, to: DType): void {
  if (from === to) return
  if (to === 'f32') writer.op(from === 'f64' ? 'f32.demote_f64' : 'f32.convert_i32_s')
  else if (to === 'f64') writer.op(from === 'f32' ? 'f64.promote_f32' : 'f64.convert_i32_s')
  else if (to === 'bool' && (from === 'f32' || from === 'f64')) {
    writer[from](0)
    writer.op(`${from}.ne`)
  } else if (to === 'bool' || to === 'i32') throw internalError(`cast of ${from} to ${to} in a fused loop`)
  else assertNever(to)
}
