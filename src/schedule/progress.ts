import { internalError } from '../base/index.ts'
import { entryActions } from './actions.ts'
import { type ActionPlace, ScheduleIndex } from './dependences.ts'
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

interface PlayOptions {
  readonly edges?: StageGraph['edges']
  readonly latencies?: Latencies
}

/** Start and end of every entry that an actor comes to; actors that cannot go on. Actions must be in range. */
export function playSchedule(schedule: Schedule, options: PlayOptions = {}): Progress {
  const index = new ScheduleIndex(schedule, options.edges)
  const { order, start, end, position, done } = play(index, schedule, options.latencies)
  const actorOfEntry = (entry: number): number => index.actors[index.actionStart[entry]!]!
  const entries: TimedEntry[] = []
  // The order of playing is topological and the sort is stable, so entries of no length stay in a legal order.
  for (const entry of sortedByTime(order, start)) {
    const actor = actorOfEntry(entry)
    const place = entry - index.entryStart[actor]!
    entries.push({
      actor,
      index: place,
      actions: entryActions(schedule.actors[actor]![place]!),
      start: start[entry]!,
      end: end[entry]!,
    })
  }
  return { entries, blocked: findBlocked(index, position, done) }
}

/** Actors that cannot go on, whatever the latencies. Actions must be in range. */
export function blockedActors(schedule: Schedule, edges?: StageGraph['edges']): readonly BlockedActor[] {
  const index = new ScheduleIndex(schedule, edges)
  const { position, done } = play(index, schedule, undefined)
  return findBlocked(index, position, done)
}

interface Played {
  /** Numbers of entries, in the order in which they were played. */
  readonly order: Int32Array
  /** By number of an entry. */
  readonly start: Float64Array
  readonly end: Float64Array
  /** Number of the entry that each actor has come to. */
  readonly position: Int32Array
  /** Actions that are done, by the number by which they are found. */
  readonly done: Uint8Array
}

/**
 * Greedy list scheduling (JaxPP, step 6): each actor does its entries in order, each as soon as the actor is free and
 * what the entry waits for is there. Linear in the number of actions.
 */
function play(index: ScheduleIndex, schedule: Schedule, latencies: Latencies | undefined): Played {
  const { actions, actors, entryStart, actionStart, same, needStart, needs } = index
  const hop = latencies?.hop ?? 0
  const entries = actionStart.length - 1
  const start = new Float64Array(entries)
  const end = new Float64Array(entries)
  const order = new Int32Array(entries)
  let played = 0
  const ends = new Float64Array(actions.length)
  const done = new Uint8Array(actions.length)
  // Actors that wait for an action, the first of them and by actor the next. An actor waits for one action.
  const firstWaiting = new Int32Array(actions.length).fill(-1)
  const nextWaiting = new Int32Array(schedule.actors.length).fill(-1)
  const position = entryStart.slice(0, schedule.actors.length)
  const clock = new Float64Array(schedule.actors.length)
  const runnable = schedule.actors.map((_, actor) => actor)
  const wait = (actor: number, provider: number): void => {
    nextWaiting[actor] = -1
    let last = firstWaiting[provider]!
    if (last < 0) firstWaiting[provider] = actor
    else {
      while (nextWaiting[last]! >= 0) last = nextWaiting[last]!
      nextWaiting[last] = actor
    }
  }
  for (let actor = runnable.pop(); actor !== undefined; actor = runnable.pop())
    for (let entry = position[actor]!; entry < entryStart[actor + 1]!; entry++) {
      const [first, last] = [actionStart[entry]!, actionStart[entry + 1]!]
      let begin = clock[actor]!
      let missing: number | undefined
      for (let need = needStart[first]!; need < needStart[last]!; need++) {
        const provider = needs[need]!
        if (provider < 0 || done[provider] === 0) {
          missing = provider
          break
        }
        begin = Math.max(begin, ends[provider]! + (actors[provider] === actor ? 0 : hop))
      }
      if (missing !== undefined) {
        if (missing >= 0) wait(actor, missing)
        break
      }
      let length = 0
      for (let action = first; action < last; action++) length += latencyOf(actions[action]!, latencies)
      start[entry] = begin
      clock[actor] = end[entry] = begin + length
      order[played++] = entry
      position[actor] = entry + 1
      for (let action = first; action < last; action++) {
        const number = same[action]!
        ends[number] = end[entry]!
        done[number] = 1
        for (let other = firstWaiting[number]!; other >= 0; other = nextWaiting[other]!) runnable.push(other)
        firstWaiting[number] = -1
      }
    }
  return { order: order.subarray(0, played), start, end, position, done }
}

/** Numbers of entries by their start, those that start together in the order given. */
function sortedByTime(order: Int32Array, start: Float64Array): Int32Array {
  const times = Float64Array.from(order, (entry) => start[entry]!).sort()
  let distinct = 0
  for (let at = 0; at < times.length; at++)
    if (at === 0 || times[at] !== times[distinct - 1]) times[distinct++] = times[at]!
  const rank = (time: number): number => {
    let low = 0
    let high = distinct - 1
    while (low < high) {
      const middle = (low + high) >> 1
      if (times[middle]! < time) low = middle + 1
      else high = middle
    }
    return low
  }
  const ranks = Int32Array.from(order, (entry) => rank(start[entry]!))
  const next = new Int32Array(distinct + 1)
  for (const one of ranks) next[one + 1]!++
  for (let one = 0; one < distinct; one++) next[one + 1]! += next[one]!
  const sorted = new Int32Array(order.length)
  for (let at = 0; at < order.length; at++) sorted[next[ranks[at]!]!++] = order[at]!
  return sorted
}

function findBlocked(index: ScheduleIndex, position: Int32Array, done: Uint8Array): BlockedActor[] {
  const { actions, entryStart, actionStart } = index
  const blocked: BlockedActor[] = []
  for (let actor = 0; actor < position.length; actor++) {
    const entry = position[actor]!
    if (entry === entryStart[actor + 1]) continue
    const [first, last] = [actionStart[entry]!, actionStart[entry + 1]!]
    for (let number = first; number < last; number++) {
      const need = index.needsOf(number).find(({ key }) => key === undefined || done[key] === 0)
      if (need === undefined) continue
      const { key, ...waitsFor } = need
      const place = key === undefined ? undefined : index.place(key)
      blocked.push({ actor, index: entry - entryStart[actor]!, action: actions[number]!, waitsFor, place })
      break
    }
  }
  return blocked
}

export function latencyOf(action: Action, latencies: Latencies = {}): number {
  const given = latencies.phases?.[action.phase]
  if (given === undefined) return phaseLatency(action.phase)
  if (typeof given === 'number') return given
  const latency = given[action.stage]
  if (latency === undefined) throw internalError(`no latency of ${action.phase} for stage ${action.stage}`)
  return latency
}
