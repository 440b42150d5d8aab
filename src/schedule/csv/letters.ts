import { formatAction, formatEntry } from '../actions.ts'
import type { Action, Schedule, ScheduleEntry } from '../types.ts'

/** What PyTorch's files can say beside F, I, W and B; the letters are its own. */
export const transferLetters = ['SEND_F', 'RECV_F', 'SEND_B', 'RECV_B'] as const
/** Of a stage, not of a micro-batch; in an `Action` their micro-batch is 0. */
export const stageLetters = ['UNSHARD', 'RESHARD', 'REDUCE_GRAD'] as const
export const computeLetters = ['F', 'I', 'W', 'B'] as const

/** Until the end of 2024 B was the input gradient, and BW the whole backward. */
export type CsvLetters = 'current' | '2024'

const ofStage: ReadonlySet<string> = new Set(stageLetters)
const communications: ReadonlySet<string> = new Set([...transferLetters, ...stageLetters])

export function isOfStage(letter: string): boolean {
  return ofStage.has(letter)
}

/** Whether an entry moves or frees something and computes nothing. */
export function isCommunication(entry: ScheduleEntry): entry is Action {
  return !('pair' in entry) && communications.has(entry.phase)
}

/** `2SEND_F5`, `1UNSHARD`; computations as everywhere. */
export function formatCsvEntry(entry: ScheduleEntry): string {
  if ('pair' in entry) return formatEntry(entry)
  return isOfStage(entry.phase) ? `${entry.stage}${entry.phase}` : formatAction(entry)
}

/** A schedule without its communication. */
export function computePart(schedule: Schedule): Schedule {
  return {
    ...schedule,
    actors: schedule.actors.map((entries) => entries.filter((entry) => !isCommunication(entry))),
  }
}
