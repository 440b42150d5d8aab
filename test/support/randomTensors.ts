import fc from 'fast-check'
import { type DType, elementCount, makeTensor, type Tensor } from '../../src/graph/index.ts'

/** Numbers that follow from a seed alone, so that a failing case is the seed and shrinks to small shapes. */
export class Numbers {
  private state: number

  constructor(seed: number) {
    this.state = seed | 0
  }

  /** In [0, 1); mulberry32. */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** Whole number in [low, high]. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1))
  }

  /** Floats in [low, high) that float32 holds exactly, so that both dtypes see the same operand. */
  floats(dtype: DType, shape: readonly number[], low = -2, high = 2): Tensor {
    const data = Array.from({ length: elementCount(shape) }, () =>
      Math.fround(low + this.next() * (high - low)),
    )
    return makeTensor({ dtype, shape }, data)
  }

  /** Floats apart from each other by at least 1/8, and by 1/16 from those of another `shift`: no ties and no kinks near. */
  distinct(dtype: DType, shape: readonly number[], shift = 0): Tensor {
    const count = elementCount(shape)
    const ranks = Array.from({ length: count }, (_, index) => index)
    for (let index = count - 1; index > 0; index--) {
      const other = this.integer(0, index)
      ;[ranks[index], ranks[other]] = [ranks[other]!, ranks[index]!]
    }
    return makeTensor(
      { dtype, shape },
      ranks.map((rank) => (rank - (count >> 1)) / 8 + 1 / 32 + shift),
    )
  }

  integers(shape: readonly number[], low: number, high: number): Tensor {
    const data = Array.from({ length: elementCount(shape) }, () => this.integer(low, high))
    return makeTensor({ dtype: 'i32', shape }, data)
  }

  bools(shape: readonly number[]): Tensor {
    const data = Array.from({ length: elementCount(shape) }, () => this.integer(0, 1))
    return makeTensor({ dtype: 'bool', shape }, data)
  }
}

export const seeds: fc.Arbitrary<number> = fc.integer()

export function shapes(minRank: number, maxRank: number, maxSize = 4): fc.Arbitrary<number[]> {
  return fc.array(fc.integer({ min: 1, max: maxSize }), { minLength: minRank, maxLength: maxRank })
}

/** Shapes that broadcast with each other: leading dims missing here and there, sizes of 1 here and there. */
export function broadcastable(count: number, maxRank = 3): fc.Arbitrary<number[][]> {
  const changes = fc.record({
    missing: fc.integer({ min: 0, max: maxRank }),
    ones: fc.array(fc.boolean(), { minLength: maxRank, maxLength: maxRank }),
  })
  return fc
    .tuple(shapes(0, maxRank), fc.array(changes, { minLength: count, maxLength: count }))
    .map(([shape, all]) =>
      all.map(({ missing, ones }) =>
        shape.map((size, dim) => (ones[dim] ? 1 : size)).slice(Math.min(missing, shape.length)),
      ),
    )
}
