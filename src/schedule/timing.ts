import { MeshwrightError } from '../base/index.ts'
import { entryActions, formatAction } from './actions.ts'
import { ruleOf } from './dependences.ts'
import { type Latencies, playSchedule, type TimedEntry } from './progress.ts'
import type { Action, Schedule, StageGraph } from './types.ts'

export interface ScheduleTiming {
  readonly actors: number
  /** In an order that respects every dependence, by start time: a global order for all actors. */
  readonly entries: readonly TimedEntry[]
  /** From time 0 to the end of the last action. */
  readonly makespan: number
  /** Time each actor works. */
  readonly busy: readonly number[]
  /** Most micro-batches (or slices of them) whose activations each stage holds at once. */
  readonly peakInFlight: readonly number[]
  /** The same of each actor, over all of its stages. */
  readonly peakActivations: readonly number[]
}

/**
 * Start and end of every action under given latencies. Transfers delay, they do not compete for links.
 *
 * @throws MeshwrightError `SCHEDULE_STUCK` when the schedule cannot run to its end (`validateSchedule` says why),
 *   `SCHEDULE_LATENCY` for a latency that is no time.
 */
export function timeSchedule(
  schedule: Schedule,
  latencies: Latencies = {},
  options: { readonly edges?: StageGraph['edges'] } = {},
): ScheduleTiming {
  checkLatencies(latencies, schedule.stages)
  const { entries, blocked } = playSchedule(schedule, { ...options, latencies })
  const first = blocked[0]
  if (first !== undefined)
    throw new MeshwrightError(
      'SCHEDULE_STUCK',
      `the schedule cannot go on: ${formatAction(first.action)} on actor ${first.actor} waits for ` +
        `${formatAction(first.waitsFor)} for ever`,
    )
  const busy = schedule.actors.map(() => 0)
  let makespan = 0
  for (const entry of entries) {
    busy[entry.actor]! += entry.end - entry.start
    makespan = Math.max(makespan, entry.end)
  }
  return { actors: schedule.actors.length, entries, makespan, busy, ...peaks(schedule) }
}

/** Peak of each stage and each actor in list order: an actor does one entry at a time, so latencies do not matter. */
function peaks(schedule: Schedule): Pick<ScheduleTiming, 'peakInFlight' | 'peakActivations'> {
  const now = Array.from({ length: schedule.stages }, () => 0)
  const peakInFlight = now.slice()
  const peakActivations = schedule.actors.map((entries) => {
    let held = 0
    let peak = 0
    for (const entry of entries) {
      // In a pair the forward may start before the backward ends: what is taken counts before what is released.
      const effects =
        'pair' in entry ? entry.pair.toSorted((a, b) => changeOf(b) - changeOf(a)) : entryActions(entry)
      for (const action of effects) {
        const { stage } = action
        const change = changeOf(action)
        held += change
        peak = Math.max(peak, held)
        now[stage]! += change
        peakInFlight[stage] = Math.max(peakInFlight[stage]!, now[stage]!)
      }
    }
    return peak
  })
  return { peakInFlight, peakActivations }
}

function changeOf({ phase }: Action): number {
  return ruleOf(phase).activations
}

function checkLatencies(latencies: Latencies, stages: number): void {
  const check = (name: string, value: number | undefined): void => {
    if (value === undefined || !Number.isFinite(value) || value < 0)
      throw new MeshwrightError('SCHEDULE_LATENCY', `latency of ${name} is ${value}`, {
        hint: 'a latency is a finite number, zero or more',
      })
  }
  check('a hop', latencies.hop ?? 0)
  for (const [phase, given] of Object.entries(latencies.phases ?? {}))
    if (typeof given === 'number') check(phase, given)
    else for (let stage = 0; stage < stages; stage++) check(`${phase} of stage ${stage}`, given[stage])
}
