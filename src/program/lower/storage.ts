import { internalError } from '../../base/index.ts'
import type { FloatDType } from '../../graph/index.ts'
import type { ResolvedZero } from '../../plan/index.ts'
import { gatherWindows, gradientWindows, type Schedule, type WindowMode } from '../../schedule/index.ts'
import type { Group, PackEntry, Region, Shard } from '../types.ts'
import type { Dag, DagValue } from './dag.ts'
import { sumGroup } from './groups.ts'
import { names } from './names.ts'
import { type ParameterPack, type StageInfo, segmentAt } from './packs.ts'

/** Where an action stands: entry of its actor's list, and the stage whose action it is. */
export interface ActionPlace {
  readonly stage: number
  readonly entry: number
}

/** Where the actions of a step find the parameters of pack `home`, and put their gradients. */
export interface Storage {
  readonly parameters: (home: string, place: ActionPlace) => DagValue
  readonly gradients: (home: string, place: ActionPlace) => DagValue
}

/** Every replica has all of its stages' parameters and gradients all the time. */
export const wholeStorage: Storage = {
  parameters: once((home) => ({ buffer: names.parameters(home), step: 0 })),
  gradients: once((home) => ({ buffer: names.gradients(home) })),
}

/** Every run of a stage names the same values: each is made once. */
function once(make: (home: string) => DagValue): (home: string) => DagValue {
  const made = new Map<string, DagValue>()
  return (home) => {
    const value = made.get(home) ?? make(home)
    made.set(home, value)
    return value
  }
}

/**
 * Parameters that are dealt out are gathered, and their gradients add up, for the window that an action stands in (see
 * windows.ts of schedules).
 */
export function windowStorage(
  schedule: Schedule,
  { gather, reduce, keepLast }: ResolvedZero,
  isDealt: (home: string) => boolean,
): Storage {
  const gathers = windowIndex(schedule, gather, gatherWindows(schedule, { mode: gather, keepLast }))
  const gradients = windowIndex(schedule, reduce, gradientWindows(schedule, { mode: reduce }))
  return {
    parameters: (home, place) =>
      isDealt(home)
        ? { buffer: names.gathered(home), window: gathers(place) }
        : wholeStorage.parameters(home, place),
    gradients: (home, place) =>
      isDealt(home)
        ? { buffer: names.windowGradients(home), window: gradients(place) }
        : wholeStorage.gradients(home, place),
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

/** How the state of a pack is dealt out to replicas; undefined where each has all of it. */
export function stateShard({ dealt, segments }: ParameterPack): Shard | undefined {
  return dealt.length === 0 ? undefined : shardOver(dealt, segments)
}

function shardOver(axes: readonly string[], segments: readonly Region[]): Shard {
  return { axes, segments: segments.map(({ start, end }) => ({ start, end })) }
}

/**
 * Declares what a stage keeps of parameters and gradients, and what is made of them for windows. Returns the groups over
 * which gradients are terms of a sum.
 */
export function declareStorage(
  dag: Dag,
  stages: readonly StageInfo[],
  info: StageInfo,
  options: { readonly dtype: FloatDType; readonly gradients: boolean },
): Group[] {
  const groups: Group[] = []
  for (const pack of info.packs) groups.push(...declarePack(dag, stages, info, pack, options))
  return groups
}

function declarePack(
  dag: Dag,
  stages: readonly StageInfo[],
  info: StageInfo,
  pack: ParameterPack,
  { dtype, gradients }: { readonly dtype: FloatDType; readonly gradients: boolean },
): Group[] {
  const { actor } = info
  const { home, dealt, gathered, segments } = pack
  const groups: Group[] = []
  /** Entries as terms of the sum that is left once they are added over these axes. */
  const terms = (added: readonly string[]): PackEntry[] =>
    pack.entries.map((entry) => {
      const group = sumGroup(stages, info, segmentAt(pack, entry.offset), added)
      if (group === undefined) return entry
      groups.push(group)
      return { ...entry, sumOver: group.name }
    })
  const whole = { dtype, shape: [pack.elements] }
  const shard = stateShard(pack)
  if (shard === undefined) {
    dag.buffer(actor, names.parameters(home), whole, { state: true, pack: pack.entries })
    if (gradients) dag.buffer(actor, names.gradients(home), whole, { pack: terms([]) })
    return groups
  }
  const part = { dtype, shape: [pack.elements / pack.shards] }
  dag.buffer(actor, names.parameters(home), part, { state: true, pack: pack.entries, shard })
  dag.buffer(actor, names.gathered(home), whole, { pack: pack.entries, windowed: true })
  const ofCopy = { dtype, shape: [pack.elements / pack.copyShards] }
  const copyShard = shardOver(gathered, segments)
  const sharesCopies = gathered.length < dealt.length
  if (sharesCopies) dag.buffer(actor, names.copyShard(home), ofCopy, { pack: pack.entries, shard: copyShard })
  if (!gradients) return groups
  dag.buffer(actor, names.windowGradients(home), whole, { pack: terms([]), windowed: true })
  if (sharesCopies)
    dag.buffer(actor, names.copyGradients(home), ofCopy, { pack: terms(gathered), shard: copyShard })
  dag.buffer(actor, names.gradients(home), part, { pack: terms(dealt), shard })
  return groups
}
