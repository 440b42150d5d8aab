import { makeLayout } from '../layout.ts'
import type { Layout } from '../types.ts'

/** How a value is wanted. */
export interface WantedLayout extends Layout {
  /** Terms, along axes that the layout does not name, may stay terms. */
  readonly keepsTerms?: true
  /** Where the backward takes it, it is held so, not made again. */
  readonly keep?: true
}

/** The layout that a value made as `made` is to be in: with the terms that it has where the want lets them be. */
export function targetOf(wanted: WantedLayout, made: Layout): Layout {
  const { dims, partial, varying } = wanted
  if (wanted.keepsTerms !== true) return makeLayout(dims, { partial, varying })
  const used = [...dims.flat(), ...varying]
  const kept = Object.entries(made.partial).filter(([axis]) => !used.includes(axis))
  return makeLayout(dims, { partial: { ...Object.fromEntries(kept), ...partial }, varying })
}
