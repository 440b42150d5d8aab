import type { CommunicateOperation, OpAttributes, OpName } from './types.ts'

/** How an attribute is written in text: one of these forms, or one of a list of words, of which `null` may be one. */
export type AttributeKind =
  | 'number'
  | 'optional number'
  | 'boolean'
  | 'numbers'
  | 'strings'
  | 'optional strings'
  | readonly (string | null)[]

const dtypes: readonly string[] = ['f32', 'f64', 'i32', 'bool']
const floats: readonly string[] = ['f32', 'f64']
const operations: readonly CommunicateOperation[] = [
  'allReduce',
  'reduceScatter',
  'allGather',
  'allToAll',
  'broadcast',
  'reduce',
  'permute',
]

/** The attributes of every op, in the order in which they are written. */
export const attributeKinds: {
  readonly [K in OpName]: { readonly [A in keyof Required<OpAttributes[K]>]: AttributeKind }
} = {
  fill: { shape: 'numbers', dtype: dtypes, value: 'number' },
  iota: { shape: 'numbers', dtype: dtypes, dim: 'number' },
  causalMask: { queries: 'number', keys: 'number', offset: 'number', dtype: floats },
  rotaryTable: {
    part: ['cos', 'sin'],
    positions: 'number',
    offset: 'number',
    frequencies: 'numbers',
    dtype: floats,
  },
  neg: {},
  abs: {},
  exp: {},
  log: {},
  sqrt: {},
  reciprocal: {},
  tanh: {},
  sigmoid: {},
  geluTanh: {},
  not: {},
  cast: { dtype: dtypes },
  add: {},
  sub: {},
  mul: {},
  div: {},
  max: {},
  min: {},
  equal: {},
  less: {},
  and: {},
  where: {},
  geluTanhGradient: {},
  reduceSum: { dims: 'numbers', keepDims: 'boolean' },
  reduceMax: { dims: 'numbers', keepDims: 'boolean' },
  reshape: { shape: 'numbers', axes: 'optional strings' },
  transpose: { permutation: 'numbers' },
  broadcast: { shape: 'numbers' },
  slice: { starts: 'numbers', ends: 'numbers' },
  dynamicSlice: { dim: 'number', size: 'number' },
  pad: { before: 'numbers', after: 'numbers' },
  concat: { dim: 'number' },
  split: { dim: 'number', sizes: 'numbers' },
  roll: { dim: 'number', shift: 'number' },
  matmul: { transposeA: 'boolean', transposeB: 'boolean', scale: 'number' },
  gather: {},
  scatterRows: { rows: 'number' },
  oneHot: { depth: 'number', dtype: floats },
  topK: { k: 'number' },
  gatherElements: {},
  scatterElements: { size: 'number' },
  assignSlots: { experts: 'number', capacity: 'number' },
  route: {},
  softmax: {},
  layerNorm: { epsilon: 'number' },
  rmsNorm: { epsilon: 'number' },
  attention: { scale: 'number', causal: 'boolean' },
  crossEntropy: {},
  crossEntropyGradient: {},
  communicate: {
    operation: operations,
    reduce: ['sum', 'max', 'mean', null],
    axes: 'strings',
    members: 'number',
    root: 'number',
    shift: 'number',
    occasion: 'optional number',
    chunk: 'optional number',
  },
}
