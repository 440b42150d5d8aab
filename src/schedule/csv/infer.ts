import { entryActions } from '../actions.ts'
import type { TimedEntry } from '../progress.ts'
import { timeSchedule } from '../timing.ts'
import type { Action, Schedule, ScheduleEntry } from '../types.ts'
import { isCommunication } from './letters.ts'

/** Stages of one actor whose parameters are gathered at once, the one after next being fetched ahead. */
const gatheredStages = 3

export interface InferOptions {
  /**
   * Where a receive stands: in the receiver's list at the moment of the send, as PyTorch's runtime puts it, or directly
   * before the action that needs it, as loops written by hand have it. Default `at-send`.
   */
  readonly receives?: 'at-send' | 'at-use'
}

/** A transfer that the data flow of a chain of stages asks for. */
export interface Transfer {
  readonly send: Action
  readonly receive: Action
}

/** What an action's result is sent as, if the neighbour that needs it is on another actor. */
export function transferOf(action: Action, { stages, placement }: Schedule): Transfer | undefined {
  const { phase, stage, microbatch } = action
  const isForward = phase === 'F'
  if (!isForward && phase !== 'B' && phase !== 'I') return undefined
  const to = isForward ? stage + 1 : stage - 1
  if (to < 0 || to >= stages || placement[to] === placement[stage]) return undefined
  return {
    send: { phase: isForward ? 'SEND_F' : 'SEND_B', stage, microbatch },
    receive: { phase: isForward ? 'RECV_F' : 'RECV_B', stage: to, microbatch },
  }
}

/**
 * Adds to a valid schedule of a chain the communication that its data flow asks for: a send directly after each action
 * whose result is needed on another actor, its receive, gathering and release of parameters, and one reduction of a
 * stage's gradients after its last weight gradient.
 *
 * Received `at-send`, sends and receives stand in one global order, that of time in units, so that no actor waits for
 * ever even where a send waits for its receive.
 *
 * @throws MeshwrightError `SCHEDULE_STUCK` for a schedule that cannot run to its end
 */
export function inferCommunication(schedule: Schedule, options: InferOptions = {}): Schedule {
  const { entries } = timeSchedule(schedule)
  const atSend = options.receives !== 'at-use'
  const actors: ScheduleEntry[][] = schedule.actors.map(() => [])
  const left = schedule.actors.map((list) => lastGradients(list))
  const ended = (entry: TimedEntry): void => {
    const own = actors[entry.actor]!
    for (const action of entry.actions) {
      const transfer = transferOf(action, schedule)
      if (transfer === undefined) continue
      own.push(transfer.send)
      if (atSend) actors[schedule.placement[transfer.receive.stage]!]!.push(transfer.receive)
    }
    for (const stage of left[entry.actor]!.get(entry.index) ?? [])
      own.push({ phase: 'REDUCE_GRAD', stage, microbatch: 0 })
  }
  // At equal times what ends comes before what starts, so that a result is received before the next action.
  const byEnd = entries.toSorted((a, b) => a.end - b.end)
  let next = 0
  for (const entry of entries) {
    while (byEnd[next]!.end <= entry.start && byEnd[next] !== entry) ended(byEnd[next++]!)
    const own = actors[entry.actor]!
    if (!atSend) for (const action of entry.actions) own.push(...receivesOf(action, schedule))
    own.push(schedule.actors[entry.actor]![entry.index]!)
  }
  for (; next < byEnd.length; next++) ended(byEnd[next]!)
  return { ...schedule, actors: actors.map(addWindows) }
}

/** What must be received before an action. */
function receivesOf({ phase, stage, microbatch }: Action, schedule: Schedule): Action[] {
  const source: Action | undefined =
    phase === 'F'
      ? { phase: 'F', stage: stage - 1, microbatch }
      : ['B', 'I'].includes(phase)
        ? { phase: 'B', stage: stage + 1, microbatch }
        : undefined
  if (source === undefined || source.stage < 0 || source.stage >= schedule.stages) return []
  const transfer = transferOf(source, schedule)
  return transfer === undefined ? [] : [transfer.receive]
}

/** Stages whose last weight gradient stands at a place of the list. */
function lastGradients(list: readonly ScheduleEntry[]): Map<number, number[]> {
  const last = new Map<number, number>()
  for (const [index, entry] of list.entries())
    for (const { phase, stage } of entryActions(entry))
      if (phase === 'B' || phase === 'W') last.set(stage, index)
  const byPlace = new Map<number, number[]>()
  for (const [stage, index] of last) byPlace.set(index, [...(byPlace.get(index) ?? []), stage])
  return byPlace
}

/** Gathers the parameters of the next few stages ahead of their use, and lets go of those that come later than these. */
function addWindows(list: readonly ScheduleEntry[]): ScheduleEntry[] {
  const wanted = nextStages(list)
  const gathered = new Set<number>()
  const result: ScheduleEntry[] = []
  const change = (phase: string, stage: number): void => {
    result.push({ phase, stage, microbatch: 0 })
  }
  for (const [index, entry] of list.entries()) {
    const stages = wanted[index]
    if (stages !== undefined) {
      for (const stage of [...gathered])
        if (!stages.includes(stage)) {
          change('RESHARD', stage)
          gathered.delete(stage)
        }
      for (const stage of stages)
        if (!gathered.has(stage)) {
          change('UNSHARD', stage)
          gathered.add(stage)
        }
    }
    result.push(entry)
  }
  for (const stage of gathered) change('RESHARD', stage)
  return result
}

/** At each computation the first different stages that the list computes from there on; and at the
 * start of the list; undefined elsewhere. */
function nextStages(list: readonly ScheduleEntry[]): (readonly number[] | undefined)[] {
  const wanted: (readonly number[] | undefined)[] = Array.from({ length: list.length })
  let coming: readonly number[] = []
  for (let index = list.length - 1; index >= 0; index--) {
    const entry = list[index]!
    const own = isCommunication(entry) ? [] : entryActions(entry).map(({ stage }) => stage)
    if (own.length === 0) continue
    if (own.some((stage, at) => coming[at] !== stage))
      coming = [...new Set([...own, ...coming])].slice(0, gatheredStages)
    wanted[index] = coming
  }
  // The first are gathered before the first receive is waited for.
  wanted[0] = coming
  return wanted
}
