import { internalError } from '../../base/index.ts'
import type { PackEntry, Region } from '../types.ts'
import type { PackSegment, StageInfo } from './stages.ts'

/** Where a task of a stage reads a parameter and writes its gradient. */
export interface ParameterPlace {
  /** Stage whose pack has it. */
  readonly home: number
  /** Elements from the start of the pack. */
  readonly offset: number
  readonly shape: readonly number[]
  /** Part of the home's gradients that is written as one operand; undefined for all of them. */
  readonly region: Region | undefined
}

/**
 * A gradient that several stages of an actor add to is an operand of its own: which of them comes first, and so sets it,
 * is for the schedule to say, and another than sets the rest of the home's gradients.
 */
export function parameterPlace(stages: readonly StageInfo[], info: StageInfo, name: string): ParameterPlace {
  const home = info.pack.borrowed.get(name) ?? info.stage
  const { entries, segments, shared } = stages[home]!.pack
  const entry = entries.find((candidate) => candidate.name === name)
  if (entry === undefined) throw internalError(`parameter ${name} is in no pack for stage ${info.stage}`)
  const { offset, shape } = entry
  return { home, offset, shape, region: shared.size === 0 ? undefined : rangeOf(entry, segments) }
}

function rangeOf({ offset }: PackEntry, segments: readonly PackSegment[]): Region {
  const own = segments.find(({ start, end }) => start <= offset && offset < end)!
  const together = own.shared ? [own] : segments.filter(({ shared }) => !shared)
  return { start: together[0]!.start, end: together.at(-1)!.end }
}
