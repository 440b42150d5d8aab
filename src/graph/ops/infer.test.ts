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
    'dynamicSlice',
    [f32(4, 2), f32()],
    { dim: 1, size: 1 },
    'dynamicSlice: the start must be an i32 scalar (operands f32[4, 2], f32[])',
  )
  refuses(
    'dynamicSlice',
    [f32(4, 2), typed('i32')],
    { dim: 1, size: 3 },
    'dynamicSlice: dim 1 does not have 3 elements (operands f32[4, 2], i32[])',
  )
  refuses(
    'dynamicSlice',
    [f32(4), typed('i32')],
    { dim: 1, size: 1 },
    'dynamicSlice: there is no dim 1 among 1 (operands f32[4], i32[])',
  )
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
  refuses('topK', [f32(2, 3)], { k: 4 }, 'topK: a row has no 4 largest of 3 elements (operands f32[2, 3])')
  refuses(
    'gatherElements',
    [f32(2, 3), typed('i32', 3, 1)],
    {},
    'gatherElements: needs as many rows of ids (operands f32[2, 3], i32[3, 1])',
  )
  refuses(
    'scatterElements',
    [typed('i32', 2, 2), f32(2, 3)],
    { size: 4 },
    'scatterElements: needs one value for each id (operands i32[2, 2], f32[2, 3])',
  )
  refuses(
    'assignSlots',
    [typed('i32', 2, 3, 2)],
    { experts: 2 ** 16, capacity: 2 ** 15 },
    'assignSlots: there are too many slots to number (operands i32[2, 3, 2])',
  )
  refuses(
    'assignSlots',
    [typed('i32', 2, 3)],
    { experts: 2, capacity: 2 },
    'assignSlots: needs [batch, tokens, choices of a token] (operands i32[2, 3])',
  )
  refuses(
    'route',
    [f32(2, 3, 4), typed('i32', 2, 5), typed('i32', 2, 5, 1)],
    {},
    'route: needs for each row the places it goes to (operands f32[2, 3, 4], i32[2, 5], i32[2, 5, 1])',
  )
  refuses(
    'route',
    [f32(2, 3, 4), typed('i32', 3, 5), typed('i32', 2, 3, 1)],
    {},
    'route: needs ids of each sample (operands f32[2, 3, 4], i32[3, 5], i32[2, 3, 1])',
  )
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
    'attention',
    [f32(1, 2, 2, 4), f32(1, 2, 2, 4), f32(1, 2, 2, 4), typed('bool', 3, 2, 2)],
    { scale: 1, causal: false },
    'attention: what is visible does not fit [1, 2, 2] (operands f32[1, 2, 2, 4], f32[1, 2, 2, 4], f32[1, 2, 2, 4], bool[3, 2, 2])',
  )
  refuses(
    'attention',
    [f32(1, 2, 2, 4), f32(1, 2, 2, 4), f32(1, 2, 2, 4), typed('bool', 2, 2)],
    { scale: 1, causal: true },
    'attention: which keys are visible is said twice (operands f32[1, 2, 2, 4], f32[1, 2, 2, 4], f32[1, 2, 2, 4], bool[2, 2])',
  )
  refuses('roll', [f32(3)], { dim: 0, shift: 0.5 }, 'roll: 0.5 is not a shift (operands f32[3])')
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

describe('communicate', () => {
  const alone = { reduce: null, axes: ['context', 'tensor.row'], members: 4, root: 0, shift: 0 } as const
  const x = named(['batch', 'embed'], 8, 3)

  it.each([
    ['allReduce', 'sum', [8, 3]],
    ['reduceScatter', 'mean', [2, 3]],
    ['allGather', null, [32, 3]],
    ['allToAll', null, [8, 3]],
    ['broadcast', null, [8, 3]],
    ['reduce', 'max', [8, 3]],
    ['permute', null, [8, 3]],
  ] as const)('makes of 8 rows among 4 members by %s %s rows of %j', (operation, reduce, shape) => {
    expect(infer('communicate', [x], { ...alone, operation, reduce })).toEqual([
      named(['batch', 'embed'], ...shape),
    ])
  })

  it('takes a scalar where no blocks are told apart', () => {
    const scalars = [f32()]
    expect(infer('communicate', scalars, { ...alone, operation: 'allReduce', reduce: 'sum' })).toEqual(
      scalars,
    )
    expect(infer('communicate', scalars, { ...alone, operation: 'permute', shift: 3 })).toEqual(scalars)
    expect(infer('communicate', scalars, { ...alone, operation: 'broadcast', root: 3 })).toEqual(scalars)
  })

  type Attributes = OpAttributes['communicate']
  const gather: Attributes = { ...alone, operation: 'allGather' }
  const sum: Attributes = { ...alone, operation: 'allReduce', reduce: 'sum' }
  it.each<[Attributes, TensorType, string]>([
    [{ ...gather, members: 0 }, x, '0 is not a number of members'],
    [{ ...gather, members: 1.5 }, x, '1.5 is not a number of members'],
    [{ ...gather, axes: [] }, x, 'names no axis'],
    [{ ...gather, axes: ['tensor', 'tensor'] }, x, 'names an axis twice: tensor, tensor'],
    [{ ...gather, reduce: 'sum' }, x, 'allGather has no reduction'],
    [{ ...sum, reduce: null }, x, 'allReduce needs a reduction'],
    [{ ...sum, root: 1 }, x, 'allReduce among 4 has no root 1'],
    [{ ...sum, operation: 'reduce', root: 4 }, x, 'reduce among 4 has no root 4'],
    [{ ...alone, operation: 'broadcast', root: -1 }, x, 'broadcast among 4 has no root -1'],
    [{ ...alone, operation: 'permute', shift: 4 }, x, 'permute among 4 has no shift 4'],
    [{ ...sum, shift: 1 }, x, 'allReduce among 4 has no shift 1'],
    [{ ...sum, operation: 'reduceScatter' }, f32(6), '6 rows do not divide among 4 members'],
    [{ ...alone, operation: 'allToAll' }, f32(6), '6 rows do not divide among 4 members'],
    [gather, f32(), 'allGather needs a first dim'],
    [sum, typed('bool', 4), 'sum is not defined on bool'],
    [{ ...sum, reduce: 'mean' }, typed('i32', 4), 'mean is not defined on i32'],
  ])('refuses %j of %j: %s', (attributes, type, reason) => {
    expect(() => infer('communicate', [type], attributes)).toThrow(
      expect.objectContaining({
        code: 'GRAPH_SHAPE',
        message: `communicate: ${reason} (operands ${type.dtype}[${type.shape.join(', ')}])`,
      }),
    )
  })
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
