import { createHash } from 'node:crypto'
import { exitCodes, MeshwrightError } from '../../base/index.ts'
import {
  type ParameterRule,
  placeStages,
  printSchedule,
  type ScheduleGenerator,
  scheduleGenerators,
} from '../../schedule/index.ts'
import type { CostsOf } from './costs.ts'
import { formatTime, type Measures, measure } from './measures.ts'
import { type Made, makeSchedule } from './subject.ts'

export interface SearchShape {
  readonly ranks: number
  readonly microbatches: number
  /** In activations of a micro-batch in all chunks of a rank. */
  readonly memory: number
}

interface Candidate {
  readonly generator: ScheduleGenerator
  readonly given: Readonly<Record<string, number | string | boolean>>
}

/** Actions of one candidate past which a search would take too long. */
const mostActions = 400_000
const chunkCounts = [1, 2, 3, 4, 6, 8]
const counts = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64]

/**
 * Every generator with a small grid of its parameters, those that keep the limit first by makespan, then by memory, then
 * by transfers.
 *
 * @throws MeshwrightError `SCHEDULE_MEMORY` where none does, `SCHEDULE_STAGES` for a shape that is too large to search
 */
export function searchSchedules(
  shape: SearchShape,
  costsOf: CostsOf,
  onProgress: (done: number, of: number, name: string) => void,
): { readonly tried: number; readonly fitting: readonly Measures[] } {
  const { ranks, microbatches, memory } = shape
  if (3 * ranks * microbatches > mostActions)
    throw new MeshwrightError(
      'SCHEDULE_STAGES',
      `${ranks} ranks x ${microbatches} micro-batches are too many to search`,
      { hint: `with ${ranks} ranks at most ${Math.floor(mostActions / (3 * ranks))} micro-batches` },
    )
  const candidates = [...scheduleGenerators.values()].flatMap((generator) => gridOf(generator, shape))
  const fitting: Measures[] = []
  const seen = new Set<string>()
  let least: Measures | undefined
  for (const [index, candidate] of candidates.entries()) {
    onProgress(index, candidates.length, nameOf(candidate))
    const made = tryCandidate(candidate, shape, costsOf)
    if (made === undefined) continue
    const { measures } = measure(made)
    if (least === undefined || measures.worstPeak < least.worstPeak) least = measures
    if (measures.worstPeak > memory * (1 + 1e-9)) continue
    // Parameters that change nothing, or another name for the same schedule.
    const text = createHash('sha256').update(printSchedule(made.schedule)).digest('base64')
    if (!seen.has(text)) fitting.push(measures)
    seen.add(text)
  }
  fitting.sort((a, b) => a.makespan - b.makespan || a.worstPeak - b.worstPeak || a.hops - b.hops)
  if (fitting.length === 0)
    throw new MeshwrightError(
      'SCHEDULE_MEMORY',
      `no schedule for ${ranks} ranks and ${microbatches} micro-batches holds at most ${formatTime(memory)} activations a rank`,
      {
        exitCode: exitCodes.infeasible,
        hint:
          memory < 1 || least === undefined
            ? 'give at least 1: what a micro-batch leaves on a rank stays there until its backward'
            : `give --memory ${formatTime(least.worstPeak)}, the least that was found, by ${least.name}`,
      },
    )
  return { tried: candidates.length, fitting }
}

/** Undefined where the generator has no such schedule, or one that is too large. */
function tryCandidate(
  candidate: Candidate,
  { ranks, microbatches }: SearchShape,
  costsOf: CostsOf,
): Made | undefined {
  const { generator, given } = candidate
  try {
    const stages = placeStages(generator, ranks, given).length
    if (3 * stages * microbatches > mostActions) return undefined
    const subject = { kind: 'generator', name: nameOf(candidate), generator, given } as const
    return makeSchedule(subject, { ranks, microbatches }, {}, {}, costsOf)
  } catch (error) {
    if (error instanceof MeshwrightError && error.code === 'SCHEDULE_REFUSED') return undefined
    throw error
  }
}

/** Every combination of a few values of each parameter. */
function gridOf(generator: ScheduleGenerator, shape: SearchShape): Candidate[] {
  let grid: Candidate['given'][] = [{}]
  // Chunks first: what memory allows depends on them.
  const rules = Object.entries(generator.parameters).sort(
    ([a], [b]) => Number(b === 'chunks') - Number(a === 'chunks'),
  )
  for (const [name, rule] of rules)
    grid = grid.flatMap((before) =>
      valuesOf(name, rule, shape, generator, before).map((value) =>
        value === undefined ? before : { ...before, [name]: value },
      ),
    )
  return grid.map((given) => ({ generator, given }))
}

/** What is worth trying; undefined stands for the parameter's default. */
function valuesOf(
  name: string,
  rule: ParameterRule,
  { ranks, microbatches, memory }: SearchShape,
  generator: ScheduleGenerator,
  before: Candidate['given'],
): (number | string | boolean | undefined)[] {
  if (rule.kind === 'boolean') return [undefined, !rule.default]
  if (rule.kind === 'choice') {
    // Memory is counted here with all of an activation kept from I to W.
    if (name === 'kept') return ['whole']
    return [undefined, ...Object.keys(rule.choices).filter((choice) => choice !== rule.default)]
  }
  const legal = (values: readonly number[]): number[] =>
    [...new Set(values)].filter((value) => value >= rule.minimum && value <= rule.maximum)
  switch (name) {
    case 'chunks':
      return legal(chunkCounts)
    case 'unit':
    case 'k': {
      const most = Math.min(microbatches, Math.max(1, Math.floor(memory)))
      return legal([...counts, ranks, 2 * ranks, most].filter((count) => count <= most))
    }
    case 'memory':
    case 'maxInFlight': {
      // The size of a unit says the same.
      if (generator.parameters['unit'] !== undefined) return [undefined]
      const chunks = placeStages(generator, ranks, before).length / ranks
      return legal([Math.min(Math.floor(memory * chunks), microbatches * chunks)])
    }
    default:
      return [undefined]
  }
}

/** `zeropp:chunks=2,unit=4`, which the command line reads back. */
function nameOf({ generator: { name }, given }: Candidate): string {
  const settings = Object.entries(given).map(([key, value]) => `${key}=${String(value)}`)
  return settings.length === 0 ? name : `${name}:${settings.join(',')}`
}
