import { internalError } from '../base/index.ts'
import { entryActions, entryCount, formatAction, formatEntry, sameAction, scheduleLimits } from './actions.ts'
import { describeCycle, findCycle } from './cycle.ts'
import { drawGrid } from './grid.ts'
import { methods, phases, type ScheduleMethod } from './phases.ts'
import { type BlockedActor, blockedActors } from './progress.ts'
import type { Action, Phase, Schedule, StageGraph } from './types.ts'

/**
 * - `SCHEDULE_RANGE`: a number or phase that cannot be: nothing else is looked at
 * - `SCHEDULE_ACTOR`: an action on an actor that does not own its stage
 * - `SCHEDULE_MISSING`, `SCHEDULE_DUPLICATE`, `SCHEDULE_EXTRA`: not every action of the method's set exactly once
 * - `SCHEDULE_ORDER`: an actor does an action before what it needs from the same actor
 * - `SCHEDULE_DEADLOCK`: actors wait for each other in a circle
 * - `SCHEDULE_FIFO`: an actor receives from another in another order than that one sends
 */
export type ScheduleFindingCode =
  | 'SCHEDULE_RANGE'
  | 'SCHEDULE_ACTOR'
  | 'SCHEDULE_MISSING'
  | 'SCHEDULE_DUPLICATE'
  | 'SCHEDULE_EXTRA'
  | 'SCHEDULE_ORDER'
  | 'SCHEDULE_DEADLOCK'
  | 'SCHEDULE_FIFO'

export interface ScheduleFinding {
  readonly code: ScheduleFindingCode
  readonly message: string
  readonly action?: Action
  readonly actor?: number
  /** Place in the actor's list, from 0. */
  readonly index?: number
  readonly waitsFor?: Action
  /** For a deadlock: where each actor of the circle stands and what it waits for, each one for the next. */
  readonly cycle?: readonly BlockedActor[]
  /** For a deadlock: under which sends it stands, those that wait for their receiver or those that are buffered. */
  readonly sends?: readonly ('rendezvous' | 'buffered')[]
  readonly hint?: string
  /** For order and deadlock: actors x steps around the place, which is marked `>…<`. Plain text. */
  readonly grid?: readonly string[]
}

export interface ValidateOptions {
  /** Data flow between stages; a chain if not given. */
  readonly edges?: StageGraph['edges']
  /** Name in the table of methods. Default `gradient`. */
  readonly method?: string
  /** Most findings that are made. Default 100. */
  readonly limit?: number
}

/** Everything that is wrong with a schedule; empty when it is complete and runs to its end under any latencies. */
export function validateSchedule(
  schedule: Schedule,
  options: ValidateOptions = {},
): readonly ScheduleFinding[] {
  const method = methods.get(options.method ?? 'gradient')
  if (method === undefined) throw internalError(`no method ${options.method}`)
  const limit = options.limit ?? 100
  const range = findRange(schedule)
  if (range.length > 0) return range.slice(0, limit)
  const complete = isComplete(schedule, method) ? [] : findIncomplete(schedule, method, limit)
  const blocked = blockedActors(schedule, options.edges)
  if (complete.length > 0) return complete.slice(0, limit).map((finding) => withWaiter(finding, blocked))
  return findStuck(schedule, blocked).slice(0, limit)
}

function findRange(schedule: Schedule): ScheduleFinding[] {
  const found: ScheduleFinding[] = []
  const bad = (message: string): void => {
    if (found.length < 100) found.push({ code: 'SCHEDULE_RANGE', message })
  }
  const inRange = (value: number, size: number): boolean =>
    Number.isInteger(value) && value >= 0 && value < size
  const { stages, microbatches, placement, actors } = schedule
  if (!inRange(stages - 1, scheduleLimits.stages)) bad(`${stages} stages`)
  if (!inRange(microbatches - 1, scheduleLimits.microbatches)) bad(`${microbatches} micro-batches`)
  if (placement.length !== stages) bad(`actors are given for ${placement.length} of ${stages} stages`)
  for (const [stage, actor] of placement.entries())
    if (!inRange(actor, actors.length)) bad(`stage ${stage} is placed on actor ${actor} of ${actors.length}`)
  for (const [actor, entries] of actors.entries())
    for (const [index, entry] of entries.entries())
      for (const action of entryActions(entry)) {
        const rule = phases.get(action.phase)
        if (
          rule !== undefined &&
          inRange(action.stage, stages) &&
          inRange(action.microbatch, microbatches) &&
          (rule.per === 'microbatch' || (action.microbatch === 0 && action.slice === undefined)) &&
          (action.slice === undefined || inRange(action.slice, scheduleLimits.slices))
        )
          continue
        const where = `${formatAction(action)} at place ${index} of actor ${actor}`
        if (rule === undefined) bad(`${where}: no phase "${action.phase}"`)
        if (!inRange(action.stage, stages)) bad(`${where}: stage ${action.stage} of ${stages}`)
        if (!inRange(action.microbatch, microbatches))
          bad(`${where}: micro-batch ${action.microbatch} of ${microbatches}`)
        if (rule?.per === 'step' && action.microbatch !== 0)
          bad(`${where}: once a step, so its micro-batch is written 0`)
        if (rule?.per === 'step' && action.slice !== undefined)
          bad(`${where}: once a step, so it has no slice`)
        if (action.slice !== undefined && !inRange(action.slice, scheduleLimits.slices))
          bad(`${where}: slice ${action.slice}`)
      }
  return found
}

/** Whether a schedule without slices has nothing that `findIncomplete` would find: the same, for all that is well, in one pass. */
function isComplete({ stages, microbatches, placement, actors }: Schedule, method: ScheduleMethod): boolean {
  const known = [...new Set([...method.sets.flat(), ...method.optional])]
  const bits = new Map(known.map((phase, index) => [phase, 1 << index]))
  const all = (set: readonly Phase[]): number => set.reduce((mask, phase) => mask | bits.get(phase)!, 0)
  const smallest = Math.min(...method.sets.map((set) => set.length))
  if (entryCount({ actors }) * 2 < stages * microbatches * smallest) return false
  const cells = new Int32Array(stages * microbatches)
  for (const [actor, entries] of actors.entries())
    for (const entry of entries)
      for (const { phase, stage, microbatch, slice } of entryActions(entry)) {
        const bit = bits.get(phase) ?? 0
        const cell = microbatch * stages + stage
        if (bit === 0 || slice !== undefined || placement[stage] !== actor) return false
        if ((cells[cell]! & bit) !== 0) return false
        cells[cell]! |= bit
      }
  const wanted = new Set(method.sets.map(all))
  const optional = all(method.optional)
  return cells.every((mask) => wanted.has(mask & ~optional))
}

interface Placed {
  readonly action: Action
  readonly actor: number
  readonly index: number
}

/** Owner, and each action of the method's set exactly once, for every stage, micro-batch and slice of it. */
function findIncomplete(schedule: Schedule, method: ScheduleMethod, limit: number): ScheduleFinding[] {
  const found: ScheduleFinding[] = []
  const { stages, microbatches, placement, actors } = schedule
  const cells = new Map<number, Placed[]>()
  const cellOf = (microbatch: number, stage: number, slice: number): number =>
    (microbatch * stages + stage) * (scheduleLimits.slices + 1) + slice + 1
  const put = (cell: number, here: Placed): void => {
    const placed = cells.get(cell)
    if (placed === undefined) cells.set(cell, [here])
    else placed.push(here)
  }
  const ofStep: Placed[] = []
  const slices = Array.from({ length: microbatches }, () => new Set<number>())
  for (const [actor, entries] of actors.entries())
    for (const [index, entry] of entries.entries())
      for (const action of entryActions(entry)) {
        const owner = placement[action.stage]!
        if (owner !== actor && found.length < limit)
          found.push({
            code: 'SCHEDULE_ACTOR',
            message: `${formatAction(action)} is on actor ${actor} (place ${index}), but stage ${action.stage} is on actor ${owner}`,
            action,
            actor,
            index,
          })
        if (phases.get(action.phase)!.per === 'step') {
          ofStep.push({ action, actor, index })
          continue
        }
        const slice = action.slice ?? -1
        slices[action.microbatch]!.add(slice)
        put(cellOf(action.microbatch, action.stage, slice), { action, actor, index })
      }
  // What is done once a step is looked at with the first slice of its micro-batch, where that is cut.
  for (const here of ofStep) {
    const { microbatch, stage } = here.action
    put(
      cellOf(microbatch, stage, slices[microbatch]!.size === 0 ? -1 : Math.min(...slices[microbatch]!)),
      here,
    )
  }
  for (let microbatch = 0; microbatch < microbatches; microbatch++) {
    const wanted = slices[microbatch]!.size === 0 ? [-1] : [...slices[microbatch]!].sort((a, b) => a - b)
    for (const slice of wanted)
      for (let stage = 0; stage < stages; stage++) {
        if (found.length >= limit) return found
        const like = { phase: '', stage, microbatch, ...(slice < 0 ? {} : { slice }) }
        const placed = cells.get(cellOf(microbatch, stage, slice)) ?? []
        // One by one: a hostile file repeats an action a million times, too often for the arguments of one call.
        for (const finding of findInCell(placed, like, method, placement[stage]!)) found.push(finding)
      }
  }
  return found
}

function findInCell(
  placed: readonly Placed[],
  like: Action,
  method: ScheduleMethod,
  owner: number,
): ScheduleFinding[] {
  const found: ScheduleFinding[] = []
  const first = new Map<string, Placed>()
  for (const here of placed) {
    const { action, actor, index } = here
    const before = first.get(action.phase)
    if (before === undefined) first.set(action.phase, here)
    else
      found.push({
        code: 'SCHEDULE_DUPLICATE',
        message: `${formatAction(action)} is there twice: at place ${before.index} of actor ${before.actor} and at place ${index} of actor ${actor}`,
        action,
        actor,
        index,
      })
  }
  // The set that is meant is the one that fits best; the first of the table if several do.
  const misfit = (set: readonly string[]): number =>
    set.filter((phase) => !first.has(phase)).length +
    [...first.keys()].filter((phase) => !set.includes(phase) && !method.optional.includes(phase)).length
  const set = method.sets.toSorted((a, b) => misfit(a) - misfit(b))[0]!
  for (const phase of set)
    if (!first.has(phase)) {
      const action = { ...like, phase }
      found.push({
        code: 'SCHEDULE_MISSING',
        message: `${formatAction(action)} is missing from actor ${owner}`,
        action,
        actor: owner,
      })
    }
  for (const [phase, { action, actor, index }] of first)
    if (!set.includes(phase) && !method.optional.includes(phase))
      found.push({
        code: 'SCHEDULE_EXTRA',
        message: `${formatAction(action)} at place ${index} of actor ${actor} does not go with ${set.join(', ')} of the same micro-batch`,
        action,
        actor,
        index,
        hint: `method ${method.name}: ${method.summary}`,
      })
  return found
}

/** Adds to a missing action who stands still for want of it. */
function withWaiter(finding: ScheduleFinding, blocked: readonly BlockedActor[]): ScheduleFinding {
  const { action } = finding
  if (finding.code !== 'SCHEDULE_MISSING' || action === undefined) return finding
  const waiters = blocked
    .filter(({ waitsFor }) => sameAction(waitsFor, action))
    .map((waiter) => `${formatAction(waiter.action)} on actor ${waiter.actor}`)
  if (waiters.length === 0) return finding
  const wait = waiters.length === 1 ? 'waits' : 'wait'
  return { ...finding, message: `${finding.message}; ${waiters.join(' and ')} ${wait} for it` }
}

/** Why a complete schedule does not run to its end: wrong order on an actor, or a circle of actors. */
function findStuck(schedule: Schedule, blocked: readonly BlockedActor[]): ScheduleFinding[] {
  const local = blocked.filter(({ actor, place }) => place?.actor === actor)
  if (local.length > 0)
    return local.map((stuck) => ({
      code: 'SCHEDULE_ORDER' as const,
      message: `${formatAction(stuck.action)} at place ${stuck.index} of actor ${stuck.actor} needs ${formatAction(stuck.waitsFor)}, ${whereOnOwnActor(schedule, stuck)}`,
      action: stuck.action,
      actor: stuck.actor,
      index: stuck.index,
      waitsFor: stuck.waitsFor,
      grid: drawGrid(schedule, [stuck]),
    }))
  if (blocked.length === 0) return []
  // Each blocked actor waits for another blocked one.
  const cycle = findCycle(blocked)
  const at = cycle[0]!
  return [
    {
      code: 'SCHEDULE_DEADLOCK',
      message: describeCycle(schedule, cycle),
      action: at.action,
      actor: at.actor,
      index: at.index,
      waitsFor: at.waitsFor,
      cycle,
      sends: ['rendezvous', 'buffered'],
      grid: drawGrid(schedule, cycle),
    },
  ]
}

function whereOnOwnActor(schedule: Schedule, { actor, index, place }: BlockedActor): string {
  if (place!.index === index) return 'which is in the same pair'
  const entry = schedule.actors[actor]![place!.index]!
  return `which comes later, at place ${place!.index}${'pair' in entry ? ` (${formatEntry(entry)})` : ''}`
}
