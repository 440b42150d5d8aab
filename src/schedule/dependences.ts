import { internalError } from '../base/index.ts'
import { chainEdges, entryActions } from './actions.ts'
import { type PhaseRule, phases } from './phases.ts'
import type { Action, Phase, Schedule, StageGraph } from './types.ts'

/** Neighbours of every stage in the data flow. */
export interface StageFlow {
  readonly upstream: readonly (readonly number[])[]
  readonly downstream: readonly (readonly number[])[]
}

export function stageFlow(stages: number, edges: StageGraph['edges'] = chainEdges(stages)): StageFlow {
  const upstream: number[][] = Array.from({ length: stages }, () => [])
  const downstream: number[][] = Array.from({ length: stages }, () => [])
  for (const [from, to] of edges) {
    downstream[from]?.push(to)
    upstream[to]?.push(from)
  }
  return { upstream, downstream }
}

/** Where an action stands: entry `index` in the list of `actor`. */
export interface ActionPlace {
  readonly actor: number
  readonly index: number
}

/** Something an action waits for: what provides it, and its number if the schedule has it. */
export interface Need extends Action {
  readonly key: number | undefined
}

/**
 * Finds the actions of a schedule by what they are. Actions are numbered densely enough for a map of plain numbers;
 * `unit` only groups actions, so it is no part of what they are.
 */
export class ScheduleIndex {
  readonly places: Map<number, ActionPlace>
  private readonly schedule: Schedule
  private readonly flow: StageFlow
  private readonly slices: number
  private readonly phaseNumbers: Map<Phase, number>

  /** `schedule` must be in range (see `validateSchedule`); of repeated actions the last is found. */
  constructor(schedule: Schedule, edges?: StageGraph['edges']) {
    this.schedule = schedule
    this.flow = stageFlow(schedule.stages, edges)
    this.phaseNumbers = new Map([...phases.keys()].map((letter, number) => [letter, number]))
    let slices = 1
    for (const entries of schedule.actors)
      for (const entry of entries)
        for (const action of entryActions(entry)) slices = Math.max(slices, (action.slice ?? -1) + 2)
    this.slices = slices
    this.places = new Map()
    for (const [actor, entries] of schedule.actors.entries())
      for (const [index, entry] of entries.entries())
        for (const action of entryActions(entry)) this.places.set(this.key(action), { actor, index })
  }

  key({ phase, stage, microbatch, slice }: Action): number {
    return this.number(phase, stage, microbatch, slice)
  }

  /** All that `action` waits for, in the order of its phase's rules. */
  needs(action: Action): readonly Need[] {
    const rule = ruleOf(action.phase)
    const found: Need[] = []
    const last = action.microbatch + (rule.per === 'step' ? this.schedule.microbatches : 1)
    for (const { phases: candidates, stages } of rule.after)
      for (const stage of stages === 'same' ? [action.stage] : this.flow[stages][action.stage]!)
        for (let microbatch = action.microbatch; microbatch < last; microbatch++)
          found.push(this.provider(candidates, stage, microbatch, action.slice))
    return found
  }

  private number(phase: Phase, stage: number, microbatch: number, slice: number | undefined): number {
    const phaseNumber = this.phaseNumbers.get(phase)
    if (phaseNumber === undefined) throw internalError(`no phase ${phase}`)
    const { stages, microbatches } = this.schedule
    return ((phaseNumber * stages + stage) * microbatches + microbatch) * this.slices + (slice ?? -1) + 1
  }

  private provider(
    candidates: readonly Phase[],
    stage: number,
    microbatch: number,
    slice: number | undefined,
  ): Need {
    for (const phase of candidates) {
      const key = this.number(phase, stage, microbatch, slice)
      if (this.places.has(key)) return need(phase, stage, microbatch, slice, key)
    }
    return need(candidates[0]!, stage, microbatch, slice, undefined)
  }
}

function need(
  phase: Phase,
  stage: number,
  microbatch: number,
  slice: number | undefined,
  key: number | undefined,
): Need {
  return slice === undefined ? { phase, stage, microbatch, key } : { phase, stage, microbatch, slice, key }
}

export function ruleOf(phase: Phase): PhaseRule {
  const rule = phases.get(phase)
  if (rule === undefined) throw internalError(`no phase ${phase}`)
  return rule
}
