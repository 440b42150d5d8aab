export { repeatedValues } from './boundary.ts'
export { GraphBuilder, prune } from './builder.ts'
export { checkGraph } from './check.ts'
export { type BlockCosts, blockCosts, graphCost, nodeCost } from './cost.ts'
export { type DifferentiateRequest, densify, differentiate, type Gradient } from './differentiate.ts'
export { canonicalHash } from './hash.ts'
export {
  findNonFinite,
  type InterpretedNode,
  interpretGraph,
  interpretSteps,
  type NonFinite,
  nonFiniteElement,
  type TensorsByName,
} from './interpret.ts'
export { formatWords, hashText, type Words } from './mixing.ts'
export { type AffineOperands, emitAffine } from './ops/affine.ts'
export { maskedScore } from './ops/generators.ts'
export { opNames, opTable, ruleOf } from './ops/index.ts'
export { fillNormal, fillUniform, type PermutationOptions, permutation, type RandomStream } from './random.ts'
export {
  defaultRecompute,
  type RecomputeChoice,
  type RecomputeClass,
  recomputeClass,
} from './recompute.ts'
export { type RewriteContext, type Rewriting, rewriteGraph } from './rewrite.ts'
export type {
  Cotangent,
  OnnxAttribute,
  OnnxContext,
  OnnxEmitter,
  OpCost,
  OpRule,
  OpTable,
  VjpContext,
} from './rule.ts'
export { nodesBehind, sliceGraph } from './slice.ts'
export { differentiatePiece, type ParameterGradient, type StageDerivative } from './stageDerivative.ts'
export { type StagePiece, splitStages } from './stages.ts'
export {
  differentiateStage,
  type StageCrossings,
  type StageTasks,
  stageTasks,
  type TaskOptions,
} from './tasks.ts'
export {
  axesOf,
  byteSize,
  bytesPerElement,
  elementCount,
  emptyData,
  filledTensor,
  formatType,
  isFloat,
  makeTensor,
  sameShape,
  scalarTensor,
  type TensorData,
  tensorType,
} from './tensor.ts'
export { printGraph } from './text.ts'
export { parseGraph } from './textParser.ts'
export type {
  CommunicateOperation,
  DType,
  FloatDType,
  Graph,
  GraphInput,
  GraphOutput,
  InputKind,
  Node,
  OpAttributes,
  OpName,
  Tensor,
  TensorType,
  Value,
  ValueId,
} from './types.ts'
