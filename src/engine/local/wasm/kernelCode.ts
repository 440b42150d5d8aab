import type { FloatDType } from '../../../graph/index.ts'
import { FunctionWriter, type Local } from './encoder.ts'
import { advance, countedLoop, type Pointer } from './loop.ts'
import { shapeOf } from './vectors.ts'

/** Vectors in one turn of a loop. */
const unrolled = 4

/** The functions behind `HostKernels`, one a dtype where it matters: `name.f32`, `name.f64`. */
export function writeKernels(): FunctionWriter[] {
  const kernels = [writeZero(), writeCopy()]
  for (const dtype of ['f32', 'f64'] as const)
    kernels.push(
      writeCombine('addInto', dtype, 'add'),
      writeCombine('maxInto', dtype, 'max'),
      writeScale(dtype),
      writeSumSquares(dtype),
      writeAddRows(dtype),
      writeFirstNonFinite(dtype),
    )
  return kernels
}

function elementBytes(dtype: FloatDType): number {
  return dtype === 'f32' ? 4 : 8
}

function lanes(dtype: FloatDType): number {
  return 16 / elementBytes(dtype)
}

function writeZero(): FunctionWriter {
  const writer = new FunctionWriter('zero', ['i32', 'i32'])
  writer.get(0)
  writer.i32(0)
  writer.get(1)
  writer.memoryFill()
  return writer
}

function writeCopy(): FunctionWriter {
  const writer = new FunctionWriter('copy', ['i32', 'i32', 'i32'])
  for (const parameter of [0, 1, 2]) writer.get(parameter)
  writer.memoryCopy()
  return writer
}

/** The main loop over unrolled vectors, then one element at a time. `body` is told where it is and how wide. */
function overElements(
  writer: FunctionWriter,
  dtype: FloatDType,
  remaining: Local,
  pointers: readonly Local[],
  body: (offset: number, vector: boolean) => void,
): void {
  const moving = pointers.map((local): Pointer => ({ local, bytes: elementBytes(dtype) }))
  countedLoop(writer, remaining, unrolled * lanes(dtype), moving, () => {
    for (let vector = 0; vector < unrolled; vector++) body(16 * vector, true)
  })
  countedLoop(writer, remaining, 1, moving, () => body(0, false))
}

/** destination[i] = destination[i] op source[i] */
function writeCombine(name: string, dtype: FloatDType, operation: 'add' | 'max'): FunctionWriter {
  const writer = new FunctionWriter(`${name}.${dtype}`, ['i32', 'i32', 'i32'])
  writeCombineLoop(writer, dtype, operation, 0, 1, 2)
  return writer
}

function writeCombineLoop(
  writer: FunctionWriter,
  dtype: FloatDType,
  operation: 'add' | 'max',
  destination: Local,
  source: Local,
  remaining: Local,
): void {
  overElements(writer, dtype, remaining, [destination, source], (offset, vector) => {
    const load = vector ? 'v128.load' : (`${dtype}.load` as const)
    writer.get(destination)
    writer.get(destination)
    writer.memory(load, offset)
    writer.get(source)
    writer.memory(load, offset)
    writer.op(`${vector ? shapeOf(dtype) : dtype}.${operation}`)
    writer.memory(vector ? 'v128.store' : `${dtype}.store`, offset)
  })
}

function writeScale(dtype: FloatDType): FunctionWriter {
  const writer = new FunctionWriter(`scale.${dtype}`, ['i32', 'i32', 'f64'])
  const [pointer, remaining, given] = [0, 1, 2]
  const factor = writer.local(dtype)
  const factors = writer.local('v128')
  writer.get(given)
  if (dtype === 'f32') writer.op('f32.demote_f64')
  writer.set(factor)
  writer.get(factor)
  writer.op(`${shapeOf(dtype)}.splat`)
  writer.set(factors)
  overElements(writer, dtype, remaining, [pointer], (offset, vector) => {
    writer.get(pointer)
    writer.get(pointer)
    writer.memory(vector ? 'v128.load' : `${dtype}.load`, offset)
    writer.get(vector ? factors : factor)
    writer.op(`${vector ? shapeOf(dtype) : dtype}.mul`)
    writer.memory(vector ? 'v128.store' : `${dtype}.store`, offset)
  })
  return writer
}

/** Sixteen sums in eight registers: as many as the latency of an addition asks for. */
function writeSumSquares(dtype: FloatDType): FunctionWriter {
  const writer = new FunctionWriter(`sumSquares.${dtype}`, ['i32', 'i32'], 'f64')
  const [pointer, remaining] = [0, 1]
  const sums = Array.from({ length: 8 }, () => writer.local('v128'))
  const doubles = writer.local('v128')
  const total = writer.local('f64')
  const element = writer.local('f64')
  const moving = [{ local: pointer, bytes: elementBytes(dtype) }]
  /** sums[index] += square of the two doubles on the stack */
  const accumulate = (index: number): void => {
    writer.set(doubles)
    writer.get(doubles)
    writer.get(doubles)
    writer.op('f64x2.mul')
    writer.get(sums[index]!)
    writer.op('f64x2.add')
    writer.set(sums[index]!)
  }
  countedLoop(writer, remaining, 16, moving, () => {
    for (let index = 0; index < 8; index++) {
      writer.get(pointer)
      if (dtype === 'f64') writer.memory('v128.load', 16 * index)
      else {
        writer.memory('v128.load64_zero', 8 * index)
        writer.op('f64x2.promote_low_f32x4')
      }
      accumulate(index)
    }
  })
  for (let half = 4; half >= 1; half /= 2)
    for (let index = 0; index < half; index++) {
      writer.get(sums[index]!)
      writer.get(sums[index + half]!)
      writer.op('f64x2.add')
      writer.set(sums[index]!)
    }
  for (const lane of [0, 1]) {
    writer.get(sums[0]!)
    writer.extractLane('f64x2', lane)
  }
  writer.op('f64.add')
  writer.set(total)
  countedLoop(writer, remaining, 1, moving, () => {
    writer.get(pointer)
    writer.memory(`${dtype}.load`, 0)
    if (dtype === 'f32') writer.op('f64.promote_f32')
    writer.set(element)
    for (const local of [element, element]) writer.get(local)
    writer.op('f64.mul')
    writer.get(total)
    writer.op('f64.add')
    writer.set(total)
  })
  writer.get(total)
  return writer
}

function writeAddRows(dtype: FloatDType): FunctionWriter {
  const writer = new FunctionWriter(`addRows.${dtype}`, ['i32', 'i32', 'i32', 'i32', 'i32', 'i32'], 'i32')
  const [table, ids, values, rows, rowElements, tableRows] = [0, 1, 2, 3, 4, 5]
  const next = writer.local('i32')
  const remaining = writer.local('i32')
  const id = writer.local('i32')
  const row = writer.local('i32')
  const count = writer.local('i32')
  const copyTo = (from: Local, to: Local): void => {
    writer.get(from)
    writer.set(to)
  }
  const moving = [{ local: next, bytes: 4 }]
  // All ids first, so that a bad one leaves the table alone.
  copyTo(ids, next)
  copyTo(rows, remaining)
  countedLoop(writer, remaining, 1, moving, () => {
    writer.get(next)
    writer.memory('i32.load', 0)
    writer.get(tableRows)
    writer.op('i32.ge_s')
    writer.when(() => {
      writer.get(rows)
      writer.get(remaining)
      writer.op('i32.sub', 'return')
    })
  })
  const rowBytes = (): void => {
    writer.get(rowElements)
    writer.op('i32.mul')
    writer.i32(elementBytes(dtype))
    writer.op('i32.mul')
  }
  copyTo(ids, next)
  copyTo(rows, remaining)
  countedLoop(writer, remaining, 1, moving, () => {
    writer.get(next)
    writer.memory('i32.load', 0)
    writer.set(id)
    writer.get(id)
    writer.i32(0)
    writer.op('i32.ge_s')
    writer.when(() => {
      writer.get(id)
      rowBytes()
      writer.get(table)
      writer.op('i32.add')
      writer.set(row)
      copyTo(rowElements, count)
      // Moves `values` on to the next row.
      writeCombineLoop(writer, dtype, 'add', row, values, count)
    })
    writer.get(id)
    writer.i32(0)
    writer.op('i32.lt_s')
    writer.when(() => {
      writer.i32(1)
      rowBytes()
      writer.get(values)
      writer.op('i32.add')
      writer.set(values)
    })
  })
  writer.i32(-1)
  return writer
}

/** x - x is 0 where x is finite, else NaN: a turn without any NaN bits is passed over whole. */
function writeFirstNonFinite(dtype: FloatDType): FunctionWriter {
  const writer = new FunctionWriter(`firstNonFinite.${dtype}`, ['i32', 'i32'], 'i32')
  const [pointer, count] = [0, 1]
  const remaining = writer.local('i32')
  const found = writer.local('v128')
  const lanesRead = writer.local('v128')
  const element = writer.local(dtype)
  const step = unrolled * lanes(dtype)
  const bytes = elementBytes(dtype)
  const difference = (vector: number): void => {
    writer.get(pointer)
    writer.memory('v128.load', 16 * vector)
    writer.set(lanesRead)
    writer.get(lanesRead)
    writer.get(lanesRead)
    writer.op(`${shapeOf(dtype)}.sub`)
  }
  const more = (): void => {
    writer.get(remaining)
    writer.i32(step)
    writer.op('i32.ge_u')
  }
  writer.get(count)
  writer.set(remaining)
  more()
  writer.when(() => {
    writer.loop(() => {
      for (let vector = 0; vector < unrolled; vector++) {
        difference(vector)
        if (vector > 0) {
          writer.get(found)
          writer.op('v128.or')
        }
        writer.set(found)
      }
      // Leaves the loop at the turn that has one: the next loop finds which it is.
      writer.get(found)
      writer.op('v128.any_true', 'i32.eqz')
      writer.when(() => {
        advance(writer, pointer, step * bytes)
        advance(writer, remaining, -step)
        more()
        writer.branchIf(1)
      })
    })
  })
  countedLoop(writer, remaining, 1, [{ local: pointer, bytes }], () => {
    writer.get(pointer)
    writer.memory(`${dtype}.load`, 0)
    writer.set(element)
    writer.get(element)
    writer.get(element)
    writer.op(`${dtype}.sub`)
    writer[dtype](0)
    writer.op(`${dtype}.ne`)
    writer.when(() => {
      writer.get(count)
      writer.get(remaining)
      writer.op('i32.sub', 'return')
    })
  })
  writer.i32(-1)
  return writer
}
