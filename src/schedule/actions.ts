import type { Action, Schedule, ScheduleEntry, StageGraph } from './types.ts'

/** Sizes past which a schedule is refused before anything is built from it. */
export const scheduleLimits = {
  stages: 4096,
  actors: 4096,
  microbatches: 65_536,
  slices: 4096,
  /** All actors together. */
  actions: 4_000_000,
  /** Of a schedule written out. */
  characters: 67_108_864,
} as const

/** The actions of one entry: one, or the two of a pair. */
export function entryActions(entry: ScheduleEntry): readonly Action[] {
  return 'pair' in entry ? entry.pair : [entry]
}

/** Whether two actions do the same thing: `unit` only groups actions. */
export function sameAction(a: Action, b: Action): boolean {
  return a.phase === b.phase && a.stage === b.stage && a.microbatch === b.microbatch && a.slice === b.slice
}

/** `2F0`: stage, phase, micro-batch; then `.3` for a slice and `/1` for a unit. */
export function formatAction(action: Action): string {
  const slice = action.slice === undefined ? '' : `.${action.slice}`
  const unit = action.unit === undefined ? '' : `/${action.unit}`
  return `${action.stage}${action.phase}${action.microbatch}${slice}${unit}`
}

/** `2F0`, or `(0F7;3B3)` for two that may interleave. */
export function formatEntry(entry: ScheduleEntry): string {
  return 'pair' in entry ? `(${entry.pair.map(formatAction).join(';')})` : formatAction(entry)
}

/** A chain of stages, each feeding the next. Without `placement` every stage has an actor of its own. */
export function chainStages(stages: number, microbatches: number, placement?: readonly number[]): StageGraph {
  const all = Array.from({ length: stages }, (_, stage) => stage)
  return { stages, edges: chainEdges(stages), placement: placement ?? all, microbatches }
}

export function chainEdges(stages: number): (readonly [number, number])[] {
  return Array.from({ length: Math.max(0, stages - 1) }, (_, stage) => [stage, stage + 1] as const)
}

/** Number of entries of all actors. */
export function entryCount(schedule: Pick<Schedule, 'actors'>): number {
  return schedule.actors.reduce((sum, entries) => sum + entries.length, 0)
}
