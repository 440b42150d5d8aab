import { describe, expect, it } from 'vitest'
import { Numbers } from '../../../test/support/randomTensors.ts'
import { makeTensor, type OpAttributes, type OpName, opTable, ruleOf, type Tensor } from '../index.ts'
import { maskedScore } from './generators.ts'

function tensor(shape: readonly number[], data: readonly number[]): Tensor {
  return makeTensor({ dtype: 'f64', shape }, data)
}

function ids(shape: readonly number[], data: readonly number[]): Tensor {
  return makeTensor({ dtype: 'i32', shape }, data)
}

function apply<K extends OpName>(op: K, inputs: readonly Tensor[], attributes: OpAttributes[K]): Tensor[] {
  const rule = ruleOf(op)
  const types = rule.infer(
    inputs.map((input) => input.type),
    attributes,
  )
  return [...rule.reference(inputs, attributes, types)]
}

function first<K extends OpName>(op: K, inputs: readonly Tensor[], attributes: OpAttributes[K]): number[] {
  return Array.from(apply(op, inputs, attributes)[0]!.data)
}

function expectClose(actual: ArrayLike<number>, expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length)
  expected.forEach((value, index) => {
    expect(actual[index]).toBeCloseTo(value, 12)
  })
}

const plain = { transposeA: false, transposeB: false, scale: 1 }

describe('products', () => {
  const a = [1, 2, 3, 4, 5, 6]
  const b = [7, 8, 9, 10, 11, 12]

  it('multiplies matrices', () => {
    expect(first('matmul', [tensor([2, 3], a), tensor([3, 2], b)], plain)).toEqual([58, 64, 139, 154])
  })

  it('transposes either operand and scales', () => {
    const attributes = { transposeA: true, transposeB: true, scale: 0.5 }
    const swapped = [tensor([3, 2], [1, 4, 2, 5, 3, 6]), tensor([2, 3], [7, 9, 11, 8, 10, 12])]
    expect(first('matmul', swapped, attributes)).toEqual([29, 32, 69.5, 77])
  })

  it('sums long inner dims', () => {
    // 0 + 1 + ... + 10 against ones, and squares of the same.
    const counting = Array.from({ length: 11 }, (_, index) => index)
    const columns = counting.flatMap((value) => [1, value])
    expect(first('matmul', [tensor([1, 11], counting), tensor([11, 2], columns)], plain)).toEqual([55, 385])
  })

  it('repeats the matrices of the smaller batch', () => {
    const batch = tensor([2, 1, 2], [1, 2, 3, 4])
    expect(first('matmul', [batch, tensor([2, 1], [10, 1])], plain)).toEqual([12, 34])
  })
})

describe('movement', () => {
  const x = tensor([2, 3], [1, 2, 3, 4, 5, 6])

  it('moves elements to where numpy has them', () => {
    expect(first('transpose', [x], { permutation: [1, 0] })).toEqual([1, 4, 2, 5, 3, 6])
    expect(first('slice', [x], { starts: [0, 1], ends: [2, 2] })).toEqual([2, 5])
    expect(first('pad', [tensor([1, 1], [9])], { before: [0, 1], after: [1, 0] })).toEqual([0, 9, 0, 0])
    expect(first('concat', [x, tensor([2, 1], [7, 8])], { dim: 1 })).toEqual([1, 2, 3, 7, 4, 5, 6, 8])
    expect(first('broadcast', [tensor([2, 1], [1, 2])], { shape: [2, 2] })).toEqual([1, 1, 2, 2])
    expect(first('add', [x, tensor([3], [10, 20, 30])], {})).toEqual([11, 22, 33, 14, 25, 36])
    const pieces = apply('split', [x], { dim: 1, sizes: [1, 2] })
    expect(pieces.map((piece) => Array.from(piece.data))).toEqual([
      [1, 4],
      [2, 3, 5, 6],
    ])
  })

  it('slices from a start that is a value, and refuses one that leads outside', () => {
    const sliced = (dim: number, size: number, start: number): number[] =>
      first('dynamicSlice', [x, ids([], [start])], { dim, size })
    expect(sliced(1, 2, 0)).toEqual([1, 2, 4, 5])
    expect(sliced(1, 2, 1)).toEqual([2, 3, 5, 6])
    expect(sliced(0, 1, 1)).toEqual([4, 5, 6])
    expect(() => sliced(1, 2, 2)).toThrow('2..4 is not a range of dim 1 of 3 elements')
    expect(() => sliced(0, 1, -1)).toThrow('-1..0 is not a range of dim 0 of 2 elements')
  })

  it('does not communicate with other ranks', () => {
    const attributes = { operation: 'permute', reduce: null, axes: ['context'], root: 0, shift: 0 } as const
    expect(first('communicate', [x], { ...attributes, members: 1 })).toEqual([1, 2, 3, 4, 5, 6])
    expect(() => first('communicate', [x], { ...attributes, members: 2 })).toThrow(
      /^internal: .* among 2 ranks/,
    )
  })

  it('rolls around the end', () => {
    expect(first('roll', [x], { dim: 1, shift: 1 })).toEqual([3, 1, 2, 6, 4, 5])
    expect(first('roll', [x], { dim: 1, shift: -4 })).toEqual([2, 3, 1, 5, 6, 4])
    expect(first('roll', [x], { dim: 0, shift: 3 })).toEqual([4, 5, 6, 1, 2, 3])
    expect(first('roll', [tensor([0, 3], [])], { dim: 0, shift: 1 })).toEqual([])
  })

  it('reduces', () => {
    expect(first('reduceSum', [x], { dims: [0], keepDims: false })).toEqual([5, 7, 9])
    expect(first('reduceSum', [x], { dims: [0, 1], keepDims: false })).toEqual([21])
    expect(first('reduceMax', [x], { dims: [1], keepDims: true })).toEqual([3, 6])
  })
})

describe('tables', () => {
  const table = tensor([3, 2], [0, 1, 10, 11, 20, 21])

  it('gathers, scatters and marks rows', () => {
    expect(first('gather', [table, ids([2], [2, 0])], {})).toEqual([20, 21, 0, 1])
    const values = tensor([3, 1], [1, 2, 4])
    expect(first('scatterRows', [ids([3], [1, 0, 1]), values], { rows: 3 })).toEqual([2, 5, 0])
    expect(first('oneHot', [ids([3], [1, -1, 2])], { depth: 2, dtype: 'f64' })).toEqual([0, 1, 0, 0, 0, 0])
  })

  it('refuses an id outside', () => {
    expect(() => first('gather', [table, ids([1], [3])], {})).toThrow('id 3 is outside a table of 3 rows')
    expect(() => first('scatterRows', [ids([1], [-1]), tensor([1], [1])], { rows: 3 })).toThrow('id -1')
  })
})

describe('choices', () => {
  it('finds the largest, the lower place of equal ones first', () => {
    const x = tensor([2, 4], [1, 3, 3, 2, 0, 0, 0, 0])
    const [values, places] = apply('topK', [x], { k: 3 })
    expect(Array.from(values!.data)).toEqual([3, 3, 2, 0, 0, 0])
    expect(Array.from(places!.data)).toEqual([1, 2, 3, 0, 1, 2])
  })

  it('picks elements by place and puts them back', () => {
    const x = tensor([2, 3], [1, 2, 3, 4, 5, 6])
    const places = ids([2, 2], [2, 0, 1, 1])
    expect(first('gatherElements', [x, places], {})).toEqual([3, 1, 5, 5])
    expect(first('scatterElements', [places, tensor([2, 2], [1, 2, 3, 4])], { size: 3 })).toEqual([
      2, 0, 1, 0, 7, 0,
    ])
    expect(() => first('gatherElements', [x, ids([2, 1], [0, 3])], {})).toThrow(
      'id 3 is outside a row of 3 elements',
    )
  })
})

describe('routing', () => {
  it('gives slots in order of tokens and of choices, and none to what is beyond', () => {
    // Three tokens of two choices: expert 0 is asked for three times and has two slots, 3 is none of the experts.
    const chosen = ids([1, 3, 2], [0, 1, 3, 0, 0, 2])
    const [slots, occupants, tokens] = apply('assignSlots', [chosen], { experts: 3, capacity: 2 })
    expect(Array.from(slots!.data)).toEqual([0, 2, -1, 1, -1, 4])
    expect(Array.from(occupants!.data)).toEqual([0, 3, 1, -1, 5, -1])
    expect(Array.from(tokens!.data)).toEqual([0, 1, 0, -1, 2, -1])
  })

  it('counts as a loop over choices does, each sample by itself', () => {
    const numbers = new Numbers(4)
    const [batch, length, k, experts, capacity] = [3, 20, 2, 5, 6]
    const chosen = numbers.integers([batch, length, k], 0, experts - 1)
    const [slots, occupants, tokens] = apply('assignSlots', [chosen], { experts, capacity })
    let dropped = 0
    for (let sample = 0; sample < batch; sample++)
      for (let choice = 0; choice < length * k; choice++) {
        const own = sample * length * k
        const expert = chosen.data[own + choice]!
        const earlier = chosen.data.slice(own, own + choice).filter((other) => other === expert).length
        const slot = slots!.data[own + choice]!
        if (earlier >= capacity) {
          expect(slot).toBe(-1)
          dropped++
          continue
        }
        expect(slot).toBe(expert * capacity + earlier)
        expect(occupants!.data[sample * experts * capacity + slot]).toBe(choice)
        expect(tokens!.data[sample * experts * capacity + slot]).toBe(Math.floor(choice / k))
      }
    expect(dropped).toBeGreaterThan(0)
    expect(occupants!.data.filter((choice) => choice >= 0)).toHaveLength(batch * length * k - dropped)
  })

  it('moves the rows of each sample, zeros where nothing is to come', () => {
    const x = tensor([2, 2, 1], [10, 11, 20, 21])
    const sources = ids([2, 3], [1, -1, 0, 0, 0, 1])
    const targets = ids([2, 2, 2], [2, -1, 0, -1, 0, 1, 2, -1])
    expect(first('route', [x, sources, targets], {})).toEqual([11, 0, 10, 20, 20, 21])
    expect(() => first('route', [x, ids([2, 1], [0, 2]), targets], {})).toThrow(
      'id 2 is outside a table of 2 rows',
    )
  })
})

describe('generators', () => {
  it('make what they say', () => {
    expect(first('iota', [], { shape: [2, 3], dtype: 'i32', dim: 1 })).toEqual([0, 1, 2, 0, 1, 2])
    expect(first('iota', [], { shape: [2, 3], dtype: 'f64', dim: 0 })).toEqual([0, 0, 0, 1, 1, 1])
    const mask = { queries: 2, keys: 3, offset: 1, dtype: 'f64' } as const
    expect(first('causalMask', [], mask)).toEqual([0, 0, maskedScore, 0, 0, 0])
    const rotary = { part: 'sin', positions: 2, offset: 3, frequencies: [1, 0.5], dtype: 'f64' } as const
    expectClose(first('rotaryTable', [], rotary), [Math.sin(3), Math.sin(1.5), Math.sin(4), Math.sin(2)])
  })
})

describe('elementwise', () => {
  it('follows closed forms', () => {
    const two = tensor([], [2])
    expectClose(first('sigmoid', [tensor([1], [Math.log(3)])], {}), [0.75])
    expectClose(first('reciprocal', [two], {}), [0.5])
    // (1 + tanh(0.7978845608 * 1.044715)) / 2, and what is left of 1.
    expect(first('geluTanh', [tensor([2], [1, -1])], {})[0]).toBeCloseTo(0.841192, 6)
    expect(first('geluTanh', [tensor([1], [-1])], {})[0]).toBeCloseTo(-0.158808, 6)
    expect(first('cast', [tensor([3], [-1.7, 0, 1.7])], { dtype: 'i32' })).toEqual([-1, 0, 1])
    expect(first('cast', [tensor([3], [-0.5, 0, 2])], { dtype: 'bool' })).toEqual([1, 0, 1])
  })
})

describe('composites', () => {
  it('softmax of logarithms gives proportions, whatever is added to all', () => {
    const logs = [1, 2, 5].map((value) => Math.log(value) + 800)
    expectClose(first('softmax', [tensor([1, 3], logs)], {}), [1 / 8, 2 / 8, 5 / 8])
  })

  it('layerNorm standardizes', () => {
    const x = tensor([1, 4], [1, 3, 5, 7])
    const weight = tensor([4], [1, 1, 2, 2])
    const bias = tensor([4], [0, 10, 0, 10])
    const [y, mean, inverse] = apply('layerNorm', [x, weight, bias], { epsilon: 4 })
    // Mean 4, variance 5: deviation 3 with the epsilon.
    expectClose(y!.data, [-1, 10 - 1 / 3, 2 / 3, 12])
    expectClose(mean!.data, [4])
    expectClose(inverse!.data, [1 / 3])
  })

  it('rmsNorm divides by the root of the mean square', () => {
    const [y, inverse] = apply('rmsNorm', [tensor([2], [3, 5]), tensor([2], [1, 2])], { epsilon: 8 })
    expectClose(y!.data, [0.6, 2])
    expectClose(inverse!.data, [0.2])
  })

  it('crossEntropy sums over the labels that count', () => {
    const logits = tensor([3, 2], [0, Math.log(3), 5, 5, 7, -7])
    const [loss, probabilities] = apply('crossEntropy', [logits, ids([3], [1, 0, -1])], {})
    expectClose(loss!.data, [Math.log(4 / 3) + Math.log(2)])
    expectClose(probabilities!.data.slice(0, 4), [1 / 4, 3 / 4, 1 / 2, 1 / 2])
    expect(() => apply('crossEntropy', [logits, ids([3], [0, 0, 2])], {})).toThrow('label 2 among 2 classes')
  })

  it('crossEntropyGradient takes 1 from the probability of each label that counts', () => {
    const probabilities = tensor([3, 2], [0.25, 0.75, 0.5, 0.5, 1, 0])
    const [gradient] = apply('crossEntropyGradient', [probabilities, ids([3], [1, 0, -1])], {})
    expectClose(gradient!.data, [0.25, -0.25, -0.5, 0.5, 1, 0])
  })

  it.each([
    { causal: false, heads: 2, kvHeads: 2, queries: 3, keys: 3 },
    { causal: true, heads: 4, kvHeads: 2, queries: 3, keys: 5 },
    { causal: true, heads: 3, kvHeads: 1, queries: 4, keys: 4 },
  ])('attention equals its formula, head by head (%o)', ({ causal, heads, kvHeads, queries, keys }) => {
    const numbers = new Numbers(7)
    const [batch, width, scale] = [2, 3, 0.6]
    const q = numbers.floats('f64', [batch, heads, queries, width])
    const k = numbers.floats('f64', [batch, kvHeads, keys, width])
    const v = numbers.floats('f64', [batch, kvHeads, keys, width])
    const [output, probabilities] = apply('attention', [q, k, v], { scale, causal })
    const row = (source: Tensor, ...index: [number, number, number]): number[] => {
      const [sample, head, position] = index
      const [, sizeHeads, sizePositions] = source.type.shape as [number, number, number]
      const start = ((sample * sizeHeads + head) * sizePositions + position) * source.type.shape[3]!
      return Array.from(source.data.subarray(start, start + source.type.shape[3]!))
    }
    for (let sample = 0; sample < batch; sample++)
      for (let head = 0; head < heads; head++)
        for (let query = 0; query < queries; query++) {
          const shared = Math.floor(head / (heads / kvHeads))
          const weights = Array.from({ length: keys }, (_, key) => {
            if (causal && key > query + keys - queries) return 0
            const other = row(k, sample, shared, key)
            const products = row(q, sample, head, query).map((value, at) => value * other[at]!)
            return Math.exp(scale * products.reduce((sum, value) => sum + value, 0))
          })
          const total = weights.reduce((sum, value) => sum + value, 0)
          const shares = weights.map((weight) => weight / total)
          expectClose(row(probabilities!, sample, head, query), shares)
          const mixed = Array.from({ length: width }, (_, at) =>
            shares.reduce((sum, share, key) => sum + share * row(v, sample, shared, key)[at]!, 0),
          )
          expectClose(row(output!, sample, head, query), mixed)
        }
  })
})

describe('attention over visible keys', () => {
  const numbers = new Numbers(11)
  const scale = 0.7
  const q = numbers.floats('f64', [2, 3, 4, 5, 2])
  const k = numbers.floats('f64', [2, 3, 2, 6, 2])
  const v = numbers.floats('f64', [2, 3, 2, 6, 3])
  const visibleOf = (shape: readonly number[], sees: (index: number) => boolean): Tensor => {
    const count = shape.reduce((product, size) => product * size, 1)
    return makeTensor(
      { dtype: 'bool', shape },
      Array.from({ length: count }, (_, index) => (sees(index) ? 1 : 0)),
    )
  }

  it('is causal attention where these are the keys up to a position', () => {
    const causal = apply('attention', [q, k, v], { scale, causal: true })
    const visible = visibleOf([5, 6], (index) => index % 6 <= Math.floor(index / 6) + 1)
    const seen = apply('attention', [q, k, v, visible], { scale, causal: false })
    seen.forEach((tensor, output) => {
      expectClose(tensor.data, Array.from(causal[output]!.data))
    })
  })

  it('differs by batch where the mask does, and repeats where it has a dim of 1', () => {
    const full = apply('attention', [q, k, v], { scale, causal: false })
    const half = visibleOf([2, 1, 5, 6], (index) => index < 30 || index % 6 === 4)
    const [output, probabilities, logSumExp] = apply('attention', [q, k, v, half], { scale, causal: false })
    expectClose(output!.data.slice(0, 180), Array.from(full[0]!.data.slice(0, 180)))
    expectClose(logSumExp!.data.slice(0, 60), Array.from(full[2]!.data.slice(0, 60)))
    // One key has all of the weight.
    expect(Array.from(probabilities!.data.slice(360, 366))).toEqual([0, 0, 0, 0, 1, 0])
    expectClose(output!.data.slice(180, 183), Array.from(v.data.slice(3 * 36 + 12, 3 * 36 + 15)))
  })

  it('is nothing, with no weight, for a query that sees no key', () => {
    const visible = visibleOf([5, 6], (index) => index >= 6)
    const [output, probabilities, logSumExp] = apply('attention', [q, k, v, visible], {
      scale,
      causal: false,
    })
    expect(Array.from(output!.data.slice(0, 3))).toEqual([0, 0, 0])
    expect(Array.from(probabilities!.data.slice(0, 6))).toEqual([0, 0, 0, 0, 0, 0])
    expect(Math.exp(logSumExp!.data[0]! - logSumExp!.data[1]!)).toBe(0)
    expect([output, probabilities, logSumExp].some((tensor) => tensor!.data.some(Number.isNaN))).toBe(false)
  })

  it('gives the logarithm of the sum of exponentials of the scores', () => {
    const [, , logSumExp] = apply('attention', [q, k, v], { scale, causal: false })
    // The second query of the third head, which uses the second kv head.
    const scores = Array.from({ length: 6 }, (_, key) => {
      const [a, b] = [(2 * 5 + 1) * 2, (6 + key) * 2]
      return scale * (q.data[a]! * k.data[b]! + q.data[a + 1]! * k.data[b + 1]!)
    })
    expect(logSumExp!.data[11]).toBeCloseTo(Math.log(scores.reduce((sum, s) => sum + Math.exp(s), 0)), 12)
  })
})

describe('costs', () => {
  const type = (...shape: number[]) => ({ dtype: 'f32', shape }) as const

  it('counts two flops for each multiplication of a product, and each operand once', () => {
    const inputs = [type(8, 2, 3), type(3, 5)]
    const outputs = opTable.matmul.infer(inputs, plain)
    expect(opTable.matmul.cost(inputs, outputs, plain)).toEqual({
      flops: 2 * 8 * 2 * 3 * 5,
      bytes: 4 * (8 * 2 * 3 + 3 * 5 + 8 * 2 * 5),
    })
  })

  it('reads only the rows that are gathered', () => {
    const inputs = [type(1000, 8), { dtype: 'i32', shape: [2] }] as const
    const outputs = opTable.gather.infer(inputs, {})
    expect(opTable.gather.cost(inputs, outputs, {})).toEqual({ flops: 0, bytes: 2 * 4 + 2 * (2 * 8 * 4) })
  })

  it('counts both products of attention over the whole score matrix', () => {
    const inputs = [type(2, 4, 6, 8), type(2, 2, 6, 8), type(2, 2, 6, 8)]
    const attributes = { scale: 1, causal: true }
    const outputs = opTable.attention.infer(inputs, attributes)
    const scores = 2 * 4 * 6 * 6
    const { flops } = opTable.attention.cost(inputs, outputs, attributes)
    expect(flops).toBe(scores * (2 * 8 + 2 * 8) + 6 * scores)
  })
})
