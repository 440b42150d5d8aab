import { internalError } from '../../../base/index.ts'
import type { FloatDType } from '../../../graph/index.ts'
import { encodeModule } from './encoder.ts'
import { writeKernels } from './kernelCode.ts'
import {
  compileModule,
  instantiateModule,
  isShared,
  type WasmFunction,
  type WasmMemory,
  type WasmModule,
} from './webassembly.ts'

/**
 * Plain loops over one memory, private or shared. Pointers are byte offsets aligned to an element, counts are elements.
 * Operands are apart or begin at the same place. Each is one pass in index order, so that results depend on values and counts only.
 */
export interface HostKernels {
  /** destination[i] += source[i] */
  addInto(dtype: FloatDType, destination: number, source: number, count: number): void
  /** destination[i] = the larger; a NaN in either gives NaN. */
  maxInto(dtype: FloatDType, destination: number, source: number, count: number): void
  /** pointer[i] *= factor, which is rounded to `dtype` first. */
  scale(dtype: FloatDType, pointer: number, count: number, factor: number): void
  zero(pointer: number, bytes: number): void
  /** The ranges may overlap. */
  copy(destination: number, source: number, bytes: number): void
  /**
   * Sum of squares, in float64. Of the first floor(count / 16) * 16 elements, those with the same index modulo 16 are
   * added in index order; these sixteen sums are folded in halves (8 to 15 onto 0 to 7, 4 to 7 onto 0 to 3, and so on),
   * then the other elements are added in index order. A range that is summed in two calls may round differently:
   * give each range whole.
   */
  sumSquares(dtype: FloatDType, pointer: number, count: number): number
  /**
   * Row `r` of `values` [rows, rowElements] is added to row ids[r] of `table` [tableRows, rowElements], in order of r.
   * Rows whose id (i32) is below 0 are passed over. Returns -1; or, with the table as it was, the first `r` whose id is
   * `tableRows` or more.
   */
  addRows(
    dtype: FloatDType,
    table: number,
    ids: number,
    values: number,
    rows: number,
    rowElements: number,
    tableRows: number,
  ): number
  /** Index of the first element that is infinite or not a number; -1 where all are finite. */
  firstNonFinite(dtype: FloatDType, pointer: number, count: number): number
}

const modules = new Map<boolean, WasmModule>()

/** The kernels over `memory`; one compiled module serves all private memories and one all shared ones. */
export function hostKernels(memory: WasmMemory): HostKernels {
  const shared = isShared(memory)
  const module = modules.get(shared) ?? compileModule(encodeModule(writeKernels(), { shared }))
  modules.set(shared, module)
  const exported = instantiateModule(module, memory)
  const find = (name: string): WasmFunction => {
    const found = exported[name]
    if (found === undefined) throw internalError(`no kernel ${name}`)
    return found
  }
  const both = (name: string): Readonly<Record<FloatDType, WasmFunction>> => ({
    f32: find(`${name}.f32`),
    f64: find(`${name}.f64`),
  })
  const addInto = both('addInto')
  const maxInto = both('maxInto')
  const scale = both('scale')
  const sumSquares = both('sumSquares')
  const addRows = both('addRows')
  const firstNonFinite = both('firstNonFinite')
  const zero = find('zero')
  const copy = find('copy')
  return {
    addInto: (dtype, destination, source, count) => {
      addInto[dtype](destination, source, count)
    },
    maxInto: (dtype, destination, source, count) => {
      maxInto[dtype](destination, source, count)
    },
    scale: (dtype, pointer, count, factor) => {
      scale[dtype](pointer, count, factor)
    },
    zero: (pointer, bytes) => {
      zero(pointer, bytes)
    },
    copy: (destination, source, bytes) => {
      copy(destination, source, bytes)
    },
    sumSquares: (dtype, pointer, count) => sumSquares[dtype](pointer, count)!,
    addRows: (dtype, table, ids, values, rows, rowElements, tableRows) =>
      addRows[dtype](table, ids, values, rows, rowElements, tableRows)!,
    firstNonFinite: (dtype, pointer, count) => firstNonFinite[dtype](pointer, count)!,
  }
}
