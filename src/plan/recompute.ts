import * as z from 'zod'
import { didYouMean } from '../base/index.ts'
import type { RecomputeChoice } from '../graph/index.ts'
import type { PlannedModel } from './modelShape.ts'
import type { Report } from './resolve.ts'
import type { PlanDocument } from './types.ts'

/** What is computed again before a backward: nothing, attention cores, all layers, or some (by number, or blocks by name). */
export type PlanRecompute = 'none' | 'attention' | 'full' | readonly (string | number)[]

const block = z
  .union([z.int().min(0).max(1_000_000), z.string().min(1).max(200)])
  .meta({ title: 'a layer number or the name of a block' })

export const recomputeSchema: z.ZodType = z
  .union([z.enum(['none', 'attention', 'full']), z.array(block).min(1).max(100_000)])
  .default('none')
  .meta({
    description:
      'what is computed again before the backward, not held: the attention core (attention), all layers (full), or a list of layers and blocks',
  })

/** As the graph room takes it; undefined, and reported, where a block is not the model's. */
export function resolveRecompute(
  { recompute }: PlanDocument,
  { name, blocks }: PlannedModel,
  report: Report,
): RecomputeChoice | undefined {
  if (recompute === 'none' || recompute === 'attention') return { kind: recompute }
  const layers = blocks.slice(1, -1)
  if (recompute === 'full') return { kind: 'full', blocks: new Set(layers) }
  const chosen = new Set<string>()
  for (const [index, wanted] of recompute.entries()) {
    const found = typeof wanted === 'number' ? layers[wanted] : blocks.find((known) => known === wanted)
    if (found === undefined)
      return report(
        'PLAN_RECOMPUTE',
        ['recompute', index],
        `${name} has no ${typeof wanted === 'number' ? `layer ${wanted}` : `block "${wanted}"`}`,
        (typeof wanted === 'string' ? didYouMean(wanted, blocks) : undefined) ??
          `layers are numbered 0 to ${layers.length - 1}; blocks are ${blocks.slice(0, 2).join(', ')} … ${blocks.at(-1)}`,
      )
    chosen.add(found)
  }
  return { kind: 'full', blocks: chosen }
}

/**
 * The same for a model whose stages have fewer layers: all of a stage's layers where it was all; the first where it was
 * some. Lists name layers then by number.
 */
export function shrinkRecompute(
  recompute: PlanRecompute,
  before: readonly number[],
  after: readonly number[],
): PlanRecompute {
  if (typeof recompute === 'string') return recompute
  const numberOf = (block: string | number): number | undefined => {
    if (typeof block === 'number') return block
    const digits = /\.(\d+)$/.exec(block)?.[1]
    return digits === undefined ? undefined : Number(digits)
  }
  const chosen = new Set(recompute.map(numberOf))
  const shrunk: (string | number)[] = recompute.filter((block) => numberOf(block) === undefined)
  let [first, firstAfter] = [0, 0]
  for (const [stage, count] of before.entries()) {
    const own = Array.from({ length: count }, (_, layer) => chosen.has(first + layer))
    const some = own.every(Boolean) ? after[stage]! : own.some(Boolean) ? 1 : 0
    for (let layer = 0; layer < some; layer++) shrunk.push(firstAfter + layer)
    first += count
    firstAfter += after[stage]!
  }
  return shrunk
}
