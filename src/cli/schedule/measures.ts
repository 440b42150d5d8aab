import { MeshwrightError } from '../../base/index.ts'
import {
  type ScheduleMetrics,
  type ScheduleParameters,
  type ScheduleTiming,
  type StageCosts,
  scheduleMetrics,
  validateSchedule,
  windowCounts,
} from '../../schedule/index.ts'
import { formatCount, table } from '../format.ts'
import { chunksByRank } from './costs.ts'
import type { Made } from './subject.ts'

/** What a schedule is worth, and what is known of it in closed form. */
export interface Measures extends Omit<ScheduleMetrics, 'timing'> {
  readonly name: string
  readonly generator: string | null
  readonly parameters: ScheduleParameters
  readonly ranks: number
  readonly stages: number
  readonly microbatches: number
  readonly placement: readonly number[]
  /** In closed form; null where there is none for such stages. */
  readonly closed: {
    readonly makespan: number | null
    readonly peakActivations: readonly (number | null)[]
  }
  /** Most that a rank holds; 1 is what one micro-batch leaves in all chunks of a rank. */
  readonly worstPeak: number
  readonly closedWorstPeak: number | null
  /** Most times that a rank gathers all of its parameters, where a data axis shards them and windows are by unit. */
  readonly gathers: number
}

/** A schedule with its times. */
export interface Measured {
  readonly made: Made
  readonly timing: ScheduleTiming
  readonly measures: Measures
}

/** @throws MeshwrightError with the code of the first finding, where the schedule is not valid */
export function measure(made: Made): Measured {
  const { schedule, costs, generator } = made
  // What generators make is checked by tests, and as it is made where they are the user's own.
  const finding = generator === undefined ? validateSchedule(schedule, { limit: 1 })[0] : undefined
  if (finding !== undefined)
    throw new MeshwrightError(finding.code, [finding.message, ...(finding.grid ?? [])].join('\n'), {
      at: { file: made.name },
      hint: `meshwright schedule check says all that is wrong`,
    })
  const { timing, ...metrics } = scheduleMetrics(schedule, costs)
  const chunks = chunksByRank(schedule.placement)
  const shares = (counts: readonly (number | null)[]): number | null =>
    counts.includes(null)
      ? null
      : Math.max(...counts.map((count, rank) => Number(count) / Math.max(1, chunks[rank] ?? 0)))
  const closed = closedForms(made, chunks)
  const { stages, microbatches, placement } = schedule
  const measures: Measures = {
    ...metrics,
    name: made.name,
    generator: generator?.name ?? null,
    parameters: made.parameters,
    ranks: schedule.actors.length,
    stages,
    microbatches,
    placement,
    closed,
    worstPeak: shares(metrics.peakActivations) ?? 0,
    closedWorstPeak: shares(closed.peakActivations),
    gathers: shares(windowCounts(schedule, { mode: 'unit' }).gathers) ?? 0,
  }
  return { made, timing, measures }
}

function closedForms(
  { generator, parameters, schedule, costs }: Made,
  chunks: readonly number[],
): Measures['closed'] {
  const times = equalTimes(costs)
  const known = generator !== undefined && times !== undefined && chunks.every((count) => count === chunks[0])
  const shape = { actors: chunks.length, chunks: chunks[0]!, microbatches: schedule.microbatches }
  return {
    makespan: known ? (generator.closedForms.makespan(shape, parameters, times) ?? null) : null,
    peakActivations: chunks.map((_, actor) =>
      known ? (generator.closedForms.peakActivations(actor, shape, parameters) ?? null) : null,
    ),
  }
}

/** The times of every stage, where all are alike and hops take none: what closed forms speak of. */
function equalTimes({ F, I, W, hop }: StageCosts): { F: number; I: number; W: number } | undefined {
  const alike = [F, I, W].every((times) => times.every((time) => time === times[0]))
  return alike && hop === 0 ? { F: F[0]!, I: I[0]!, W: W[0]! } : undefined
}

/** `zeropp` with the parameters that its name does not say, if it has any. */
export function nameWithParameters({ name, parameters }: Measures): string {
  const set = Object.entries(parameters).filter(([key, value]) => value !== null && !name.includes(`${key}=`))
  return [name, ...set.map(([key, value]) => `${key}=${value}`)].join(' ')
}

export function formatTime(time: number): string {
  return String(Number(time.toPrecision(6)))
}

export function formatShare(share: number, digits = 2): string {
  return `${(100 * share).toFixed(digits)}%`
}

/** How much longer than the lower bound. */
export function overBound({ makespan, lowerBound }: Measures): string {
  return lowerBound > 0 ? `+${formatShare(makespan / lowerBound - 1, 1)}` : '–'
}

const orNone = (value: number | null, format: (value: number) => string): string =>
  value === null ? '–' : format(value)

/** Schedules side by side. */
export function measuresTable(all: readonly Measures[], unit: string): string[] {
  return table(
    [
      'schedule',
      'chunks',
      unit,
      'closed form',
      'over bound',
      'bubble',
      'peak',
      'closed form',
      'transfers',
      'gathers',
    ],
    all.map((one) => [
      one.name,
      String(Math.max(...chunksByRank(one.placement))),
      formatTime(one.makespan),
      orNone(one.closed.makespan, formatTime),
      overBound(one),
      formatShare(one.bubbleFraction),
      formatTime(one.worstPeak),
      orNone(one.closedWorstPeak, formatTime),
      formatCount(one.hops),
      formatTime(one.gathers),
    ]),
  )
}

/** What the columns of `measuresTable` are. */
export const tableLegend: readonly string[] = [
  'over bound: time over that of the lower bound, the longest of what any rank must wait, do and wait for again',
  'bubble: 1 - work / span from first to last action, of the ranks with most; peak: activations that the fullest rank',
  'holds, of one micro-batch in all of its chunks (one of V chunks counts 1/V); transfers: activations and cotangents',
  'from rank to rank; gathers: times that a rank gathers its parameters, where a data axis shards them',
]

export function measuresDocument(one: Measures): Record<string, unknown> {
  return {
    name: one.generator ?? one.name,
    parameters: one.parameters,
    ranks: one.ranks,
    stages: one.stages,
    microbatches: one.microbatches,
    placement: one.placement,
    makespanSeconds: one.makespan,
    lowerBoundSeconds: one.lowerBound,
    bubbleFraction: one.bubbleFraction,
    peakActivations: one.peakHeld,
    peakUntilWeights: one.peakActivations,
    worstPeak: one.worstPeak,
    closedForms: {
      makespanSeconds: one.closed.makespan,
      peakUntilWeights: one.closed.peakActivations,
      worstPeak: one.closedWorstPeak,
    },
    hops: one.hops,
    gathers: one.gathers,
  }
}
