import { writeFileAtomic } from '../../data/index.ts'
import {
  makeScene,
  type SvgOptions,
  sceneToSvg,
  type Timeline,
  type TimeUnit,
  timelineOfTiming,
} from '../../scene/index.ts'
import { counted } from '../format.ts'
import { formatShare, formatTime, type Measured, type Measures } from './measures.ts'

/** One SVG document of the schedules, one under the other on one time axis. */
export function scheduleSvg(
  all: readonly Measured[],
  unit: TimeUnit,
  theme: NonNullable<SvgOptions['theme']>,
): string {
  // Names may be long: rows have letters, the title and the notes say which is which.
  const marks = all.map((_, index) => (all.length === 1 ? '' : `${markOf(index)} `))
  const title =
    all.length === 1
      ? all.map(({ measures }) => describe(measures)).join('')
      : all.map(({ measures }, index) => marks[index] + measures.name).join(', ')
  const timelines = all.map(({ made, timing }, index) =>
    timelineOfTiming(made.schedule, timing, {
      title,
      unit,
      rowLabel: (rank) => `${marks[index]}rank ${rank}`,
    }),
  )
  const timeline: Timeline = {
    title,
    unit,
    rows: timelines.flatMap(({ rows }) => rows),
    end: Math.max(...timelines.map(({ end }) => end)),
    notes: all.map(({ measures }, index) => `${marks[index]}${noteOf(measures)}`),
  }
  return sceneToSvg(makeScene(timeline), { theme })
}

/** A to Z, then numbers. */
function markOf(index: number): string {
  return index < 26 ? String.fromCharCode(65 + index) : String(index + 1)
}

function describe({ name, ranks, microbatches }: Measures): string {
  return `${name}: ${counted(ranks, 'rank')}, ${counted(microbatches, 'micro-batch', 'micro-batches')}`
}

function noteOf({ name, makespan, bubbleFraction, peakActivations, lowerBound }: Measures): string {
  return `${name}: time ${formatTime(makespan)}, lower bound ${formatTime(lowerBound)}; bubble ${formatShare(bubbleFraction)}; at most ${Math.max(...peakActivations)} activations of a stage on a rank.`
}

/** Writes to the file that `--svg` names, or to standard output where it names none. */
export function putSvg(svg: string, file: string | true): void {
  if (file === true || file === '-') process.stdout.write(svg)
  else {
    writeFileAtomic(file, svg)
    process.stderr.write(`wrote ${file}\n`)
  }
}
