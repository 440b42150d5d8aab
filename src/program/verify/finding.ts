import type { Instruction, Program, Role } from '../types.ts'

export interface InstructionPlace {
  /** Index into `Program.roles`. */
  readonly role: number
  readonly instruction: number
  /** Where the finding is about one rank of the role. */
  readonly rank?: number
}

/** One edge of a cycle: `from` must come before `to`, because of `why`. */
export interface CycleEdge {
  readonly from: InstructionPlace
  readonly to: InstructionPlace
  readonly why: 'order' | 'data' | 'meets'
}

/** What the verifier has against a Program. */
export interface Finding {
  /** Stable: the invariant's name, in capitals. */
  readonly code: string
  readonly message: string
  /** What would fix it. */
  readonly fix: string
  readonly ranks: readonly number[]
  readonly places: readonly InstructionPlace[]
  readonly stage?: number
  readonly microbatch?: number
  readonly cycle?: readonly CycleEdge[]
}

/** A role with its instructions as objects, and the ranks that follow it. */
export interface RoleView {
  readonly index: number
  readonly role: Role
  readonly ranks: readonly number[]
  readonly instructions: readonly Instruction[]
}

export interface VerifyContext {
  readonly program: Program
  readonly roles: readonly RoleView[]
  readonly budgetBytes: number | undefined
  /** Largest workspace of each task, where the caller knows it. */
  readonly workspaceBytes: number
}

/** Which action an instruction is for, to be spread into a finding. */
export function actionOf(view: RoleView, instruction: number): { stage?: number; microbatch?: number } {
  const item = view.instructions[instruction]
  if (item?.kind !== 'run' || item.action === undefined) return {}
  const action = view.role.actions[item.action]
  return action === undefined ? {} : { stage: action.stage, microbatch: action.microbatch }
}
