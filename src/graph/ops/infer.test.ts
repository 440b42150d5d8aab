import { describe, expect, it } from 'vitest'
import { type DType, type OpAttributes, type OpName, ruleOf, type TensorType } from '../index.ts'

const f32 = (...shape: number[]): TensorType => ({ dtype: 'f32', shape })
const named = (axes: readonly string[], ...shape: number[]): TensorType => ({ dtype: 'f32', shape, axes })
const typed = (dtype: DType, ...shape: number[]): TensorType => ({ dtype, shape })
const plain = { transposeA: false, transposeB: false, scale: 1 }

function infer<K extends OpName>(op: K, inputs: readonly TensorType[], attributes: OpAttributes[K]) {
  return ruleOf(op).infer(inputs, attributes)
}

describe('shape errors name the op, the reason and the operands', () => {
  function refuses<K extends OpName>(
    op: K,
    inputs: readonly TensorType[],
    attributes: OpAttributes[K],
    message: string,
  ): void {
    it(message, () => {
      expect(() => infer(op, inputs, attributes)).toThrow(
        expect.objectContaining({ name: 'MeshwrightError', code: 'GRAPH_SHAPE', message }),
      )
    })
  }
  refuses(
    'matmul',
    [f32(2, 3), f32(4, 5)],
    plain,
    'matmul: the inner sizes 3 and 4 differ (operands f32[2, 3], f32[4, 5])',
  )
  refuses(
    'matmul',
    [f32(2, 2, 3), f32(3, 3, 5)],
    plain,
    'matmul: the leading dims do not broadcast (operands f32[2, 2, 3], f32[3, 3, 5])',
  )
  refuses('add', [f32(2), f32(3)], {}, 'add: the shapes do not broadcast (operands f32[2], f32[3])')
  refuses('add', [f32(2), typed('f64', 2)], {}, 'add: the dtypes differ (operands f32[2], f64[2])')
  refuses('add', [f32(2)], {}, 'add: needs 2 operands, was given 1 (operands f32[2])')
  refuses('exp', [typed('i32', 2)], {}, 'exp: is not defined on i32 (operands i32[2])')
  refuses(
    'reshape',
    [f32(2, 3)],
    { shape: [4] },
    'reshape: [4] holds another number of elements (operands f32[2, 3])',
  )
  refuses('reshape', [f32(2, 3)], { shape: [-2, -3] }, 'reshape: -2 is not a size (operands f32[2, 3])')
  refuses(
    'transpose',
    [f32(2, 3)],
    { permutation: [0, 0] },
    'transpose: [0, 0] is not an order of its dims (operands f32[2, 3])',
  )
  refuses(
    'broadcast',
    [f32(2, 3)],
    { shape: [2, 1] },
    'broadcast: does not broadcast to [2, 1] (operands f32[2, 3])',
  )
  refuses(
    'slice',
    [f32(4)],
    { starts: [2], ends: [5] },
    'slice: 2..5 is not a range of dim 0 (operands f32[4])',
  )
  refuses(
    'split',
    [f32(4)],
    { dim: 0, sizes: [1, 2] },
    'split: sizes 1 + 2 do not make up dim 0 (operands f32[4])',
  )
  refuses(
    'concat',
    [f32(4, 1), f32(3, 1)],
    { dim: 1 },
    'concat: shapes differ elsewhere than in dim 1 (operands f32[4, 1], f32[3, 1])',
  )
  refuses('concat', [], { dim: 0 }, 'concat: needs an operand')
  refuses(
    'reduceSum',
    [f32(2, 3)],
    { dims: [1, 0], keepDims: false },
    'reduceSum: dims 1, 0 must ascend (operands f32[2, 3])',
  )
  refuses(
    'reduceMax',
    [f32(0)],
    { dims: [0], keepDims: false },
    'reduceMax: nothing has no largest element (operands f32[0])',
  )
  refuses('gather', [f32(4, 2), f32(1)], {}, 'gather: ids must be i32 (operands f32[4, 2], f32[1])')
  refuses(
    'scatterRows',
    [typed('i32', 2), f32(3, 4)],
    { rows: 5 },
    'scatterRows: needs one row of values for each id (operands i32[2], f32[3, 4])',
  )
  refuses(
    'layerNorm',
    [f32(2, 3), f32(3), f32(2)],
    { epsilon: 0 },
    'layerNorm: weights must have the shape [3] (operands f32[2, 3], f32[3], f32[2])',
  )
  refuses(
    'attention',
    [f32(1, 3, 2, 4), f32(1, 2, 2, 4), f32(1, 2, 2, 4)],
    { scale: 1, causal: true },
    'attention: 3 query heads do not divide among 2 kv heads (operands f32[1, 3, 2, 4], f32[1, 2, 2, 4], f32[1, 2, 2, 4])',
  )
  refuses(
    'attention',
    [f32(1, 2, 3, 4), f32(1, 2, 2, 4), f32(1, 2, 2, 4)],
    { scale: 1, causal: true },
    'attention: a query would see no key (operands f32[1, 2, 3, 4], f32[1, 2, 2, 4], f32[1, 2, 2, 4])',
  )
  refuses(
    'crossEntropy',
    [f32(2, 3), typed('i32', 3)],
    {},
    'crossEntropy: needs one label for each row of logits (operands f32[2, 3], i32[3])',
  )
  refuses(
    'fill',
    [],
    { shape: [], dtype: 'f32', value: Number.NaN },
    'fill: NaN is not a constant of dtype f32',
  )
  refuses(
    'where',
    [f32(2), f32(2), f32(2)],
    {},
    'where: the condition must be bool (operands f32[2], f32[2], f32[2])',
  )
})

describe('axis names', () => {
  const x = named(['batch', 'sequence', 'embed'], 2, 3, 4)

  it('are kept by elementwise ops, from the operand that is not repeated', () => {
    expect(infer('exp', [x], {})).toEqual([x])
    expect(infer('add', [f32(4), x], {})).toEqual([x])
    expect(infer('mul', [named(['repeated', ''], 1, 4), named(['sequence', 'embed'], 3, 4)], {})).toEqual([
      named(['sequence', 'embed'], 3, 4),
    ])
  })

  it('move with their dims', () => {
    expect(infer('transpose', [x], { permutation: [2, 0, 1] })).toEqual([
      named(['embed', 'batch', 'sequence'], 4, 2, 3),
    ])
    const weight = named(['mlp', 'embed'], 5, 4)
    expect(infer('matmul', [x, weight], { ...plain, transposeB: true })).toEqual([
      named(['batch', 'sequence', 'mlp'], 2, 3, 5),
    ])
    const ids: TensorType = { dtype: 'i32', shape: [2, 3], axes: ['batch', 'sequence'] }
    expect(infer('gather', [named(['vocab', 'embed'], 9, 4), ids], {})).toEqual([x])
    expect(infer('reduceSum', [x], { dims: [1], keepDims: false })).toEqual([named(['batch', 'embed'], 2, 4)])
  })

  it('are dropped by a reshape that gives none', () => {
    expect(infer('reshape', [x], { shape: [6, 4] })).toEqual([f32(6, 4)])
    expect(infer('reshape', [x], { shape: [6, 4], axes: ['', 'embed'] })).toEqual([
      named(['', 'embed'], 6, 4),
    ])
  })
})
