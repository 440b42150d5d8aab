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
export { type Fetch, fetchesOf } from './exchange.ts'
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
export { type MegatronOptions, megatron } from './partition/megatron.ts'
export { partitionGraph } from './partition/partition.ts'
export { pieceGraph, startAt } from './partition/pieces.ts'
export type {
  MoveItem,
  Partition,
  Piece,
  PlacedValue,
  StartScalar,
  WantedValue,
  Wants,
} from './partition/types.ts'
export { type Redistribution, redistribute, sentBytes } from './redistribute.ts'
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
  type FlattenedProduct,
  flattenedProducts,
  type TypedOp,
} from './rules/cuttable.ts'
export { type DecomposedName, decompose, decomposeNodes } from './rules/decompose.ts'
export { layoutRuleOf, layoutRules } from './rules/index.ts'
export { addLocalOp, type StartValue } from './rules/local.ts'
export type { LayoutRule, LayoutRules, OpSignature, TermRule } from './rules/notation.ts'
export { type Step, type StepKind, sentElements, stepElements } from './steps.ts'
export { parseLayout, printLayout } from './text.ts'
export { type Crossing, type Located, redistributeAcross, type Transfer } from './transfers.ts'
export type { Block, Coordinates, Layout, Mesh, MeshAxis, PartialReduction } from './types.ts'
export { type RingOperation, ringLaps, ringTotal } from './wire.ts'
