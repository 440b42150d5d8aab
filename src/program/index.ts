export {
  arenaBytes,
  operandBytes,
  operandRows,
  slotBytes,
  type ValueAccess,
  valueAccesses,
} from './accesses.ts'
export { encodeInstructions, readInstruction, readInstructions } from './columns.ts'
export { type LowerOptions, lowerPlan } from './lower/index.ts'
export {
  type Coordinates,
  coordinatesOf,
  groupRanks,
  peerRank,
  rankAt,
  rankCount,
  roleRanks,
  rolesByRank,
  submeshRanks,
} from './mesh.ts'
export { formatInstruction } from './text/instruction.ts'
export { formatOperand, formatValue } from './text/operands.ts'
export { parseProgram } from './text/parse.ts'
export { type PrintOptions, printProgram } from './text/print.ts'
export { type TimedInstruction, timeProgram } from './timing.ts'
export type * from './types.ts'
export type { CycleEdge, Finding, InstructionPlace } from './verify/finding.ts'
export {
  type Invariant,
  invariants,
  type Verification,
  type VerifyOptions,
  verifyProgram,
} from './verify/index.ts'
export { cellOf, formatFinding, type ReportOptions } from './verify/report.ts'
