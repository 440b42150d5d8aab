import { internalError } from '../../../base/index.ts'
import type { DType, Node, ValueId } from '../../../graph/index.ts'
import type { FunctionWriter, Local } from './encoder.ts'
import type { Fusion } from './fusible.ts'
import { floatType } from './scalars.ts'

/**
 * The registers that hold a group of `fusion.lanes` elements of a value: one for f32, `lanes / 2` for f64. A bool is
 * one register of all ones or all zeros in each lane, as wide as the group's lanes.
 */
export type RegistersOf = (value: ValueId) => readonly Local[]

export function registerCount(fusion: Fusion, dtype: DType): number {
  return dtype === 'f64' ? fusion.lanes / 2 : 1
}

export function shapeOf(dtype: 'f32' | 'f64'): 'f32x4' | 'f64x2' {
  return dtype === 'f32' ? 'f32x4' : 'f64x2'
}

const firstBytes = (from: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => from + i)
/** The lower halves of two vectors side by side. */
const lowHalves = [...firstBytes(0, 8), ...firstBytes(16, 8)]
/** The upper half of the first vector, twice. */
const highHalf = [...firstBytes(8, 8), ...firstBytes(8, 8)]
/** The even 32-bit lanes of two vectors side by side: masks of 64-bit lanes made narrow. */
const evenWords = [0, 8, 16, 24].flatMap((from) => firstBytes(from, 4))

/** Writes `node` for one group of elements into new registers. `reshape` and `broadcast` give their operand's. */
export function writeVectorNode(
  writer: FunctionWriter,
  fusion: Fusion,
  node: Node,
  registersOf: RegistersOf,
): readonly Local[] {
  const { graph } = fusion
  const output = node.outputs[0]!
  const dtype = graph.values[output]!.type.dtype
  const into = (count: number, write: (register: number) => void): readonly Local[] =>
    Array.from({ length: count }, (_, register) => {
      write(register)
      return keep(writer)
    })
  const operands = node.inputs.map(registersOf)
  const get = (operand: number, register: number): void => writer.get(operands[operand]![register]!)
  const each = (write: (register: number) => void): readonly Local[] =>
    into(registerCount(fusion, dtype), write)
  switch (node.op) {
    case 'neg':
    case 'abs':
    case 'sqrt':
    case 'add':
    case 'sub':
    case 'mul':
    case 'div':
    case 'max':
    case 'min':
      return each((register) => {
        for (let operand = 0; operand < operands.length; operand++) get(operand, register)
        writer.op(`${shapeOf(floatType(graph, output))}.${node.op}`)
      })
    case 'reciprocal':
      return each((register) => {
        const float = floatType(graph, output)
        writer.splat(float, 1)
        get(0, register)
        writer.op(`${shapeOf(float)}.div`)
      })
    case 'less':
    case 'equal': {
      const compared = graph.values[node.inputs[0]!]!.type.dtype
      if (compared === 'bool')
        return into(1, () => {
          get(0, 0)
          get(1, 0)
          writer.op('v128.xor', 'v128.not')
        })
      const compare = node.op === 'less' ? 'lt' : 'eq'
      const masks = into(registerCount(fusion, compared), (register) => {
        get(0, register)
        get(1, register)
        writer.op(`${shapeOf(floatType(graph, node.inputs[0]!))}.${compare}`)
      })
      return narrowMask(writer, masks)
    }
    case 'and':
      return into(1, () => {
        get(0, 0)
        get(1, 0)
        writer.op('v128.and')
      })
    case 'not':
      return into(1, () => {
        get(0, 0)
        writer.op('v128.not')
      })
    case 'where': {
      const masks = dtype === 'bool' ? operands[0]! : widenMask(writer, fusion, operands[0]![0]!, dtype)
      return each((register) => {
        get(1, register)
        get(2, register)
        writer.get(masks[register]!)
        writer.op('v128.bitselect')
      })
    }
    case 'cast':
      return writeVectorCast(writer, fusion, operands[0]!, graph.values[node.inputs[0]!]!.type.dtype, dtype)
    case 'reshape':
    case 'broadcast':
      return operands[0]!
    default:
      throw internalError(`op ${node.op} in a fused loop`)
  }
}

function writeVectorCast(
  writer: FunctionWriter,
  fusion: Fusion,
  from: readonly Local[],
  fromType: DType,
  toType: DType,
): readonly Local[] {
  if (fromType === toType) return from
  if (fromType === 'bool' && (toType === 'f32' || toType === 'f64'))
    return widenMask(writer, fusion, from[0]!, toType).map((mask) => {
      writer.get(mask)
      writer.splat(toType, 1)
      writer.op('v128.and')
      return keep(writer)
    })
  if (toType === 'bool' && (fromType === 'f32' || fromType === 'f64'))
    return narrowMask(
      writer,
      from.map((register) => {
        writer.get(register)
        writer.splat(fromType, 0)
        writer.op(`${shapeOf(fromType)}.ne`)
        return keep(writer)
      }),
    )
  if (fromType === 'f64' && toType === 'f32') {
    for (const register of from) {
      writer.get(register)
      writer.op('f32x4.demote_f64x2_zero')
    }
    writer.shuffle(lowHalves)
    return [keep(writer)]
  }
  if (fromType === 'f32' && toType === 'f64') {
    writer.get(from[0]!)
    writer.op('f64x2.promote_low_f32x4')
    const low = keep(writer)
    writer.get(from[0]!)
    writer.get(from[0]!)
    writer.shuffle(highHalf)
    writer.op('f64x2.promote_low_f32x4')
    return [low, keep(writer)]
  }
  throw internalError(`cast of ${fromType} to ${toType} in a fused loop`)
}

/** Masks of 64-bit lanes as one of 32-bit lanes, where the group has those. */
function narrowMask(writer: FunctionWriter, masks: readonly Local[]): readonly Local[] {
  if (masks.length === 1) return masks
  for (const mask of masks) writer.get(mask)
  writer.shuffle(evenWords)
  return [keep(writer)]
}

/** A bool's register as masks for the registers of `dtype`. */
function widenMask(writer: FunctionWriter, fusion: Fusion, mask: Local, dtype: DType): readonly Local[] {
  if (registerCount(fusion, dtype) === 1) return [mask]
  return (['i64x2.extend_low_i32x4_s', 'i64x2.extend_high_i32x4_s'] as const).map((extend) => {
    writer.get(mask)
    writer.op(extend)
    return keep(writer)
  })
}

/** What is on the stack, in a new register. */
function keep(writer: FunctionWriter): Local {
  const local = writer.local('v128')
  writer.set(local)
  return local
}
