import { type Action, phases } from '../../schedule/index.ts'
import type { Program, Task } from '../types.ts'
import type { RankView } from './ranks.ts'
import type { RoleView } from './roleView.ts'

export type { RoleView }

export interface InstructionPlace {
  /** Index into `Program.roles`. */
  readonly role: number
  readonly instruction: number
  /** Where the finding is about one rank of the role. */
  readonly rank?: number
}

/**
 * One edge of a cycle: `from` must come before `to`, because of `why`. Where the next edge begins elsewhere than this
 * one ends, the two places are ends of one transfer, or members of one collective, which happen together.
 */
export interface CycleEdge {
  readonly from: InstructionPlace
  readonly to: InstructionPlace
  /**
   * - `order`: in one stream, or in the order of issue
   * - `data`: both touch the same memory
   * - `meets`: a message is sent before it is received
   * - `slot`: a message is received before its place in the channel is used again
   */
  readonly why: 'order' | 'data' | 'meets' | 'slot'
}

/** What the verifier has against a Program. */
export interface Finding {
  /** Stable: what is wrong, in capitals. */
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

export interface VerifyContext {
  readonly program: Program
  readonly roles: readonly RoleView[]
  /** Ranks whose communication is looked at: all, or enough of them to speak for all. */
  readonly ranks: readonly RankView[]
  readonly budgetBytes: number | undefined
  /** Largest workspace of each task, where the caller knows it. */
  readonly workspaceBytes: number
}

/** Which action an instruction is for, to be spread into a finding. */
export function actionOf(view: RoleView, instruction: number): { stage?: number; microbatch?: number } {
  const item = view.instruction(instruction)
  if (item?.kind !== 'run' || item.action === undefined) return {}
  const action = view.role.actions[item.action]
  return action === undefined ? {} : { stage: action.stage, microbatch: action.microbatch }
}

/** Whether it is done once a step, in however many parts, rather than for each micro-batch: an update. */
export function isOncePerStep({ phase }: Pick<Action, 'phase'>): boolean {
  return phases.get(phase)?.per === 'step'
}

/** The kernel that a norm is made of. */
export function isSumOfSquares(task: Task | undefined): boolean {
  return task?.kind === 'kernel' && task.kernel === 'sumSquares'
}

/** `rank 3`, `ranks 0 to 2047`, or `ranks 0, 2, 4`. */
export function rankList(ranks: readonly number[]): string {
  const sorted = [...ranks].sort((a, b) => a - b)
  const [first, last] = [sorted[0], sorted.at(-1)]
  if (first === undefined || last === undefined) return 'no rank'
  if (sorted.length === 1) return `rank ${first}`
  if (sorted.length > 2 && last - first === sorted.length - 1) return `ranks ${first} to ${last}`
  const shown = sorted.slice(0, 8).join(', ')
  return sorted.length > 8 ? `ranks ${shown}, … (${sorted.length})` : `ranks ${shown}`
}

/** Findings about the same instructions of the same roles as one, for all the ranks that they were found on. */
export function mergeAlike(findings: readonly Finding[]): Finding[] {
  const merged = new Map<string, { finding: Finding; ranks: Set<number> }>()
  for (const finding of findings) {
    const places = finding.places.map(({ role, instruction }) => `${role}:${instruction}`)
    const key = `${finding.code} ${[...new Set(places)].join(' ')}`
    const known = merged.get(key)
    if (known === undefined) merged.set(key, { finding, ranks: new Set(finding.ranks) })
    else for (const rank of finding.ranks) known.ranks.add(rank)
  }
  return [...merged.values()].map(({ finding, ranks }) => ({
    ...finding,
    ranks: [...ranks].sort((a, b) => a - b),
  }))
}
