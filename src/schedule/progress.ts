import { internalError } from '../base/index.ts'
import { entryActions } from './actions.ts'
import { type ActionPlace, type Need, ScheduleIndex } from './dependences.ts'
import { phaseLatency } from './phases.ts'
import type { Action, Phase, Schedule, StageGraph } from './types.ts'

/** Times of actions and of transfers, in any one unit. */
export interface Latencies {
  /** By phase, one number or one for each stage; a phase left out takes its unit latency. */
  readonly phases?: Readonly<Record<Phase, number | readonly number[]>>
  /** From the end of an action to the start of one on another actor that waits for it. Default 0. */
  readonly hop?: number
}

export interface TimedEntry {
  readonly actor: number
  /** Place in the actor's list. */
  readonly index: number
  /** One action, or the two of a pair, which start and end together. */
  readonly actions: readonly Action[]
  readonly start: number
  readonly end: number
}

/** An actor that cannot go on: the entry it stands at, and the first thing that entry waits for. */
export interface BlockedActor {
  readonly actor: number
  readonly index: number
  readonly action: Action
  readonly waitsFor: Action
  /** Where what it waits for stands, if the schedule has it. */
  readonly place: ActionPlace | undefined
}

export interface Progress {
  /** In an order that respects every dependence, by start time. */
  readonly entries: readonly TimedEntry[]
  readonly blocked: readonly BlockedActor[]
}

/**
 * Greedy list scheduling (JaxPP, step 6): each actor does its entries in order, each as soon as the actor is free and
 * what the entry waits for is there. Linear in the number of actions. Actions must be in range.
 */
export function playSchedule(
  schedule: Schedule,
  options: { readonly edges?: StageGraph['edges']; readonly latencies?: Latencies } = {},
): Progress {
  const index = new ScheduleIndex(schedule, options.edges)
  const hop = options.latencies?.hop ?? 0
  const ends = new Map<number, number>()
  const waiting = new Map<number, number[]>()
  const blocked = new Map<number, BlockedActor>()
  const position = schedule.actors.map(() => 0)
  const clock = schedule.actors.map(() => 0)
  const entries: TimedEntry[] = []
  const runnable = schedule.actors.map((_, actor) => actor)

  while (runnable.length > 0) {
    const actor = runnable.pop()!
    blocked.delete(actor)
    const list = schedule.actors[actor]!
    for (let at = position[actor]!; at < list.length; at = position[actor]!) {
      const actions = entryActions(list[at]!)
      let start = clock[actor]!
      let missing: { action: Action; need: Need } | undefined
      for (const action of actions)
        for (const need of index.needs(action)) {
          const end = need.key === undefined ? undefined : ends.get(need.key)
          if (end === undefined) missing ??= { action, need }
          else start = Math.max(start, end + (index.places.get(need.key!)!.actor === actor ? 0 : hop))
        }
      if (missing !== undefined) {
        const { key, ...waitsFor } = missing.need
        const place = key === undefined ? undefined : index.places.get(key)
        blocked.set(actor, { actor, index: at, action: missing.action, waitsFor, place })
        if (key !== undefined) waiting.set(key, [...(waiting.get(key) ?? []), actor])
        break
      }
      const end = start + actions.reduce((sum, action) => sum + latencyOf(action, options.latencies), 0)
      entries.push({ actor, index: at, actions, start, end })
      clock[actor] = end
      position[actor] = at + 1
      for (const action of actions) {
        const key = index.key(action)
        ends.set(key, end)
        const waiters = waiting.get(key)
        if (waiters !== undefined) runnable.push(...waiters)
        waiting.delete(key)
      }
    }
  }
  // The worklist's order is topological and the sort is stable, so entries of no length stay in a legal order.
  entries.sort((a, b) => a.start - b.start)
  return { entries, blocked: [...blocked.values()].sort((a, b) => a.actor - b.actor) }
}

export function latencyOf(action: Action, latencies: Latencies = {}): number {
  const given = latencies.phases?.[action.phase]
  if (given === undefined) return phaseLatency(action.phase)
  if (typeof given === 'number') return given
  const latency = given[action.stage]
  if (latency === undefined) throw internalError(`no latency of ${action.phase} for stage ${action.stage}`)
  return latency
}
