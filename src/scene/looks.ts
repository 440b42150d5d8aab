import { phases } from '../schedule/index.ts'
import type { Family, FillToken, Tone } from './tokens.ts'
import { tones } from './tokens.ts'
import type { Mark } from './types.ts'

/** How one kind of box is drawn, and what it is called. */
export interface Look {
  readonly family: Family
  /** Before the micro-batch in a box, and in the legend. */
  readonly letter: string
  readonly name: string
  readonly mark: Mark
}

/**
 * Colours as pipeline papers have them: forward blue, backward orange, its half for inputs teal, for weights green. What
 * is a backward for inputs has a band at the top, for weights at the bottom, the whole both: legible without colour.
 */
const looks: ReadonlyMap<string, Look> = new Map(
  (
    [
      ['F', 'forward', 'forward', 'plain'],
      ['FB', 'backward', 'forward and backward, fused', 'ends'],
      ['B', 'backward', 'backward', 'both'],
      ['I', 'inputGradient', 'backward for inputs', 'top'],
      ['W', 'weightGradient', 'backward for weights', 'bottom'],
      ['U', 'update', 'update', 'ends'],
      ['R', 'recompute', 'recompute', 'hatch'],
      ['G', 'gather', 'gather', 'top'],
      ['X', 'release', 'release', 'ends'],
      ['S', 'reduce', 'reduce', 'bottom'],
      ['gather', 'gather', 'gather', 'top'],
      ['reduce', 'reduce', 'reduce', 'bottom'],
      ['transfer', 'transfer', 'transfer', 'plain'],
      ['move', 'move', 'move', 'ends'],
      ['wait', 'wait', 'waiting for another rank', 'hatch'],
    ] as const
  ).map(([phase, family, name, mark]) => [
    phase,
    { family, name, mark, letter: phase.length <= 2 ? phase : '' },
  ]),
)

/** Of any phase: one that is not known here is grey, under its own letter. */
export function lookOf(phase: string): Look {
  return (
    looks.get(phase) ?? {
      family: 'other',
      letter: phase.length <= 2 ? phase : '',
      name: phases.get(phase)?.name ?? phase,
      mark: 'plain',
    }
  )
}

/** Of the tones, first to last, for a chunk of so many. With more chunks than tones neighbours share one. */
export function toneOf(chunk: number, chunks: number): Tone {
  const last = tones.length - 1
  const place = chunks <= tones.length ? chunk : Math.floor((chunk * tones.length) / chunks)
  return tones[Math.min(last, Math.max(0, place))] ?? 0
}

export function fillToken(family: Family, tone: Tone): FillToken {
  return `${family}-${tone}`
}
