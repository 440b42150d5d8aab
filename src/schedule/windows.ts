import { entryActions } from './actions.ts'
import { ruleOf } from './dependences.ts'
import type { Action, Schedule } from './types.ts'

/**
 * How long parameters stay gathered, and gradients whole, where a data axis shards them:
 *
 * - `action`: for every action (as FSDP does)
 * - `unit`: for a unit of micro-batches (ZeroPP). Where a schedule has no units, for as long as the actor stays with one
 *   stage and goes one way
 * - `step`: for the whole step
 */
export type WindowMode = 'action' | 'unit' | 'step'

export interface WindowOptions {
  readonly mode: WindowMode
  /**
   * Makes one gather window of a forward window and the backward window that comes next, where both are of the same
   * stage and unit: in each unit of ZeroPP the last chunk is then gathered once. Default false.
   */
  readonly keepLast?: boolean
}

/** Entries `first` to `last` of an actor's list, both included, with something of a stage held between them. */
interface Window {
  readonly stage: number
  /** Left out where the actions have none, and in mode `step`. */
  readonly unit?: number
  readonly first: number
  readonly last: number
}

/** A stage's parameters are gathered for the forwards in it (`F`), for the backwards (`B`, `I`), or for both. */
export interface GatherWindow extends Window {
  readonly phase: 'F' | 'B' | 'FB'
}

/** A stage's gradients add up in it and are reduced once, at its end. */
export type GradientWindow = Window

/**
 * Gather windows of each actor, in the order in which they open. Which actions read parameters is a property of their
 * phase. `W` does not: gradients of weights follow from what `F` and `I` leave behind, so a `W` opens no window, ends
 * none, and may stand inside one of another stage.
 */
export function gatherWindows(
  schedule: Schedule,
  { mode, keepLast = false }: WindowOptions,
): readonly (readonly GatherWindow[])[] {
  return schedule.actors.map((_, actor) => {
    const reads = placedActions(schedule, actor).flatMap(({ action, at }): GatherWindow[] => {
      const phase = ruleOf(action.phase).parameters
      return phase === undefined ? [] : [{ ...groupOf(action), phase, first: at, last: at }]
    })
    if (mode === 'step') return joinByKey(reads.map(withoutUnit), ({ stage }) => stage)
    const windows =
      mode === 'action' ? reads : joinNeighbours(reads, (a, b) => sameGroup(a, b) && a.phase === b.phase)
    if (!keepLast) return windows
    return joinNeighbours(windows, (a, b) => sameGroup(a, b) && a.phase === 'F' && b.phase === 'B')
  })
}

/**
 * Gradient windows of each actor, in the order in which they open. Those of several stages may overlap where a schedule
 * puts off `W`; in mode `unit` each unit of a stage has exactly one.
 */
export function gradientWindows(
  schedule: Schedule,
  { mode }: Pick<WindowOptions, 'mode'>,
): readonly (readonly GradientWindow[])[] {
  return schedule.actors.map((_, actor) => {
    const adds = placedActions(schedule, actor).flatMap(({ action, at }): GradientWindow[] =>
      ruleOf(action.phase).gradients === true ? [{ ...groupOf(action), first: at, last: at }] : [],
    )
    if (mode === 'action') return adds
    if (mode === 'step') return joinByKey(adds.map(withoutUnit), ({ stage }) => stage)
    return joinByKey(joinNeighbours(adds, sameGroup), ({ stage, unit, first }) =>
      unit === undefined ? `run ${first} of ${stage}` : `unit ${unit} of ${stage}`,
    )
  })
}

/** All-gathers of parameters and reduce-scatters of gradients that each actor takes part in, one for each window. */
export function windowCounts(
  schedule: Schedule,
  options: WindowOptions,
): { readonly gathers: readonly number[]; readonly reductions: readonly number[] } {
  return {
    gathers: gatherWindows(schedule, options).map((windows) => windows.length),
    reductions: gradientWindows(schedule, options).map((windows) => windows.length),
  }
}

function placedActions(schedule: Schedule, actor: number): { action: Action; at: number }[] {
  return schedule.actors[actor]!.flatMap((entry, at) => entryActions(entry).map((action) => ({ action, at })))
}

function groupOf({ stage, unit }: Action): { stage: number; unit?: number } {
  return unit === undefined ? { stage } : { stage, unit }
}

function sameGroup(a: Window, b: Window): boolean {
  return a.stage === b.stage && a.unit === b.unit
}

function withoutUnit<Kind extends Window>({ unit: _, ...window }: Kind): Omit<Kind, 'unit'> {
  return window
}

/** Joins each window to the one before it where `belongs` says so. */
function joinNeighbours<Kind extends Window>(
  windows: readonly Kind[],
  belongs: (before: Kind, window: Kind) => boolean,
): Kind[] {
  const joined: Kind[] = []
  for (const window of windows) {
    const before = joined.at(-1)
    if (before !== undefined && belongs(before, window)) joined[joined.length - 1] = join(before, window)
    else joined.push(window)
  }
  return joined
}

/** Joins all windows of the same key, wherever they stand. */
function joinByKey<Kind extends Window>(
  windows: readonly Kind[],
  key: (window: Kind) => number | string,
): Kind[] {
  const joined = new Map<number | string, Kind>()
  for (const window of windows) {
    const before = joined.get(key(window))
    joined.set(key(window), before === undefined ? window : join(before, window))
  }
  return [...joined.values()]
}

function join<Kind extends Window & { readonly phase?: GatherWindow['phase'] }>(a: Kind, b: Kind): Kind {
  return a.phase === b.phase ? { ...a, last: b.last } : { ...a, last: b.last, phase: 'FB' }
}
