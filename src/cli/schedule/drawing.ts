import { type DrawOptions, drawTimeline, type ScheduleTiming, type TimedEntry } from '../../schedule/index.ts'
import { paintPhase } from '../style.ts'
import type { Measured } from './measures.ts'

/**
 * Ranks x time in characters. Where exact times would make it wider than the screen, the shortest action is one column
 * and times are rounded to it.
 */
export function drawSchedule({ timing }: Measured): string[] {
  const digits = String(timing.actors - 1).length
  const plain: ScheduleTiming = { ...timing, entries: timing.entries.map(withoutUnits) }
  const options: DrawOptions = {
    maximumWidth: process.stdout.columns ?? 120,
    paint: paintPhase,
    rowName: (rank) => `rank ${String(rank).padStart(digits)}`,
  }
  const lines = drawTimeline(plain, options)
  if (!lines.some(isCut)) return lines
  const rounded = drawTimeline(plain, { ...options, unit: shortestAction(plain) })
  return rounded.some(isCut) ? [...rounded, '', '... goes on; --svg draws all of it'] : rounded
}

const isCut = (line: string): boolean => line.endsWith('...')

/** Units say which micro-batches go together; drawn, they would make every label longer. */
function withoutUnits(entry: TimedEntry): TimedEntry {
  return { ...entry, actions: entry.actions.map(({ unit: _, ...action }) => action) }
}

function shortestAction({ entries, makespan }: ScheduleTiming): number {
  const lengths = entries.map(({ actions, start, end }) => (end - start) / actions.length)
  return lengths.reduce((least, one) => (one > 0 && one < least ? one : least), makespan)
}
