import fc from 'fast-check'
import type { FloatDType, OpAttributes, OpName, Tensor } from '../../src/graph/index.ts'
import { broadcastable, Numbers, seeds, shapes } from './randomTensors.ts'

/** One application of an op to operands, which vjp checks and lowering checks are run on. */
export interface OpCase<K extends OpName = OpName> {
  readonly op: K
  readonly attributes: OpAttributes[K]
  readonly inputs: readonly Tensor[]
  /** Which outputs the loss depends on; without it the first only. */
  readonly seeded?: readonly boolean[]
}

/** A generator for each op: an op without one does not compile. */
type OpCases = { readonly [K in OpName]: (dtype: FloatDType) => fc.Arbitrary<OpCase<K>> }

type Body<K extends OpName> = Omit<OpCase<K>, 'op'>

const size = (max = 4, min = 1): fc.Arbitrary<number> => fc.integer({ min, max })

function elementwise<K extends OpName>(
  op: K,
  operands: number,
  make: (numbers: Numbers, shape: readonly number[], index: number, dtype: FloatDType) => Tensor,
): (dtype: FloatDType) => fc.Arbitrary<OpCase<K>> {
  return (dtype) =>
    fc.tuple(broadcastable(operands), seeds).map(([all, seed]) => {
      const numbers = new Numbers(seed)
      const inputs = all.map((shape, index) => make(numbers, shape, index, dtype))
      return { op, attributes: {} as OpAttributes[K], inputs }
    })
}

function unary<K extends OpName>(op: K, low = -2, high = 2): (dtype: FloatDType) => fc.Arbitrary<OpCase<K>> {
  return elementwise(op, 1, (numbers, shape, _index, dtype) => numbers.floats(dtype, shape, low, high))
}

function custom<K extends OpName, T>(
  op: K,
  shape: fc.Arbitrary<T>,
  make: (numbers: Numbers, shape: T, dtype: FloatDType) => Body<K>,
): (dtype: FloatDType) => fc.Arbitrary<OpCase<K>> {
  return (dtype) =>
    fc.tuple(shape, seeds).map(([drawn, seed]) => ({ op, ...make(new Numbers(seed), drawn, dtype) }))
}

function reduction<K extends 'reduceSum' | 'reduceMax'>(
  op: K,
): (dtype: FloatDType) => fc.Arbitrary<OpCase<K>> {
  const drawn = fc.tuple(shapes(0, 4), fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }), fc.boolean())
  return custom(op, drawn, (numbers, [shape, mask, keepDims], dtype) => ({
    attributes: { dims: [...shape.keys()].filter((dim) => mask[dim]), keepDims } as OpAttributes[K],
    inputs: [numbers.distinct(dtype, shape)],
  }))
}

function labelled<K extends 'crossEntropy' | 'crossEntropyGradient'>(
  op: K,
  low: number,
  high: number,
): (dtype: FloatDType) => fc.Arbitrary<OpCase<K>> {
  return custom(op, fc.tuple(shapes(0, 2), size(6)), (numbers, [rows, classes], dtype) => ({
    attributes: {} as OpAttributes[K],
    inputs: [numbers.floats(dtype, [...rows, classes], low, high), numbers.integers(rows, -1, classes - 1)],
  }))
}

/** Any of the dtypes that movement of elements is defined on. */
function anything(numbers: Numbers, shape: readonly number[], dtype: FloatDType): Tensor {
  const kind = numbers.integer(0, 5)
  if (kind === 0) return numbers.integers(shape, -5, 5)
  return kind === 1 ? numbers.bools(shape) : numbers.floats(dtype, shape)
}

export const opCases: OpCases = {
  fill: custom(
    'fill',
    fc.tuple(shapes(0, 3), fc.integer({ min: -4, max: 4 })),
    (_numbers, [shape, value], dtype) => ({
      attributes: { shape, dtype, value: value / 4 },
      inputs: [],
    }),
  ),
  iota: custom('iota', shapes(1, 3), (numbers, shape, dtype) => ({
    attributes: {
      shape,
      dtype: numbers.integer(0, 1) === 0 ? 'i32' : dtype,
      dim: numbers.integer(0, shape.length - 1),
    },
    inputs: [],
  })),
  causalMask: custom(
    'causalMask',
    fc.tuple(size(6), size(6), fc.integer({ min: -3, max: 3 }), fc.boolean()),
    (_numbers, [queries, keys, offset, large], dtype) => ({
      // A large one is computed in the model, a small one stored in it.
      attributes: { queries: large ? queries * 50 : queries, keys: large ? keys * 300 : keys, offset, dtype },
      inputs: [],
    }),
  ),
  rotaryTable: custom(
    'rotaryTable',
    fc.tuple(size(5), size(4), fc.integer({ min: 0, max: 9 })),
    (numbers, [positions, count, offset], dtype) => ({
      attributes: {
        part: numbers.integer(0, 1) === 0 ? 'cos' : 'sin',
        positions,
        offset,
        frequencies: Array.from({ length: count }, () => numbers.next()),
        dtype,
      },
      inputs: [],
    }),
  ),
  neg: unary('neg'),
  abs: elementwise('abs', 1, (numbers, shape, _index, dtype) => numbers.distinct(dtype, shape)),
  exp: unary('exp'),
  log: unary('log', 0.5, 3),
  sqrt: unary('sqrt', 0.5, 3),
  reciprocal: unary('reciprocal', 0.5, 3),
  tanh: unary('tanh'),
  sigmoid: unary('sigmoid', -6, 6),
  geluTanh: unary('geluTanh', -5, 5),
  not: elementwise('not', 1, (numbers, shape) => numbers.bools(shape)),
  cast: custom('cast', shapes(0, 3), (numbers, shape, dtype) => ({
    attributes: { dtype: (['f32', 'f64', 'i32', 'bool', 'f64'] as const)[numbers.integer(0, 4)]! },
    inputs: [anything(numbers, shape, dtype)],
  })),
  add: elementwise('add', 2, (numbers, shape, _index, dtype) => numbers.floats(dtype, shape)),
  sub: elementwise('sub', 2, (numbers, shape, _index, dtype) => numbers.floats(dtype, shape)),
  mul: elementwise('mul', 2, (numbers, shape, _index, dtype) => numbers.floats(dtype, shape)),
  div: elementwise('div', 2, (numbers, shape, index, dtype) =>
    numbers.floats(dtype, shape, index === 0 ? -2 : 0.5, 2),
  ),
  max: elementwise('max', 2, (numbers, shape, index, dtype) => numbers.distinct(dtype, shape, index / 16)),
  min: elementwise('min', 2, (numbers, shape, index, dtype) => numbers.distinct(dtype, shape, index / 16)),
  equal: (dtype) =>
    fc.tuple(broadcastable(2), seeds).map(([all, seed]) => {
      const numbers = new Numbers(seed)
      const kind = numbers.integer(0, 2)
      const inputs = all.map((shape) => {
        if (kind === 0) return numbers.bools(shape)
        const whole = numbers.integers(shape, 0, 2)
        return kind === 1 ? whole : { type: { dtype, shape }, data: Float64Array.from(whole.data) }
      })
      return { op: 'equal', attributes: {}, inputs }
    }),
  less: elementwise('less', 2, (numbers, shape, _index, dtype) => numbers.floats(dtype, shape)),
  and: elementwise('and', 2, (numbers, shape) => numbers.bools(shape)),
  where: (dtype) =>
    fc.tuple(broadcastable(3), seeds).map(([all, seed]) => {
      const numbers = new Numbers(seed)
      const kind = numbers.integer(0, 4)
      const branch = (shape: readonly number[]): Tensor => {
        if (kind === 0) return numbers.bools(shape)
        return kind === 1 ? numbers.integers(shape, -3, 3) : numbers.floats(dtype, shape)
      }
      return {
        op: 'where',
        attributes: {},
        inputs: [numbers.bools(all[0]!), branch(all[1]!), branch(all[2]!)],
      }
    }),
  geluTanhGradient: elementwise('geluTanhGradient', 3, (numbers, shape, _index, dtype) =>
    numbers.floats(dtype, shape, -4, 4),
  ),
  reduceSum: reduction('reduceSum'),
  reduceMax: reduction('reduceMax'),
  reshape: custom('reshape', fc.tuple(shapes(0, 4), fc.boolean()), (numbers, [shape, reversed], dtype) => ({
    attributes: {
      shape: reversed ? [...shape].reverse() : [shape.reduce((product, part) => product * part, 1)],
    },
    inputs: [anything(numbers, shape, dtype)],
  })),
  transpose: custom('transpose', shapes(0, 4), (numbers, shape, dtype) => {
    const order = shape.map((_, dim) => ({ dim, key: numbers.next() })).sort((a, b) => a.key - b.key)
    return {
      attributes: { permutation: order.map(({ dim }) => dim) },
      inputs: [anything(numbers, shape, dtype)],
    }
  }),
  broadcast: custom(
    'broadcast',
    fc.tuple(broadcastable(1), shapes(0, 1)),
    (numbers, [[shape], leading], dtype) => ({
      attributes: { shape: [...leading, ...shape!.map((own) => (own === 1 ? numbers.integer(1, 3) : own))] },
      inputs: [anything(numbers, shape!, dtype)],
    }),
  ),
  slice: custom('slice', shapes(0, 4), (numbers, shape, dtype) => {
    const starts = shape.map((own) => numbers.integer(0, own - 1))
    return {
      attributes: { starts, ends: shape.map((own, dim) => numbers.integer(starts[dim]! + 1, own)) },
      inputs: [anything(numbers, shape, dtype)],
    }
  }),
  dynamicSlice: custom('dynamicSlice', shapes(1, 4), (numbers, shape, dtype) => {
    const dim = numbers.integer(0, shape.length - 1)
    const length = numbers.integer(1, shape[dim]!)
    const start = numbers.integers([], 0, shape[dim]! - length)
    return { attributes: { dim, size: length }, inputs: [anything(numbers, shape, dtype), start] }
  }),
  pad: custom('pad', shapes(0, 3), (numbers, shape, dtype) => ({
    attributes: {
      before: shape.map(() => numbers.integer(0, 2)),
      after: shape.map(() => numbers.integer(0, 2)),
    },
    inputs: [anything(numbers, shape, dtype)],
  })),
  concat: custom('concat', fc.tuple(shapes(1, 3), size(3)), (numbers, [shape, count], dtype) => {
    const dim = numbers.integer(0, shape.length - 1)
    const inputs = Array.from({ length: count }, () =>
      numbers.floats(dtype, shape.with(dim, numbers.integer(1, 3))),
    )
    return { attributes: { dim }, inputs }
  }),
  split: custom('split', fc.tuple(shapes(1, 3), size(3)), (numbers, [shape, count], dtype) => {
    const dim = numbers.integer(0, shape.length - 1)
    const sizes = Array.from({ length: count }, () => numbers.integer(1, 3))
    const whole = shape.with(
      dim,
      sizes.reduce((sum, part) => sum + part, 0),
    )
    const first = numbers.integer(0, count - 1)
    const seeded = sizes.map((_, index) => index === first || numbers.integer(0, 1) === 0)
    return { attributes: { dim, sizes }, inputs: [numbers.floats(dtype, whole)], seeded }
  }),
  roll: custom('roll', shapes(1, 4), (numbers, shape, dtype) => ({
    attributes: { dim: numbers.integer(0, shape.length - 1), shift: numbers.integer(-6, 6) },
    inputs: [anything(numbers, shape, dtype)],
  })),
  matmul: custom(
    'matmul',
    fc.tuple(broadcastable(2, 2), size(8), size(8), size(3), fc.boolean(), fc.boolean()),
    (numbers, [[batchA, batchB], rows, inner, columns, transposeA, transposeB], dtype) => ({
      attributes: { transposeA, transposeB, scale: [1, 0.5, 1 / Math.sqrt(5)][numbers.integer(0, 2)]! },
      inputs: [
        numbers.floats(dtype, [...batchA!, ...(transposeA ? [inner, rows] : [rows, inner])]),
        numbers.floats(dtype, [...batchB!, ...(transposeB ? [columns, inner] : [inner, columns])]),
      ],
    }),
  ),
  gather: custom(
    'gather',
    fc.tuple(size(5), shapes(0, 2), shapes(0, 2)),
    (numbers, [rows, row, ids], dtype) => ({
      attributes: {},
      inputs: [numbers.floats(dtype, [rows, ...row]), numbers.integers(ids, 0, rows - 1)],
    }),
  ),
  scatterRows: custom(
    'scatterRows',
    fc.tuple(size(5), shapes(0, 2), shapes(0, 2)),
    (numbers, [rows, row, ids], dtype) => ({
      attributes: { rows },
      inputs: [numbers.integers(ids, 0, rows - 1), numbers.floats(dtype, [...ids, ...row])],
    }),
  ),
  oneHot: custom('oneHot', fc.tuple(size(5), shapes(0, 3)), (numbers, [depth, ids], dtype) => ({
    attributes: { depth, dtype },
    inputs: [numbers.integers(ids, -2, depth + 1)],
  })),
  topK: custom('topK', shapes(1, 3, 6), (numbers, shape, dtype) => ({
    attributes: { k: numbers.integer(1, shape.at(-1)!) },
    inputs: [numbers.distinct(dtype, shape)],
  })),
  gatherElements: custom(
    'gatherElements',
    fc.tuple(shapes(0, 2), size(5), size(4)),
    (numbers, [rows, width, count], dtype) => ({
      attributes: {},
      inputs: [numbers.floats(dtype, [...rows, width]), numbers.integers([...rows, count], 0, width - 1)],
    }),
  ),
  scatterElements: custom(
    'scatterElements',
    fc.tuple(shapes(0, 2), size(5), size(4)),
    (numbers, [rows, width, count], dtype) => ({
      attributes: { size: width },
      inputs: [numbers.integers([...rows, count], 0, width - 1), numbers.floats(dtype, [...rows, count])],
    }),
  ),
  assignSlots: custom(
    'assignSlots',
    fc.record({ batch: size(3), tokens: size(5), k: size(3), experts: size(4), capacity: size(4) }),
    (numbers, { batch, tokens, k, experts, capacity }) => ({
      attributes: { experts, capacity },
      inputs: [numbers.integers([batch, tokens, k], -1, experts)],
    }),
  ),
  route: custom(
    'route',
    fc.record({ batch: size(3), rows: size(4), places: shapes(1, 2), k: size(3), width: size(3) }),
    (numbers, { batch, rows, places, k, width }, dtype) => {
      const count = places.reduce((product, part) => product * part, 1)
      const sources = numbers.integers([batch, ...places], -1, rows - 1)
      const targets = numbers.integers([batch, rows, k], -1, -1)
      // Rows that go to k places go to no more.
      sources.data.forEach((row, index) => {
        if (row < 0) return
        const first = (Math.floor(index / count) * rows + row) * k
        const free = targets.data.subarray(first, first + k).indexOf(-1)
        if (free < 0) sources.data[index] = -1
        else targets.data[first + free] = index % count
      })
      return { attributes: {}, inputs: [numbers.floats(dtype, [batch, rows, width]), sources, targets] }
    },
  ),
  softmax: custom('softmax', shapes(1, 3, 6), (numbers, shape, dtype) => ({
    attributes: {},
    inputs: [numbers.floats(dtype, shape, -4, 4)],
  })),
  layerNorm: custom('layerNorm', shapes(1, 3, 6), (numbers, shape, dtype) => {
    const width = shape.at(-1)!
    return {
      // A vector of one element has no variance: an epsilon of its own size keeps the derivative moderate.
      attributes: { epsilon: width === 1 ? 0.25 : [1e-5, 2 ** -10, 1e-3][numbers.integer(0, 2)]! },
      inputs: [
        numbers.distinct(dtype, shape),
        numbers.floats(dtype, [width]),
        numbers.floats(dtype, [width]),
      ],
    }
  }),
  rmsNorm: custom('rmsNorm', shapes(1, 3, 6), (numbers, shape, dtype) => ({
    attributes: { epsilon: [1e-5, 1e-2][numbers.integer(0, 1)]! },
    inputs: [numbers.floats(dtype, shape, 0.5, 2), numbers.floats(dtype, [shape.at(-1)!])],
  })),
  attention: custom(
    'attention',
    fc.record({
      batch: shapes(1, 2, 2),
      kvHeads: size(2),
      group: size(3),
      queries: size(3),
      more: size(2, 0),
      width: size(3),
      valueWidth: size(3),
      mask: fc.constantFrom('none', 'causal', 'visible'),
    }),
    (numbers, { batch, kvHeads, group, queries, more, width, valueWidth, mask }, dtype) => {
      const keys = queries + more
      const inputs = [
        numbers.floats(dtype, [...batch, kvHeads * group, queries, width]),
        numbers.floats(dtype, [...batch, kvHeads, keys, width]),
        numbers.floats(dtype, [...batch, kvHeads, keys, valueWidth]),
      ]
      // The logSumExp of a query that sees nothing is too large to be looked at beside other numbers.
      const seesNone = numbers.integer(0, 2) === 0
      if (mask === 'visible') {
        const own = batch.map((size) => (numbers.integer(0, 1) === 0 ? 1 : size))
        const visible = numbers.bools([...own.slice(numbers.integer(0, own.length)), queries, keys])
        if (!seesNone) for (let at = 0; at < visible.data.length; at += keys) visible.data[at] = 1
        inputs.push(visible)
      }
      const attributes = { scale: 1 / Math.sqrt(width), causal: mask === 'causal' }
      const seeded = [
        [true, false, false],
        [true, false, true],
        [false, false, true],
      ]
      const all = mask !== 'visible' || !seesNone
      return { attributes, inputs, seeded: seeded[all ? numbers.integer(0, 2) : 0]! }
    },
  ),
  crossEntropy: labelled('crossEntropy', -4, 4),
  crossEntropyGradient: labelled('crossEntropyGradient', 0, 1),
  // Of one member, which is all that one graph can do.
  communicate: custom('communicate', shapes(1, 3), (numbers, shape, dtype) => {
    const operations = [
      'allReduce',
      'reduceScatter',
      'allGather',
      'allToAll',
      'broadcast',
      'reduce',
      'permute',
    ]
    const operation = operations[numbers.integer(0, 6)] as OpAttributes['communicate']['operation']
    const reduces = operation === 'allReduce' || operation === 'reduceScatter' || operation === 'reduce'
    const reduce = reduces ? (['sum', 'max', 'mean'] as const)[numbers.integer(0, 2)]! : null
    return {
      attributes: { operation, reduce, axes: ['tensor'], members: 1, root: 0, shift: 0 },
      inputs: [numbers.floats(dtype, shape)],
    }
  }),
}
