export {
  blockElements,
  blockShape,
  heldBlock,
  heldBytes,
  heldRange,
  intersection,
  isOwner,
  largestBlockShape,
  largestBytes,
  partOf,
  type Range,
  sameHolders,
} from './blocks.ts'
export { checkEven, checkLayout, formatAxes } from './check.ts'
export { maskedAttention } from './context/maskedAttention.ts'
export type { SequenceBlocks } from './context/order.ts'
export { ringAttention } from './context/ringAttention.ts'
export { type Fetch, fetchesOf } from './exchange.ts'
export { type FactoredGraph, factorGraph } from './factors/factorGraph.ts'
export { blockCount, makeLayout, replicaAxes, replicatedLayout, sameLayout, shardingAxes } from './layout.ts'
export {
  allCoordinates,
  axesSize,
  axisSize,
  checkFactorisations,
  checkMesh,
  coordinatesAt,
  groupAlong,
  meshSize,
  placeAlong,
  placeAt,
  printMesh,
  rankOfPlace,
} from './mesh.ts'
export {
  type LocalDerivative,
  type LocalDerivativeOptions,
  localDerivative,
} from './partition/localDerivative.ts'
export { blockShapeOf, communicatedBytes, localGraph } from './partition/localGraph.ts'
export { derivativeKey, renamedLocal } from './partition/renamed.ts'
export type {
  LocalGraph,
  PlacedType,
  RankScalar,
  WantedValue,
  Wants,
} from './partition/types.ts'
export { layoutForm, layoutWants } from './recipes/layoutWants.ts'
export { findRecipe, type LayoutRecipe, layoutRecipes, type RecipeParameter } from './recipes/registry.ts'
export { applyRules, matchesGlob, type RuledValue, type Ruling } from './recipes/rules.ts'
export type {
  ContextRecipe,
  FactoredAxes,
  LayoutSettings,
  PlacementRule,
  TensorRecipe,
} from './recipes/settings.ts'
export { type Redistribution, redistribute, sentBytes } from './redistribute.ts'
export { type RefinedAxes, refineAxes } from './refine.ts'
export {
  type Assignment,
  canCut,
  commutes,
  indicesOf,
  inputLayouts,
  outputLayouts,
} from './rules/assignment.ts'
export { type OpPlan, type OpPlanRequest, opPlans } from './rules/choose.ts'
export {
  type CuttableOp,
  cuttableOp,
  type TypedOp,
} from './rules/cuttable.ts'
export { type DecomposedName, decompose, decomposeNodes } from './rules/decompose.ts'
export { layoutRuleOf, layoutRules } from './rules/index.ts'
export { addLocalOp, mergedShape, type StartValue } from './rules/local.ts'
export type { LayoutRule, LayoutRules, OpSignature, TermRule } from './rules/notation.ts'
export type { WantedLayout } from './rules/target.ts'
export { type Step, type StepKind, sentElements, stepElements } from './steps.ts'
export { parseLayout, printLayout } from './text.ts'
export { type Crossing, type Located, redistributeAcross, type Transfer } from './transfers.ts'
export type { Block, Coordinates, Layout, Mesh, MeshAxis, PartialReduction } from './types.ts'
export { type RingOperation, ringLaps, ringTotal } from './wire.ts'
