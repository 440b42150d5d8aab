import { internalError } from '../../base/index.ts'
import { localShape } from '../shards.ts'
import type { MeshAxis, PackEntry, Region } from '../types.ts'
import type { CutGraph } from './cutGraph.ts'
import { type ParameterPack, type StageInfo, type SummedTensor, segmentAt } from './packs.ts'

/** Where a task of a stage reads a parameter and writes its gradient. */
export interface ParameterPlace {
  /** Pack that has it. */
  readonly home: string
  /** Elements from the start of the pack. */
  readonly offset: number
  /** Of what a rank has. */
  readonly shape: readonly number[]
  /** Part of the home's gradients that is written as one operand; undefined for all of them. */
  readonly region: Region | undefined
}

/** Pieces of a stage's phases that write the gradient of a parameter, in words; '' where all are written at once. */
export type GradientWriters = (parameter: string) => string

export const oneWriter: GradientWriters = () => ''

export function parameterPlace(
  stages: readonly StageInfo[],
  info: StageInfo,
  name: string,
  writers: GradientWriters = oneWriter,
): ParameterPlace {
  const { pack, entry, mesh } = findEntry(stages, info, name)
  return {
    home: pack.home,
    offset: entry.offset,
    shape: localShape(entry, mesh),
    region: gradientRegion(pack, entry, writers),
  }
}

function findEntry(
  stages: readonly StageInfo[],
  info: StageInfo,
  name: string,
): { readonly pack: ParameterPack; readonly entry: PackEntry; readonly mesh: readonly MeshAxis[] } {
  const { packs, mesh } = stages[info.borrowed.get(name) ?? info.stage]!
  for (const pack of packs) {
    const entry = pack.entries.find((candidate) => candidate.name === name)
    if (entry !== undefined) return { pack, entry, mesh }
  }
  throw internalError(`parameter ${name} is in no pack for stage ${info.stage}`)
}

/** How a gradient is added up. */
export function parameterSums(stages: readonly StageInfo[], info: StageInfo, name: string): SummedTensor {
  const { pack, entry } = findEntry(stages, info, name)
  return segmentAt(pack, entry.offset)
}

/** Elements of a pack that belong to an entry, the padding behind it among them. */
function slotOf({ entries, elements }: ParameterPack, index: number): Region {
  return { start: index === 0 ? 0 : entries[index]!.offset, end: entries[index + 1]?.offset ?? elements }
}

/** Whether there is padding behind an entry, which whoever sets its elements sets too. */
export function isPadded(stages: readonly StageInfo[], info: StageInfo, name: string): boolean {
  const { pack, entry, mesh } = findEntry(stages, info, name)
  const { start, end } = slotOf(pack, pack.entries.indexOf(entry))
  return end - start !== localShape(entry, mesh).reduce((product, size) => product * size, 1)
}

/**
 * A gradient that several stages of an actor add to is an operand of its own: which of them comes first, and so sets it,
 * is for the schedule to say, and another than sets the rest of the home's gradients. Neighbours that the same pieces write
 * are one operand.
 */
function gradientRegion(pack: ParameterPack, entry: PackEntry, writers: GradientWriters): Region | undefined {
  const { entries, shared } = pack
  if (shared.size === 0 && writers === oneWriter) return undefined
  const kind = ({ name }: PackEntry): string => (shared.has(name) ? `shared ${name}` : writers(name))
  const own = kind(entry)
  let first = entries.indexOf(entry)
  let last = first
  while (first > 0 && kind(entries[first - 1]!) === own) first--
  while (last + 1 < entries.length && kind(entries[last + 1]!) === own) last++
  if (last - first + 1 === entries.length) return undefined
  return { start: slotOf(pack, first).start, end: slotOf(pack, last).end }
}

/** Which pieces of these phases write what, where there are several. */
export function gradientWriters(
  { tasks }: StageInfo,
  phases: readonly (CutGraph | undefined)[],
): GradientWriters {
  if (phases.every((phase) => phase === undefined)) return oneWriter
  const outputs = new Map<string, string[]>()
  for (const gradient of tasks.gradients) {
    const { parameter } = gradient
    const output = gradient.kind === 'dense' ? gradient.output : gradient.values
    outputs.set(parameter, [...(outputs.get(parameter) ?? []), output])
  }
  const makers = phases.map((phase) => {
    const found = new Map<string, string>()
    phase?.steps.forEach((step, index) => {
      if (step.kind === 'run') for (const { name } of step.graph.outputs) found.set(name, String(index))
      // Of one tensor alone.
      else
        for (const { result } of step.parts)
          if (result.kind === 'output') found.set(result.name, `${index} ${result.name}`)
    })
    return found
  })
  return (parameter) =>
    makers
      .map((found) => (outputs.get(parameter) ?? []).map((name) => found.get(name) ?? '').join())
      .join(' | ')
}
