import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { FloatDType } from '../../../graph/index.ts'
import { createMemory, type HostKernels, hostKernels, type WasmMemory } from './index.ts'

type FloatData = Float32Array | Float64Array

const elementBytes = { f32: 4, f64: 8 } as const
const first = 64
const second = 4096

function viewOf(memory: WasmMemory, dtype: FloatDType, offset: number, count: number): FloatData {
  const { buffer } = memory
  return dtype === 'f32' ? new Float32Array(buffer, offset, count) : new Float64Array(buffer, offset, count)
}

const numberArbitrary = fc.oneof(
  fc.constantFrom(0, -0, 1e-45, -1e-320, 3e38, Number.POSITIVE_INFINITY, Number.NaN),
  fc.double({ min: -100, max: 100, noNaN: true }),
  fc.double(),
)
const twoArrays = fc
  .nat({ max: 70 })
  .chain((count) =>
    fc.tuple(
      fc.array(numberArbitrary, { minLength: count, maxLength: count }),
      fc.array(numberArbitrary, { minLength: count, maxLength: count }),
    ),
  )

/** The sum of squares in the order that `HostKernels` promises. */
function blockedSumSquares(values: ArrayLike<number>): number {
  const blocked = Math.floor(values.length / 16) * 16
  const sums = new Array<number>(16).fill(0)
  for (let index = 0; index < blocked; index++) sums[index % 16]! += values[index]! * values[index]!
  for (let half = 8; half >= 1; half /= 2)
    for (let index = 0; index < half; index++) sums[index]! += sums[index + half]!
  let total = sums[0]!
  for (let index = blocked; index < values.length; index++) total += values[index]! * values[index]!
  return total
}

describe.each([
  { dtype: 'f32', shared: false },
  { dtype: 'f64', shared: false },
  { dtype: 'f32', shared: true },
  { dtype: 'f64', shared: true },
] as const)('host kernels on $dtype, shared $shared', ({ dtype, shared }) => {
  const memory = createMemory(65_536, { shared })
  const kernels = hostKernels(memory)
  const round = dtype === 'f32' ? Math.fround : (x: number): number => x

  /** Runs `kernel` with both arrays in memory, a guard behind the first; returns what the first then holds. */
  const onArrays = (
    a: readonly number[],
    b: readonly number[],
    kernel: (kernels: HostKernels) => void,
  ): number[] => {
    viewOf(memory, dtype, first, a.length + 1).set([...a, 77])
    viewOf(memory, dtype, second, b.length).set(b)
    kernel(kernels)
    const [...result] = viewOf(memory, dtype, first, a.length + 1)
    expect(result.pop()).toBe(77)
    return result
  }

  it('addInto and maxInto give the bits of a plain loop', () => {
    fc.assert(
      fc.property(twoArrays, ([a, b]) => {
        const sums = onArrays(a, b, (k) => k.addInto(dtype, first, second, a.length))
        expect(sums).toEqual(a.map((value, index) => round(round(value) + round(b[index]!))))
        const larger = onArrays(a, b, (k) => k.maxInto(dtype, first, second, a.length))
        expect(larger).toEqual(a.map((value, index) => Math.max(round(value), round(b[index]!))))
      }),
      { numRuns: 60 },
    )
  })

  it('scale rounds the factor, then multiplies', () => {
    fc.assert(
      fc.property(twoArrays, numberArbitrary, ([a], factor) => {
        const scaled = onArrays(a, [], (k) => k.scale(dtype, first, a.length, factor))
        expect(scaled).toEqual(a.map((value) => round(round(value) * round(factor))))
      }),
      { numRuns: 60 },
    )
  })

  it('sumSquares adds in the documented order, wherever the data lies', () => {
    fc.assert(
      fc.property(twoArrays, fc.nat({ max: 5 }), ([a], shift) => {
        const at = first + shift * elementBytes[dtype]
        const view = viewOf(memory, dtype, at, a.length)
        view.set(a)
        expect(kernels.sumSquares(dtype, at, a.length)).toEqual(blockedSumSquares(view))
      }),
      { numRuns: 60 },
    )
  })

  it('firstNonFinite finds every position', () => {
    for (let count = 0; count <= 40; count++) {
      const view = viewOf(memory, dtype, first, count)
      view.fill(dtype === 'f32' ? 3e38 : 1e308)
      expect(kernels.firstNonFinite(dtype, first, count)).toBe(-1)
      for (let index = count - 1; index >= 0; index--) {
        view[index] = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY][index % 3]!
        expect(kernels.firstNonFinite(dtype, first, count)).toBe(index)
      }
    }
  })

  it('addRows adds repeated rows in order, and none where the id is below 0', () => {
    const rowsArbitrary = fc.record({
      tableRows: fc.integer({ min: 1, max: 6 }),
      rowElements: fc.integer({ min: 0, max: 35 }),
      ids: fc.array(fc.integer(), { maxLength: 8 }),
    })
    fc.assert(
      fc.property(rowsArbitrary, ({ tableRows, rowElements, ids: wide }) => {
        const ids = wide.map((id) => (id < 0 ? id : id % tableRows))
        const table = Array.from({ length: tableRows * rowElements }, (_, index) => Math.sin(index))
        const values = Array.from({ length: ids.length * rowElements }, (_, index) => Math.cos(index))
        const wanted = table.map(round)
        ids.forEach((id, row) => {
          if (id < 0) return
          for (let column = 0; column < rowElements; column++) {
            const at = id * rowElements + column
            wanted[at] = round(wanted[at]! + round(values[row * rowElements + column]!))
          }
        })
        new Int32Array(memory.buffer, 0, ids.length).set(ids)
        const actual = onArrays(table, values, (k) => {
          expect(k.addRows(dtype, first, 0, second, ids.length, rowElements, tableRows)).toBe(-1)
        })
        expect(actual).toEqual(wanted)
      }),
      { numRuns: 60 },
    )
  })

  it('addRows names the first bad id and leaves the table alone', () => {
    for (const bad of [3, 2 ** 31 - 1]) {
      new Int32Array(memory.buffer, 0, 4).set([0, 2, bad, bad])
      const table = [1, 2, 3, 4, 5, 6]
      const actual = onArrays(table, [1, 1, 1, 1, 1, 1, 1, 1], (k) => {
        expect(k.addRows(dtype, first, 0, second, 4, 2, 3)).toBe(2)
      })
      expect(actual).toEqual(table)
    }
  })

  it('zero and copy move bytes, overlapping ones too', () => {
    const view = new Uint8Array(memory.buffer, first, 32)
    view.set(Array.from({ length: 32 }, (_, index) => index + 1))
    kernels.copy(first + 3, first, 20)
    expect([...view.slice(3, 25)]).toEqual([...Array.from({ length: 20 }, (_, index) => index + 1), 24, 25])
    kernels.zero(first + 1, 30)
    expect([...view]).toEqual([1, ...new Array<number>(30).fill(0), 32])
  })

  it('stops at the end of the memory instead of reaching beyond', () => {
    expect(() => kernels.addInto(dtype, 65_536 - 8, 0, 3)).toThrow(/out of bounds/)
    expect(() => kernels.sumSquares(dtype, 65_536, 1)).toThrow(/out of bounds/)
  })
})

describe('memories', () => {
  it('loops follow a private memory that has grown', () => {
    const memory = createMemory(65_536)
    const kernels = hostKernels(memory)
    memory.grow(1)
    new Float64Array(memory.buffer, 65_536, 3).set([1, 2, 3])
    expect(kernels.sumSquares('f64', 65_536, 3)).toBe(14)
  })

  it('loops reach offsets beyond 2 GiB', () => {
    const bytes = 2 ** 31 + 65_536
    const memory = createMemory(bytes)
    const kernels = hostKernels(memory)
    new Float32Array(memory.buffer, 2 ** 31, 20).fill(2)
    kernels.addInto('f32', 2 ** 31, 2 ** 31, 20)
    expect(kernels.sumSquares('f32', 2 ** 31, 20)).toBe(320)
  })
})
