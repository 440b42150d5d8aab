import { internalError } from '../base/index.ts'
import { formatEntry } from './actions.ts'
import type { BlockedActor } from './progress.ts'
import type { Schedule, ScheduleEntry } from './types.ts'

/** Blocked actors that wait for each other in a circle; each blocked actor must wait for another blocked one. */
export function findCycle(blocked: readonly BlockedActor[]): BlockedActor[] {
  const byActor = new Map(blocked.map((stuck) => [stuck.actor, stuck]))
  const path: BlockedActor[] = []
  const seen = new Set<number>()
  let at = blocked[0]
  while (at !== undefined && !seen.has(at.actor)) {
    path.push(at)
    seen.add(at.actor)
    const next = at.place === undefined ? undefined : byActor.get(at.place.actor)
    if (next === undefined) throw internalError('an actor waits for one that is done')
    at = next
  }
  return at === undefined ? [] : path.slice(path.indexOf(at))
}

/** `2 actors wait for each other: actor 0 stands at 0B0, which waits for 1B0 on actor 1 (place 2); …`. */
export function describeCycle(
  schedule: Schedule,
  circle: readonly BlockedActor[],
  format: (entry: ScheduleEntry) => string = formatEntry,
): string {
  const waits = circle.map(
    ({ actor, index, waitsFor, place }) =>
      `actor ${actor} stands at ${format(schedule.actors[actor]![index]!)}, which waits for ${format(waitsFor)} on actor ${place!.actor} (place ${place!.index})`,
  )
  return `${circle.length} actors wait for each other: ${waits.join('; ')}`
}
