import { internalError } from '../base/index.ts'
import { chainEdges, entryCount } from './actions.ts'
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
 * All actions of a schedule, numbered through actor by actor, and what each waits for, as columns: schedules have hundreds
 * of thousands of them. `unit` only groups actions, so it is no part of what they are.
 */
export class ScheduleIndex {
  /** By number. */
  readonly actions: readonly Action[]
  /** Entries are numbered through as well: those of an actor from entryStart[actor] up to entryStart[actor + 1]. */
  readonly entryStart: Int32Array
  /** Actions of an entry: from actionStart[entry] up to actionStart[entry + 1]. */
  readonly actionStart: Int32Array
  /** By number of an action. */
  readonly actors: Int32Array
  /** The number by which an action is found: of repeated actions that of the last. */
  readonly same: Int32Array
  /** Numbers of what action n waits for, in the order of its phase's rules: needs[needStart[n]] up to needStart[n + 1]; -1 for what the schedule has not. */
  readonly needStart: Int32Array
  readonly needs: Int32Array
  private readonly schedule: Schedule
  private readonly flow: StageFlow
  private readonly slices: number
  /** By micro-batch, what it is cut into; an action of the whole step waits for all of it. Empty where nothing is cut. */
  private readonly parts: readonly ReadonlySet<number>[]
  private readonly phaseNumbers = new Map<Phase, number>()
  private readonly numbers: NumberTable

  /** `schedule` must be in range (see `validateSchedule`). */
  constructor(schedule: Schedule, edges?: StageGraph['edges']) {
    this.schedule = schedule
    this.flow = stageFlow(schedule.stages, edges)
    const actions: Action[] = []
    this.entryStart = new Int32Array(schedule.actors.length + 1)
    this.actionStart = new Int32Array(entryCount(schedule) + 1)
    const actors: number[] = []
    const parts: Set<number>[] = []
    let entry = 0
    let slices = 1
    for (const [actor, entries] of schedule.actors.entries()) {
      for (const item of entries) {
        const pair = 'pair' in item ? item.pair : undefined
        for (let place = 0; place < (pair === undefined ? 1 : 2); place++) {
          const action = pair === undefined ? (item as Action) : pair[place]!
          if (action.slice !== undefined) {
            slices = Math.max(slices, action.slice + 2)
            const known = parts[action.microbatch]
            if (known === undefined) parts[action.microbatch] = new Set([action.slice])
            else known.add(action.slice)
          }
          if (!this.phaseNumbers.has(action.phase))
            this.phaseNumbers.set(action.phase, this.phaseNumbers.size)
          actions.push(action)
          actors.push(actor)
        }
        this.actionStart[++entry] = actions.length
      }
      this.entryStart[actor + 1] = entry
    }
    this.actions = actions
    this.actors = Int32Array.from(actors)
    this.slices = slices
    this.parts = parts
    const { stages, microbatches } = schedule
    this.numbers = new NumberTable(this.phaseNumbers.size * stages * microbatches * slices, actions.length)
    const keys = new Float64Array(actions.length)
    for (let number = 0; number < actions.length; number++) {
      const { phase, stage, microbatch, slice } = actions[number]!
      keys[number] = this.key(this.phaseNumbers.get(phase)!, stage, microbatch, slice)
      this.numbers.set(keys[number]!, number)
    }
    this.same = Int32Array.from(keys, (key) => this.numbers.get(key))
    this.needStart = new Int32Array(actions.length + 1)
    this.needs = this.findNeeds()
  }

  /** Where the action of a number stands. */
  place(number: number): ActionPlace {
    const actor = this.actors[number]!
    let index = this.entryStart[actor]!
    while (this.actionStart[index + 1]! <= number) index++
    return { actor, index: index - this.entryStart[actor]! }
  }

  /** All that an action waits for, in the order of its phase's rules. */
  needsOf(number: number): readonly Need[] {
    let at = this.needStart[number]!
    const found: Need[] = []
    this.eachNeed(this.actions[number]!, (candidates, stage, microbatch, slice) => {
      const provider = this.needs[at++]!
      const phase = provider < 0 ? candidates[0]! : this.actions[provider]!.phase
      const key = provider < 0 ? undefined : provider
      found.push(
        slice === undefined ? { phase, stage, microbatch, key } : { phase, stage, microbatch, slice, key },
      )
    })
    return found
  }

  private eachNeed(
    { phase, stage, microbatch, slice }: Action,
    visit: (
      candidates: readonly Phase[],
      stage: number,
      microbatch: number,
      slice: number | undefined,
    ) => void,
  ): void {
    const rule = ruleOf(phase)
    const last = rule.per === 'step' ? this.schedule.microbatches : 0
    for (const { phases: candidates, stages } of rule.after) {
      const near = stages === 'same' ? undefined : this.flow[stages][stage]!
      for (let index = 0; index < (near?.length ?? 1); index++) {
        const source = near?.[index] ?? stage
        if (rule.per === 'microbatch') visit(candidates, source, microbatch, slice)
        for (let other = 0; other < last; other++) {
          const parts = this.parts[other]
          if (parts === undefined) visit(candidates, source, other, undefined)
          else for (const part of parts) visit(candidates, source, other, part)
        }
      }
    }
  }

  private findNeeds(): Int32Array {
    const found: number[] = []
    const visit = (
      candidates: readonly Phase[],
      stage: number,
      microbatch: number,
      slice: number | undefined,
    ): void => {
      for (let index = 0; index < candidates.length; index++) {
        const phase = this.phaseNumbers.get(candidates[index]!)
        if (phase === undefined) continue
        const number = this.numbers.get(this.key(phase, stage, microbatch, slice))
        if (number >= 0) {
          found.push(number)
          return
        }
      }
      found.push(-1)
    }
    for (let number = 0; number < this.actions.length; number++) {
      this.eachNeed(this.actions[number]!, visit)
      this.needStart[number + 1] = found.length
    }
    return Int32Array.from(found)
  }

  private key(phase: number, stage: number, microbatch: number, slice: number | undefined): number {
    const { stages, microbatches } = this.schedule
    return ((phase * stages + stage) * microbatches + microbatch) * this.slices + (slice ?? -1) + 1
  }
}

/** Numbers by keys below `size`: an array where keys are dense, as they are in a complete schedule, else a map. */
class NumberTable {
  private readonly dense: Int32Array | undefined
  private readonly sparse = new Map<number, number>()

  constructor(size: number, count: number) {
    this.dense = size <= 8 * count + 1024 ? new Int32Array(size).fill(-1) : undefined
  }

  set(key: number, number: number): void {
    if (this.dense === undefined) this.sparse.set(key, number)
    else this.dense[key] = number
  }

  /** -1 where there is none. */
  get(key: number): number {
    return this.dense === undefined ? (this.sparse.get(key) ?? -1) : this.dense[key]!
  }
}

export function ruleOf(phase: Phase): PhaseRule {
  const rule = phases.get(phase)
  if (rule === undefined) throw internalError(`no phase ${phase}`)
  return rule
}
