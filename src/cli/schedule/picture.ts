import { writeFileAtomic } from '../../data/index.ts'
import { makeScene, sceneToSvg, type Timeline, type TimeUnit, timelineOfTiming } from '../../scene/index.ts'
import { type DrawOptions, drawTimeline, type ScheduleTiming, type TimedEntry } from '../../schedule/index.ts'
import { counted } from '../format.ts'
import { paintPhase } from '../style.ts'
import { formatShare, formatTime, type Measured, type Measures } from './measures.ts'

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

/** One SVG document of the schedules, one under the other on one time axis. */
export function scheduleSvg(all: readonly Measured[], unit: TimeUnit): string {
  const [only] = all.length === 1 ? all : []
  const title =
    only === undefined
      ? all.map(({ measures }) => measures.name).join(', ')
      : `${only.measures.name}: ${counted(only.measures.ranks, 'rank')}, ${counted(only.measures.microbatches, 'micro-batch', 'micro-batches')}`
  const timelines = all.map(({ made, timing }) =>
    timelineOfTiming(made.schedule, timing, {
      title,
      unit,
      rowLabel: (rank) => (only === undefined ? `${made.name} ${rank}` : `rank ${rank}`),
    }),
  )
  const timeline: Timeline = {
    title,
    unit,
    rows: timelines.flatMap(({ rows }) => rows),
    end: Math.max(...timelines.map(({ end }) => end)),
    notes: all.map(({ measures }) => `${only === undefined ? `${measures.name}: ` : ''}${noteOf(measures)}`),
  }
  return sceneToSvg(makeScene(timeline), { theme: 'auto' })
}

function noteOf({ makespan, bubbleFraction, peakActivations, lowerBound }: Measures): string {
  return `time ${formatTime(makespan)}, lower bound ${formatTime(lowerBound)}; bubble ${formatShare(bubbleFraction)}; at most ${Math.max(...peakActivations)} activations of a stage on a rank.`
}

/** Writes to the file that `--svg` names, or to standard output where it names none. */
export function putSvg(svg: string, file: string | true): void {
  if (file === true || file === '-') process.stdout.write(svg)
  else {
    writeFileAtomic(file, svg)
    process.stderr.write(`wrote ${file}\n`)
  }
}
