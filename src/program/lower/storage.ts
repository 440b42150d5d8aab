import { internalError } from '../../base/index.ts'
import type { FloatDType } from '../../graph/index.ts'
import type { ResolvedZero } from '../../plan/index.ts'
import { gatherWindows, gradientWindows, type Schedule, type WindowMode } from '../../schedule/index.ts'
import type { Group, PackEntry, Shard } from '../types.ts'
import type { Dag, DagValue } from './dag.ts'
import { dealtAxes, sumGroup, undealtAxes } from './groups.ts'
import { names } from './names.ts'
import type { StageInfo } from './stages.ts'

/** Where an action stands: entry of its actor's list, and the stage whose action it is. */
export interface ActionPlace {
  readonly stage: number
  readonly entry: number
}

/** Where the actions of a step find the parameters that stage `home` keeps, and put their gradients. */
export interface Storage {
  readonly parameters: (home: number, place: ActionPlace) => DagValue
  readonly gradients: (home: number, place: ActionPlace) => DagValue
}

/** Every replica has all of its stages' parameters and gradients all the time. */
export const wholeStorage: Storage = {
  parameters: once((home) => ({ buffer: names.parameters(home), step: 0 })),
  gradients: once((home) => ({ buffer: names.gradients(home) })),
}

/** Every run of a stage names the same values: each is made once. */
function once(make: (home: number) => DagValue): (home: number) => DagValue {
  const made = new Map<number, DagValue>()
  return (home) => {
    const value = made.get(home) ?? make(home)
    made.set(home, value)
    return value
  }
}

/** Parameters are gathered, and gradients add up, for the window that an action stands in (see windows.ts of schedules). */
export function windowStorage(schedule: Schedule, { gather, reduce, keepLast }: ResolvedZero): Storage {
  const gathers = windowIndex(schedule, gather, gatherWindows(schedule, { mode: gather, keepLast }))
  const gradients = windowIndex(schedule, reduce, gradientWindows(schedule, { mode: reduce }))
  return {
    parameters: (home, place) => ({ buffer: names.gathered(home), window: gathers(place) }),
    gradients: (home, place) => ({ buffer: names.windowGradients(home), window: gradients(place) }),
  }
}

/** Number of the window of its actor that an action stands in: one of the whole step goes on to its end. */
function windowIndex(
  schedule: Schedule,
  mode: WindowMode,
  windows: readonly (readonly { readonly stage: number; readonly first: number; readonly last: number }[])[],
): (place: ActionPlace) => number {
  const numbers = windows.map((own, actor) => {
    const entries = schedule.actors[actor]!.length
    const byPlace = new Map<number, number>()
    own.forEach(({ stage, first, last }, number) => {
      const end = mode === 'step' ? entries - 1 : last
      for (let entry = first; entry <= end; entry++) byPlace.set(stage * entries + entry, number)
    })
    return { entries, byPlace }
  })
  return ({ stage, entry }) => {
    const { entries, byPlace } = numbers[schedule.placement[stage]!]!
    const number = byPlace.get(stage * entries + entry)
    if (number === undefined) throw internalError(`entry ${entry} of stage ${stage} stands in no window`)
    return number
  }
}

/** How the state of a stage is dealt out to its replicas; undefined where each has all of it. */
export function stateShard({ pack, axes }: StageInfo, zero: ResolvedZero | null): Shard | undefined {
  if (zero === null) return undefined
  return {
    axes: dealtAxes(axes, zero),
    segments: pack.segments.map(({ start, end }) => ({ start, end })),
  }
}

/**
 * Declares what a stage keeps of parameters and gradients, and what is made of them for windows. Returns the groups over
 * which gradients are terms of a sum.
 */
export function declareStorage(
  dag: Dag,
  stages: readonly StageInfo[],
  info: StageInfo,
  options: { readonly dtype: FloatDType; readonly gradients: boolean; readonly zero: ResolvedZero | null },
): Group[] {
  const { stage, actor, pack, axes } = info
  const { dtype, gradients, zero } = options
  const groups: Group[] = []
  /** Entries as terms of the sum that is left once they are added over all data axes but `over`. */
  const terms = (over?: readonly string[]): PackEntry[] =>
    pack.entries.map((entry) => {
      const group = sumGroup(stages, info, entry.name, over)
      if (group === undefined) return entry
      groups.push(group)
      return { ...entry, sumOver: group.name }
    })
  const whole = { dtype, shape: [pack.elements] }
  if (zero === null) {
    dag.buffer(actor, names.parameters(stage), whole, { state: true, pack: pack.entries })
    if (gradients) dag.buffer(actor, names.gradients(stage), whole, { pack: terms() })
    return groups
  }
  const shard = stateShard(info, zero)!
  const part = { dtype, shape: [pack.elements / pack.shards] }
  dag.buffer(actor, names.parameters(stage), part, { state: true, pack: pack.entries, shard })
  dag.buffer(actor, names.gathered(stage), whole, { pack: pack.entries, windowed: true })
  const ofCopy = { dtype, shape: [pack.elements / zero.shards] }
  const copyShard: Shard = { axes: [axes.at(-1)!.name], segments: shard.segments }
  if (zero.shardsCopies)
    dag.buffer(actor, names.copyShard(stage), ofCopy, { pack: pack.entries, shard: copyShard })
  if (!gradients) return groups
  dag.buffer(actor, names.windowGradients(stage), whole, { pack: terms(), windowed: true })
  if (zero.shardsCopies)
    dag.buffer(actor, names.copyGradients(stage), ofCopy, { pack: terms([axes[0]!.name]), shard: copyShard })
  dag.buffer(actor, names.gradients(stage), part, { pack: terms(undealtAxes(axes, zero)), shard })
  return groups
}
