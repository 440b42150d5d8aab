import { leastCommonMultiple } from '../base/index.ts'
import { sampleParts } from './layoutChecks.ts'
import type { Report } from './resolve.ts'
import type { PlanDocument } from './types.ts'

/** No plan has more samples in a step, or more micro-batches (see schema.ts). */
const maximumSamples = 2 ** 31 - 1
const maximumMicrobatches = 65_536

/**
 * Samples into micro-batches, and each micro-batch into equal slices, one for each replica of an actor, which a square or cube of
 * ranks cuts further.
 */
export function findDivisibility(plan: PlanDocument, replicas: readonly number[], report: Report): undefined {
  const { samples, microbatches } = plan.batch
  const parts = sampleParts(plan.mesh.tensor)
  const unit = leastCommonMultipleOf(replicas.map((count) => count * parts))
  if (samples % microbatches !== 0)
    return report(
      'PLAN_BATCH',
      ['batch', 'samples'],
      `${samples} samples do not divide into ${microbatches} micro-batches`,
      workingNumbers(samples, microbatches, unit),
    )
  const size = samples / microbatches
  const isEqual = replicas.every((count) => count === replicas[0])
  const uncut = replicas.findIndex((count) => size % (count * parts) !== 0)
  if (uncut < 0) return undefined
  const actor = replicas.findIndex((count) => size % count !== 0)
  if (actor < 0)
    return report(
      'PLAN_BATCH',
      ['batch', 'samples'],
      `mesh.tensor cuts the samples of a micro-batch on a replica of ${isEqual ? 'each actor' : `actor ${uncut}`} into ${parts} parts, but their number is ${size / replicas[uncut]!}`,
      workingNumbers(samples, microbatches, unit),
    )
  return report(
    'PLAN_BATCH',
    ['batch', 'samples'],
    `a micro-batch of ${size} samples does not divide over the ${replicas[actor]} replicas of ${isEqual ? 'each actor' : `actor ${actor}`}`,
    workingNumbers(samples, microbatches, unit),
  )
}

/** Samples or micro-batches next to the given ones that divide, in words. `unit` divides every micro-batch. */
function workingNumbers(samples: number, microbatches: number, unit: number): string {
  const step = microbatches * unit
  const below = Math.floor(samples / step) * step
  const multiples = [below, below + step].filter((value) => value > 0 && value <= maximumSamples)
  const works = (count: number): boolean => samples % (count * unit) === 0
  const counts: number[] = []
  for (let count = microbatches - 1; count > 0 && counts.length < 1; count--)
    if (works(count)) counts.push(count)
  for (let count = microbatches + 1; count <= Math.min(samples, maximumMicrobatches); count++)
    if (works(count)) {
      counts.push(count)
      break
    }
  const ways = [
    multiples.length === 0 ? [] : [`batch.samples ${multiples.join(' or ')}`],
    counts.length === 0 ? [] : [`batch.microbatches ${counts.join(' or ')}`],
  ].flat()
  return ways.length === 0
    ? 'choose replicas that have divisors in common'
    : `${ways.join(', or ')} would work`
}

/** Infinity where it is past all bounds. */
export function leastCommonMultipleOf(values: readonly number[]): number {
  let multiple = 1
  for (const value of values) {
    multiple = leastCommonMultiple(multiple, value)
    if (multiple > maximumSamples) return Number.POSITIVE_INFINITY
  }
  return multiple
}
