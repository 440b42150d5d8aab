import type { OpRule, OpTable } from '../rule.ts'
import type { OpName } from '../types.ts'
import { attention } from './attention.ts'
import { add, and, div, equal, less, max, min, multiply, sub } from './binary.ts'
import { gatherElements, scatterElements, topK } from './choices.ts'
import { communicate } from './communicate.ts'
import { dynamicSlice } from './dynamicSlice.ts'
import { geluTanh, geluTanhGradient } from './gelu.ts'
import { causalMask, fill, iota, rotaryTable } from './generators.ts'
import { crossEntropy, crossEntropyGradient } from './loss.ts'
import { matmul } from './matmul.ts'
import { broadcast, reshape, transpose } from './movement.ts'
import { layerNorm, rmsNorm, softmax } from './norms.ts'
import { concat, pad, slice, split } from './pieces.ts'
import { reduceMax, reduceSum } from './reductions.ts'
import { roll } from './roll.ts'
import { assignSlots, route } from './routing.ts'
import { gather, oneHot, scatterRows } from './tables.ts'
import { abs, cast, exp, log, neg, not, reciprocal, sigmoid, sqrt, tanh } from './unary.ts'
import { where } from './where.ts'

/** Every op there is. */
export const opTable: OpTable = {
  fill,
  iota,
  causalMask,
  rotaryTable,
  neg,
  abs,
  exp,
  log,
  sqrt,
  reciprocal,
  tanh,
  sigmoid,
  geluTanh,
  not,
  cast,
  add,
  sub,
  mul: multiply,
  div,
  max,
  min,
  equal,
  less,
  and,
  where,
  geluTanhGradient,
  reduceSum,
  reduceMax,
  reshape,
  transpose,
  broadcast,
  slice,
  dynamicSlice,
  pad,
  concat,
  split,
  roll,
  matmul,
  gather,
  scatterRows,
  oneHot,
  topK,
  gatherElements,
  scatterElements,
  assignSlots,
  route,
  softmax,
  layerNorm,
  rmsNorm,
  attention,
  crossEntropy,
  crossEntropyGradient,
  communicate,
}

export const opNames: readonly OpName[] = Object.keys(opTable) as OpName[]

/** The rule of an op whose name is known only when running: hands every part of it the node's own attributes. */
export function ruleOf(op: OpName): OpRule<OpName> {
  return opTable[op] as unknown as OpRule<OpName>
}
