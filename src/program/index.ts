export {
  arenaBytes,
  inPlace,
  isInPlace,
  operandBytes,
  operandElements,
  operandRows,
  poolSlotBytes,
  slotBytes,
  type ValueAccess,
  valueAccesses,
} from './accesses.ts'
export { columnAccess, columnKinds, visitColumnAccesses } from './columnAccesses.ts'
export { eachInstruction, encodeInstructions, readInstruction, readInstructions } from './columns.ts'
export { type LowerOptions, lowerPlan } from './lower/index.ts'
export {
  type Coordinates,
  constantValue,
  coordinatesOf,
  groupRanks,
  groupSize,
  isReplicaAxis,
  peerRank,
  rankAt,
  rankCount,
  replicaIndex,
  roleRanks,
  rolesByRank,
  submeshRanks,
} from './mesh.ts'
export {
  blockAxes,
  type HeldBlock,
  type HeldPart,
  heldBlocks,
  heldParts,
  heldRanges,
  localElements,
  localShape,
  shardCount,
  shardElements,
  wholeElement,
} from './shards.ts'
export { assignPools, assignSlots, maySharePool } from './slots.ts'
export { collectiveVerbs, formatInstruction } from './text/instruction.ts'
export { formatOperand, formatValue } from './text/operands.ts'
export { parseProgram } from './text/parse.ts'
export { type PrintOptions, printProgram } from './text/print.ts'
export {
  collectiveBlocks,
  collectiveOperations,
  collectivePayloadBytes,
  collectiveWireBytes,
} from './traffic.ts'
export type * from './types.ts'
export type { CycleEdge, Finding, InstructionPlace } from './verify/finding.ts'
export {
  type Invariant,
  invariants,
  type Verification,
  type VerifyOptions,
  verifyProgram,
} from './verify/index.ts'
export { type BufferKind, bufferKind, bufferKinds } from './verify/naming.ts'
export { dividedMesh, memberFinder } from './verify/ranks.ts'
export { cellOf, formatFinding, type ReportOptions } from './verify/report.ts'
