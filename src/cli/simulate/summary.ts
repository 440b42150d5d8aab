import { internalError } from '../../base/index.ts'
import { type Role, readInstruction } from '../../program/index.ts'
import {
  type CriticalStep,
  type IdleSeconds,
  type SimulationResult,
  type TransferSlack,
  transferSlack,
} from '../../simulate/index.ts'
import { describeInstruction } from '../../trace/index.ts'
import { formatShare } from '../schedule/measures.ts'
import type { Row } from './rows.ts'

/** Idle time of all ranks by its reason, as shares of ranks x step; they add up to `idleFraction`. */
export function idleShares({ ranks, stepSeconds }: SimulationResult): Omit<IdleSeconds, 'total'> {
  const count = ranks.reduce((sum, { copies }) => sum + copies, 0)
  const shareOf = (key: keyof IdleSeconds): number =>
    stepSeconds > 0
      ? ranks.reduce((sum, { copies, idle }) => sum + copies * idle[key], 0) / (count * stepSeconds)
      : 0
  return {
    warmup: shareOf('warmup'),
    drain: shareOf('drain'),
    transfer: shareOf('transfer'),
    collective: shareOf('collective'),
    other: shareOf('other'),
  }
}

export function idleText(result: SimulationResult): string {
  const { warmup, drain, transfer, collective, other } = idleShares(result)
  return `${formatShare(result.idleFraction)} of all ranks' time: warm-up ${formatShare(warmup)}, drain ${formatShare(drain)}, for transfers ${formatShare(transfer)}, for collectives ${formatShare(collective)}, other ${formatShare(other)}`
}

/** What the critical path is made of: runs by phase, those without one by `run`, all else by its kind. */
export interface CriticalPart {
  readonly kind: CriticalStep['kind']
  readonly phase: string | null
  readonly steps: number
  readonly seconds: number
}

/** The longest first. */
export function criticalParts(result: SimulationResult): CriticalPart[] {
  const parts = new Map<string, { -readonly [K in keyof CriticalPart]: CriticalPart[K] }>()
  for (const step of result.criticalPath) {
    const phase = phaseOf(result, step)
    const key = `${step.kind} ${phase}`
    const part = parts.get(key) ?? { kind: step.kind, phase, steps: 0, seconds: 0 }
    parts.set(key, part)
    part.steps++
    part.seconds += step.seconds
  }
  return [...parts.values()].sort((a, b) => b.seconds - a.seconds)
}

/** Time of the steps of the critical path by why each began no earlier. */
export function criticalReasons({ criticalPath }: SimulationResult): Record<CriticalStep['reason'], number> {
  const seconds = { start: 0, data: 0, order: 0, resource: 0, slot: 0, collective: 0 }
  for (const step of criticalPath) seconds[step.reason] += step.seconds
  return seconds
}

function phaseOf(result: SimulationResult, { kind, rank, instruction }: CriticalStep): string | null {
  if (kind !== 'compute') return null
  const { code, actions } = roleOf(result, rank)
  const run = readInstruction(code, instruction)
  if (run.kind !== 'run' || run.action === undefined) return null
  return actions[run.action]?.phase ?? null
}

/** An instruction of a rank that was simulated, in a few words. */
export function instructionText(result: SimulationResult, rank: number, index: number): string {
  const role = roleOf(result, rank)
  const instruction = readInstruction(role.code, index)
  if (instruction.kind === 'free') throw internalError('a free takes no time')
  const { name, phase, stage, microbatch } = describeInstruction(result.program, role, instruction)
  return phase === undefined ? name : `${phase}${microbatch} of stage ${stage}`
}

function roleOf({ program, ranks }: SimulationResult, rank: number): Role {
  const role = program.roles[ranks.find((one) => one.rank === rank)?.role ?? -1]
  if (role === undefined) throw internalError(`rank ${rank} was not simulated`)
  return role
}

export interface Transfers {
  /** Of the ranks that were simulated. */
  readonly count: number
  /** That make the step longer if they come later. */
  readonly withoutSlack: number
  /** By `total`, then `local`, the least first. */
  readonly least: readonly NamedSlack[]
}

export interface NamedSlack extends TransferSlack {
  /** What sends it. */
  readonly send: string
}

/**
 * Transfers by their slack. Of ranks that do the same only those of the first are named.
 *
 * @param most how many are named
 */
export function transfersOf(result: SimulationResult, rows: readonly Row[], most: number): Transfers {
  const { network } = result.times
  const first = new Set(rows.map((row) => row.result.rank))
  const all = transferSlack(result).map((slack, message) => ({ slack, message }))
  // What rounding leaves of nothing.
  const nothing = 1e-9 * result.stepSeconds
  const named = all.filter(({ slack }) => first.has(slack.from))
  named.sort((a, b) => a.slack.total - b.slack.total || a.slack.local - b.slack.local)
  return {
    count: all.length,
    withoutSlack: all.filter(({ slack }) => slack.total <= nothing).length,
    least: named.slice(0, most).map(({ slack, message }) => {
      const node = network.sender[message]!
      const rank = network.ranks.findLast(({ base }) => base <= node)
      if (rank === undefined) throw internalError(`message ${message} has no sender`)
      return { ...slack, send: instructionText(result, rank.rank, node - rank.base) }
    }),
  }
}
