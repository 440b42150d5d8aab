import type { Action, Schedule } from '../../src/schedule/index.ts'

/** A number from 0 to below `count`. */
export type Choose = (count: number) => number

/** What must be done before an action of a chain, by the definition of training and nothing else. */
export function needsOf(
  { phase, stage, microbatch }: Action,
  stages: number,
  isDone: (key: string) => boolean,
): boolean {
  const done = (letter: string, at: number): boolean => isDone(`${at}${letter}${microbatch}`)
  const backwardDone = (at: number): boolean => done('B', at) || done('I', at)
  switch (phase) {
    case 'F':
      return stage === 0 || done('F', stage - 1)
    case 'B':
    case 'I':
      return done('F', stage) && (stage === stages - 1 || backwardDone(stage + 1))
    case 'W':
      return done('I', stage)
    default:
      return true
  }
}

export const keyOf = ({ phase, stage, microbatch }: Action): string => `${stage}${phase}${microbatch}`

/** Any schedule of a chain that respects what actions need: at each turn some action that could be next. */
export function randomSchedule(
  shape: { actors: number; stages: number; microbatches: number },
  choose: Choose,
): Schedule {
  const { actors, stages, microbatches } = shape
  // Every actor has a stage.
  const placement = Array.from({ length: stages }, (_, stage) => (stage < actors ? stage : choose(actors)))
  for (let index = stages - 1; index > 0; index--) {
    const other = choose(index + 1)
    ;[placement[index], placement[other]] = [placement[other]!, placement[index]!]
  }
  let open: Action[] = []
  for (let stage = 0; stage < stages; stage++)
    for (let microbatch = 0; microbatch < microbatches; microbatch++)
      for (const phase of choose(2) === 0 ? ['F', 'B'] : ['F', 'I', 'W'])
        open.push({ phase, stage, microbatch })
  const done = new Set<string>()
  const lists: Action[][] = Array.from({ length: actors }, () => [])
  while (open.length > 0) {
    const ready = open.filter((action) => needsOf(action, stages, (key) => done.has(key)))
    const next = ready[choose(ready.length)]!
    done.add(keyOf(next))
    lists[placement[next.stage]!]!.push(next)
    open = open.filter((action) => action !== next)
  }
  return { stages, microbatches, placement, actors: lists }
}

/** Whether every actor can go through its list to the end, each action when all it needs is done anywhere. */
export function runsToItsEnd(schedule: Schedule): boolean {
  const done = new Set<string>()
  const position = schedule.actors.map(() => 0)
  for (let moved = true; moved; ) {
    moved = false
    schedule.actors.forEach((entries, actor) => {
      const entry = entries[position[actor]!]
      if (entry === undefined || 'pair' in entry) return
      if (!needsOf(entry, schedule.stages, (key) => done.has(key))) return
      done.add(keyOf(entry))
      position[actor]!++
      moved = true
    })
  }
  return position.every((at, actor) => at === schedule.actors[actor]!.length)
}
